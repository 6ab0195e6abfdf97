#include "gguf/tensor_type.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace quire::gguf {
namespace {

struct Format {
  TensorType type;
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};

constexpr std::array<Format, 10> kFormats = {{
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 18},
    {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},
    {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ4_K, "Q4_K", 256, 144},
    {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},
    {TensorType::kBF16, "BF16", 1, 2},
}};

constexpr auto kTypes = [] {
  std::array<TensorType, kFormats.size()> types{};
  for (size_t i = 0; i < types.size(); ++i) types[i] = kFormats[i].type;
  return types;
}();

// Names by value of all types that were ever given one; empty where the value is unused.
constexpr std::array<std::string_view, 42> kAllNames = {
    "F32",      "F16",    "Q4_0",  "Q4_1",       "Q4_2",       "Q4_3",       "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",     "Q2_K",
    "Q3_K",     "Q4_K",   "Q5_K",  "Q6_K",       "Q8_K",       "IQ2_XXS",    "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",   "IQ3_S",
    "IQ2_S",    "IQ4_XS", "I8",    "I16",        "I32",        "I64",        "F64",    "IQ1_M",   "BF16",  "Q4_0_4_4", "Q4_0_4_8",
    "Q4_0_8_8", "TQ1_0",  "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",  "NVFP4",   "Q1_0"};

const Format& format_of(TensorType type) {
  for (const Format& format : kFormats) {
    if (format.type == type) return format;
  }
  check_failed(__FILE__, __LINE__, "a TensorType holds one of its enumerators", fmt::format("{}", static_cast<uint32_t>(type)));
}

}  // namespace

std::span<const TensorType> all_tensor_types() { return kTypes; }

std::string_view to_string(TensorType type) { return format_of(type).name; }

std::optional<TensorType> tensor_type_from_name(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format.type;
  }
  return std::nullopt;
}

std::optional<TensorType> tensor_type_from_value(uint32_t value) {
  for (const Format& format : kFormats) {
    if (static_cast<uint32_t>(format.type) == value) return format.type;
  }
  return std::nullopt;
}

std::string tensor_type_value_name(uint32_t value) {
  return value < kAllNames.size() ? std::string(kAllNames[value]) : fmt::format("{} (unknown)", value);
}

std::string supported_tensor_types() {
  std::string list;
  for (const Format& format : kFormats) {
    if (!list.empty()) list += ", ";
    list += format.name;
  }
  return list;
}

int64_t block_elements(TensorType type) { return format_of(type).elements; }

int64_t block_bytes(TensorType type) { return format_of(type).bytes; }

double bits_per_weight(TensorType type) {
  const Format& format = format_of(type);
  return 8.0 * static_cast<double>(format.bytes) / static_cast<double>(format.elements);
}

int64_t row_bytes(TensorType type, int64_t elements) {
  const Format& format = format_of(type);
  QUIRE_CHECK(elements >= 0 && elements % format.elements == 0, fmt::format("{} weights in {}", elements, format.name));
  return elements / format.elements * format.bytes;
}

}  // namespace quire::gguf
