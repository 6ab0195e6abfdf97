#include <fmt/format.h>

#include <limits>

#include "gguf/bytes.h"
#include "gguf/gguf.h"
#include "gguf/value_reader.h"

namespace quire::gguf {
namespace {

Error wrong_type(std::string_view expected, std::string_view actual) {
  return make_error(ErrorCode::kCorrupt, fmt::format("expected {}, found {}", expected, actual));
}

// An integer of any width: its bits as u64 (sign-extended), and whether that is a negative number.
struct Integer {
  uint64_t bits;
  bool negative;
};

template <typename Signed>
Integer sign_extended(uint64_t bits) {
  const auto value = static_cast<int64_t>(static_cast<Signed>(bits));
  return {static_cast<uint64_t>(value), value < 0};
}

std::optional<Integer> integer_from(ValueType type, uint64_t bits) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kUint16:
    case ValueType::kUint32:
    case ValueType::kUint64: return Integer{bits, false};
    case ValueType::kInt8: return sign_extended<int8_t>(bits);
    case ValueType::kInt16: return sign_extended<int16_t>(bits);
    case ValueType::kInt32: return sign_extended<int32_t>(bits);
    case ValueType::kInt64: return sign_extended<int64_t>(bits);
    default: return std::nullopt;
  }
}

std::optional<double> float_from(ValueType type, uint64_t bits) {
  if (type == ValueType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type == ValueType::kFloat64) return std::bit_cast<double>(bits);
  return std::nullopt;
}

bool fits_i64(Integer value) { return value.negative || value.bits <= uint64_t{std::numeric_limits<int64_t>::max()}; }

}  // namespace

std::string_view to_string(ValueType type) {
  switch (type) {
    case ValueType::kUint8: return "uint8";
    case ValueType::kInt8: return "int8";
    case ValueType::kUint16: return "uint16";
    case ValueType::kInt16: return "int16";
    case ValueType::kUint32: return "uint32";
    case ValueType::kInt32: return "int32";
    case ValueType::kFloat32: return "float32";
    case ValueType::kBool: return "bool";
    case ValueType::kString: return "string";
    case ValueType::kArray: return "array";
    case ValueType::kUint64: return "uint64";
    case ValueType::kInt64: return "int64";
    case ValueType::kFloat64: return "float64";
  }
  return "unknown type";
}

Result<uint64_t> Value::u64() const {
  const auto integer = integer_from(type_, bits_);
  if (!integer) return wrong_type("an unsigned integer", to_string(type_));
  if (integer->negative) {
    return make_error(ErrorCode::kCorrupt, fmt::format("expected an unsigned integer, found {} ({})",
                                                       static_cast<int64_t>(integer->bits), to_string(type_)));
  }
  return integer->bits;
}

Result<int64_t> Value::i64() const {
  const auto integer = integer_from(type_, bits_);
  if (!integer) return wrong_type("an integer", to_string(type_));
  if (!fits_i64(*integer)) {
    return make_error(ErrorCode::kCorrupt, fmt::format("expected a signed 64-bit integer, found {} (uint64)", integer->bits));
  }
  return static_cast<int64_t>(integer->bits);
}

Result<double> Value::f64() const {
  const auto value = float_from(type_, bits_);
  if (!value) return wrong_type("a float", to_string(type_));
  return *value;
}

Result<bool> Value::boolean() const {
  if (type_ != ValueType::kBool) return wrong_type("a bool", to_string(type_));
  return bits_ != 0;
}

Result<std::string_view> Value::string() const {
  if (type_ != ValueType::kString) return wrong_type("a string", to_string(type_));
  return string_;
}

Result<Array> Value::array() const {
  if (!array_) return wrong_type("an array", to_string(type_));
  return *array_;
}

Result<std::vector<std::string_view>> Array::strings() const {
  if (element_type_ != ValueType::kString) {
    return wrong_type("an array of strings", fmt::format("an array of {}", to_string(element_type_)));
  }
  std::vector<std::string_view> out;
  out.reserve(count_);
  Cursor cursor(bytes_);
  for (uint64_t i = 0; i < count_; ++i) {
    const auto text = cursor.take_string();
    QUIRE_CHECK(text.has_value(), "File::parse validates the strings of arrays");
    out.push_back(*text);
  }
  return out;
}

Result<std::vector<int64_t>> Array::integers() const {
  const size_t size = scalar_bytes(element_type_);
  if (!integer_from(element_type_, 0)) {
    return wrong_type("an array of integers", fmt::format("an array of {}", to_string(element_type_)));
  }
  std::vector<int64_t> out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    const auto integer = *integer_from(element_type_, load_bits(bytes_.data() + i * size, size));
    if (!fits_i64(integer)) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("expected signed 64-bit integers, found {} as element {}", integer.bits, i));
    }
    out.push_back(static_cast<int64_t>(integer.bits));
  }
  return out;
}

Result<std::vector<double>> Array::floats() const {
  const size_t size = scalar_bytes(element_type_);
  if (!float_from(element_type_, 0)) {
    return wrong_type("an array of floats", fmt::format("an array of {}", to_string(element_type_)));
  }
  std::vector<double> out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) out.push_back(*float_from(element_type_, load_bits(bytes_.data() + i * size, size)));
  return out;
}

Result<std::vector<Array>> Array::arrays() const {
  if (element_type_ != ValueType::kArray) {
    return wrong_type("an array of arrays", fmt::format("an array of {}", to_string(element_type_)));
  }
  std::vector<Array> out;
  out.reserve(count_);
  Cursor cursor(bytes_);
  for (uint64_t i = 0; i < count_; ++i) {
    auto element = read_array(cursor, 1);
    QUIRE_CHECK(element.ok(), "File::parse validates nested arrays");
    out.push_back(*element);
  }
  return out;
}

Result<std::vector<bool>> Array::bools() const {
  if (element_type_ != ValueType::kBool) {
    return wrong_type("an array of bools", fmt::format("an array of {}", to_string(element_type_)));
  }
  std::vector<bool> out;
  out.reserve(count_);
  for (const std::byte b : bytes_) out.push_back(b != std::byte{0});
  return out;
}

}  // namespace quire::gguf
