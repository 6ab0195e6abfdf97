// The reference set's products: f32 weights as the format defines them, f32 activations, sums of 256 products in f32 added up in
// f64. Slow beside the others and plain: no quantized activations, no order to keep.
#include "kernels/cpu/tables.h"
#include "kernels/products_decode.h"
#include "kernels/products_layout.h"

namespace quire::kernels::reference {

ProductKernels product_kernels();

namespace {

constexpr int kChunkInputs = 256;
constexpr int kRowsAtOnce = 64;

// Four outputs of a group, which the compiler keeps in one register on any processor.
using Quarter = float __attribute__((vector_size(16)));
constexpr int kQuarters = kGroupOutputs / 4;

// The weights of a group for some inputs, and the sums of some rows.
struct Scratch {
  Quarter weights[kChunkInputs][kQuarters];
  double sums[kRowsAtOnce][kGroupOutputs];
};

// The weights of the inputs [begin, begin + count) of all outputs of a group.
void decode_chunk(const PackedMatrix& matrix, const std::byte* group, int begin, int count, Scratch& scratch) {
  float block[layout::kBlockInputs];
  for (int lane = 0; lane < kGroupOutputs; ++lane) {
    for (int first = 0; first < count; first += layout::kBlockInputs) {
      const int n = count - first < layout::kBlockInputs ? count - first : layout::kBlockInputs;
      decode_weights(matrix.format, group, lane, begin + first, n, block);
      for (int i = 0; i < n; ++i) scratch.weights[first + i][lane / 4][lane % 4] = block[i];
    }
  }
}

// Adds one row's products with the chunk.
void add_chunk(const float* x, int count, const Scratch& scratch, double* sums) {
  Quarter chunk[kQuarters] = {};
  for (int k = 0; k < count; ++k) {
    for (int i = 0; i < kQuarters; ++i) chunk[i] += x[k] * scratch.weights[k][i];
  }
  for (int lane = 0; lane < kGroupOutputs; ++lane) sums[lane] += static_cast<double>(chunk[lane / 4][lane % 4]);
}

struct Output {
  Store store;
  float* data;
  int64_t stride;
};

void multiply_group(const PackedMatrix& weights, const Activations& x, int group, int row, int rows, const Output& out,
                    Scratch& scratch) {
  const std::byte* data = weights.data + static_cast<size_t>(group) * group_bytes(weights.format, weights.inputs);
  for (auto& row_sums : scratch.sums) {
    for (double& sum : row_sums) sum = 0;
  }
  for (int begin = 0; begin < weights.inputs; begin += kChunkInputs) {
    const int count = weights.inputs - begin < kChunkInputs ? weights.inputs - begin : kChunkInputs;
    decode_chunk(weights, data, begin, count, scratch);
    for (int r = 0; r < rows; ++r) add_chunk(x.values + (row + r) * x.stride + begin, count, scratch, scratch.sums[r]);
  }
  const int first = group * kGroupOutputs;
  for (int r = 0; r < rows; ++r) {
    float* to = out.data + (row + r) * out.stride + first;
    for (int lane = 0; lane < kGroupOutputs && first + lane < weights.outputs; ++lane) {
      const float product = static_cast<float>(scratch.sums[r][lane]);
      to[lane] = out.store == Store::kAdd ? to[lane] + product : product;
    }
  }
}

void multiply(const PackedMatrix& weights, const Activations& x, int group_begin, int group_end, Store store, float* out,
              int64_t out_stride) {
  Scratch scratch;
  for (int group = group_begin; group < group_end; ++group) {
    for (int row = 0; row < x.rows; row += kRowsAtOnce) {
      const int rows = x.rows - row < kRowsAtOnce ? x.rows - row : kRowsAtOnce;
      multiply_group(weights, x, group, row, rows, {store, out, out_stride}, scratch);
    }
  }
}

// Its products read f32 alone, so there is nothing to write.
void quantize(const float*, int64_t, int, int, int, int, std::byte*) {}

}  // namespace

ProductKernels product_kernels() { return {&quantize, &multiply}; }

}  // namespace quire::kernels::reference
