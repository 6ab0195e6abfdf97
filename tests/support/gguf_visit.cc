#include "tests/support/gguf_visit.h"

#include <bit>
#include <numeric>

#include "gguf/dequantize.h"

namespace quire::test_support {
namespace {

uint64_t visit_text(std::string_view text) {
  uint64_t sum = text.size();
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

uint64_t visit_array(const gguf::Array& array) {
  uint64_t sum = array.count();
  for (const std::byte b : array.bytes()) sum += static_cast<uint64_t>(b);
  if (const auto integers = array.integers()) sum += integers->size() + (integers->empty() ? 0 : integers->back() & 1);
  if (const auto floats = array.floats())
    sum += floats->size() + (floats->empty() ? 0 : std::bit_cast<uint64_t>(floats->back()) & 1);
  if (const auto bools = array.bools()) sum += bools->size();
  if (const auto strings = array.strings()) {
    for (const auto text : *strings) sum += visit_text(text);
  }
  if (const auto arrays = array.arrays()) {
    for (const auto& nested : *arrays) sum += visit_array(nested);
  }
  return sum;
}

uint64_t visit_value(const gguf::Value& value) {
  uint64_t sum = static_cast<uint64_t>(value.type());
  if (const auto number = value.u64()) sum += *number;
  if (const auto number = value.i64()) sum += static_cast<uint64_t>(*number);
  if (const auto number = value.f64()) sum += std::bit_cast<uint64_t>(*number) & 1;
  if (const auto truth = value.boolean()) sum += *truth ? 1 : 0;
  if (const auto text = value.string()) sum += visit_text(*text);
  if (const auto array = value.array()) sum += visit_array(*array);
  return sum;
}

uint64_t visit_tensor(const gguf::TensorInfo& tensor) {
  constexpr int64_t kLongestRow = 65536;
  uint64_t sum = visit_text(tensor.name) + static_cast<uint64_t>(tensor.elements());
  sum += static_cast<uint64_t>(tensor.data.front()) + static_cast<uint64_t>(tensor.data.back());
  if (tensor.dims[0] <= kLongestRow) {
    std::vector<float> row(static_cast<size_t>(tensor.dims[0]));
    gguf::dequantize_row(tensor.type, tensor.row(0), row);
    sum += std::bit_cast<uint32_t>(row.back()) & 1;
  }
  return sum;
}

}  // namespace

uint64_t visit_everything(const gguf::File& file) {
  uint64_t sum = file.version() + file.alignment();
  for (const gguf::Entry& entry : file.metadata()) {
    sum += visit_text(entry.key) + visit_value(entry.value);
    sum += file.find(entry.key) == &entry.value ? 1 : 0;
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) sum += visit_tensor(tensor);
  return sum;
}

}  // namespace quire::test_support
