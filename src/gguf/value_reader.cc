#include "gguf/value_reader.h"

#include <fmt/format.h>

namespace quire::gguf {
namespace {

Result<ValueType> read_type(Cursor& cursor) {
  const auto number = cursor.take<uint32_t>();
  if (!number) return cut_short(cursor, "a value type");
  if (*number > static_cast<uint32_t>(ValueType::kFloat64)) {
    return make_error(ErrorCode::kCorrupt, fmt::format("unknown value type {}; the file is damaged or newer than Quire", *number));
  }
  return static_cast<ValueType>(*number);
}

Status check_bools(std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) {
    if (b > std::byte{1}) {
      return make_error(ErrorCode::kCorrupt, fmt::format("a bool is {}, neither 0 nor 1", static_cast<int>(b)));
    }
  }
  return {};
}

// Elements of variable size are walked once here, so that views of them can trust their lengths.
Status skip_elements(Cursor& cursor, ValueType type, uint64_t count, int depth) {
  for (uint64_t i = 0; i < count; ++i) {
    if (type == ValueType::kString) {
      if (!cursor.take_string()) return cut_short(cursor, fmt::format("string {} of an array of {}", i, count));
    } else {
      QUIRE_TRY_STATUS(read_array(cursor, depth + 1));
    }
  }
  return {};
}

}  // namespace

size_t scalar_bytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool: return 1;
    case ValueType::kUint16:
    case ValueType::kInt16: return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32: return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64: return 8;
    case ValueType::kString:
    case ValueType::kArray: return 0;
  }
  return 0;
}

uint64_t load_bits(const std::byte* at, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, size);
  return bits;
}

Error cut_short(const Cursor& cursor, std::string_view what) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("the file of {} bytes ends inside {} that begins at byte {}; it is cut short or "
                                "damaged: fetch it again",
                                cursor.position() + cursor.remaining(), what, cursor.position()));
}

Result<Array> read_array(Cursor& cursor, int depth) {
  if (depth > kMaxArrayDepth) {
    return make_error(ErrorCode::kUnsupported, fmt::format("arrays nested more than {} deep are not supported", kMaxArrayDepth));
  }
  QUIRE_TRY(const ValueType type, read_type(cursor));
  const auto count = cursor.take<uint64_t>();
  if (!count) return cut_short(cursor, "an array's length");
  const size_t size = scalar_bytes(type);
  // An element takes at least a byte, so a count beyond the bytes that are left is false whatever the elements are.
  if (*count > cursor.remaining() / std::max<size_t>(size, 1)) {
    return cut_short(cursor, fmt::format("an array of {} elements ({})", *count, to_string(type)));
  }
  if (size != 0) {
    const auto bytes = *cursor.take_bytes(*count * size);
    if (type == ValueType::kBool) QUIRE_TRY_STATUS(check_bools(bytes));
    return Array(type, *count, bytes);
  }
  Cursor start = cursor;
  QUIRE_TRY_STATUS(skip_elements(cursor, type, *count, depth));
  return Array(type, *count, *start.take_bytes(cursor.position() - start.position()));
}

Result<Value> read_value(Cursor& cursor) {
  QUIRE_TRY(const ValueType type, read_type(cursor));
  if (type == ValueType::kArray) {
    QUIRE_TRY(const Array array, read_array(cursor, 1));
    return Value(array);
  }
  if (type == ValueType::kString) {
    const auto text = cursor.take_string();
    if (!text) return cut_short(cursor, "a string");
    return Value(*text);
  }
  const size_t size = scalar_bytes(type);
  const auto bytes = cursor.take_bytes(size);
  if (!bytes) return cut_short(cursor, fmt::format("a value ({})", to_string(type)));
  if (type == ValueType::kBool) QUIRE_TRY_STATUS(check_bools(*bytes));
  return Value(type, load_bits(bytes->data(), size));
}

std::string printable(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || byte == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kMost) out += "...";
  return out;
}

}  // namespace quire::gguf
