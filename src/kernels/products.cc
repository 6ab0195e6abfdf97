#include "kernels/products.h"

#include "base/check.h"
#include "kernels/products_decode.h"
#include "kernels/products_layout.h"

namespace quire::kernels {
namespace {

struct FormatFacts {
  std::string_view name;
  int block_inputs;
  size_t block_bytes;  // in the file
  int unit_inputs;     // in the packed form
  size_t unit_bytes;
};

template <typename Layout>
constexpr FormatFacts quantized_facts(std::string_view name, int block_inputs, size_t block_bytes) {
  return {name, block_inputs, block_bytes, Layout::kUnitBlocks * layout::kBlockInputs, Layout::kUnitBytes};
}

constexpr FormatFacts kFacts[kWeightFormats] = {
    {"F32", 1, 4, 1, 4 * kGroupOutputs},
    {"F16", 1, 2, 1, 2 * kGroupOutputs},
    {"BF16", 1, 2, 1, 2 * kGroupOutputs},
    quantized_facts<layout::Q4_0>("Q4_0", 32, 18),
    quantized_facts<layout::Q4_1>("Q4_1", 32, 20),
    quantized_facts<layout::Q5_0>("Q5_0", 32, 22),
    quantized_facts<layout::Q8_0>("Q8_0", 32, 34),
    quantized_facts<layout::Q4_K>("Q4_K", 256, 144),
    quantized_facts<layout::Q5_K>("Q5_K", 256, 176),
    quantized_facts<layout::Q6_K>("Q6_K", 256, 210),
};

const FormatFacts& facts(WeightFormat format) { return kFacts[static_cast<size_t>(format)]; }

size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace

std::string_view to_string(WeightFormat format) { return facts(format).name; }

int block_inputs(WeightFormat format) { return facts(format).block_inputs; }

size_t file_row_bytes(WeightFormat format, int inputs) {
  const FormatFacts& f = facts(format);
  QUIRE_CHECK(inputs > 0 && inputs % f.block_inputs == 0);
  return static_cast<size_t>(inputs / f.block_inputs) * f.block_bytes;
}

bool reads_quantized(WeightFormat format) { return facts(format).block_inputs > 1; }

size_t group_bytes(WeightFormat format, int inputs) {
  const FormatFacts& f = facts(format);
  const size_t bytes = divide_up(static_cast<size_t>(inputs), static_cast<size_t>(f.unit_inputs)) * f.unit_bytes;
  return divide_up(bytes, layout::kVector) * layout::kVector;
}

size_t packed_bytes(WeightFormat format, int outputs, int inputs) {
  QUIRE_CHECK(outputs > 0 && inputs > 0 && inputs % block_inputs(format) == 0);
  return divide_up(static_cast<size_t>(outputs), kGroupOutputs) * group_bytes(format, inputs);
}

size_t quantized_bytes(int rows, int inputs) {
  QUIRE_CHECK(rows >= 0 && inputs > 0 && inputs % layout::kBlockInputs == 0);
  return static_cast<size_t>(rows) * static_cast<size_t>(inputs / layout::kBlockInputs) * sizeof(layout::ActivationBlock);
}

void unpack_row(const PackedMatrix& matrix, int output, float* out) {
  QUIRE_CHECK(output >= 0 && output < matrix.outputs);
  const std::byte* group = matrix.data + static_cast<size_t>(output / kGroupOutputs) * group_bytes(matrix.format, matrix.inputs);
  for (int begin = 0; begin < matrix.inputs; begin += layout::kBlockInputs) {
    const int count = matrix.inputs - begin < layout::kBlockInputs ? matrix.inputs - begin : layout::kBlockInputs;
    decode_weights(matrix.format, group, output % kGroupOutputs, begin, count, out + begin);
  }
}

}  // namespace quire::kernels
