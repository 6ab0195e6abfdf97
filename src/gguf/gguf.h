// GGUF: the file format of the models that Quire runs (versions 2 and 3, little-endian).
//
// A file is a header, metadata (ordered key-value pairs of 13 types), the table of tensors, and the tensors' data:
//
//   "GGUF"  u32 version  u64 tensor count  u64 metadata count
//   metadata count x  { string key, u32 value type, value }
//   tensor count x    { string name, u32 dimensions, u64 sizes (innermost first), u32 type, u64 offset into the data }
//   padding to general.alignment (32 unless the metadata says otherwise), then the data; each tensor's offset is a multiple of it.
//   A string is a u64 length and bytes; an array is a u32 element type, a u64 count and the elements.
//   (Specification: docs/gguf.md of the ggml project.)
//
// The bytes are not trusted. parse() checks every size, count, offset and product against overflow and the file's end before it
// uses or allocates anything; what it allocates is bounded by a small multiple of the bytes of the header. What comes out of
// parse() is consistent: views stay inside the file, tensors have their full data, names and keys are unique, and tensors do not
// overlap (so that the tensors' sizes add up to at most the file's).
//
// Ownership: everything here is a view into the bytes given to parse(), which must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/tensor_type.h"

namespace quire::gguf {

// The types of metadata values; the values are those of the file.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint8", "string", "array", ...
[[nodiscard]] std::string_view to_string(ValueType type);

inline constexpr uint32_t kDefaultAlignment = 32;
// Bounds that no real file comes near; beyond them parse() refuses.
inline constexpr uint32_t kMaxAlignment = 1u << 20;
inline constexpr size_t kMaxKeyBytes = 65535;        // the specification's own bound
inline constexpr size_t kMaxTensorNameBytes = 1024;  // real names have at most 64
inline constexpr int kMaxArrayDepth = 4;             // an array of scalars has depth 1
inline constexpr int kMaxDimensions = 4;

// A metadata array: the elements as they lie in the file, already checked.
// The typed copies allocate for the elements alone, each of which is in the file: at most 8 bytes for a byte.
class Array {
 public:
  Array(ValueType element_type, uint64_t count, std::span<const std::byte> bytes)
      : element_type_(element_type), count_(count), bytes_(bytes) {}

  [[nodiscard]] ValueType element_type() const { return element_type_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  // The elements as the file encodes them.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  // All elements as the type in the name. An error names the expected and the actual element type; integers of any width are
  // taken as i64 when they all fit, floats of both widths as f64.
  [[nodiscard]] Result<std::vector<std::string_view>> strings() const;
  [[nodiscard]] Result<std::vector<int64_t>> integers() const;
  [[nodiscard]] Result<std::vector<double>> floats() const;
  [[nodiscard]] Result<std::vector<bool>> bools() const;
  [[nodiscard]] Result<std::vector<Array>> arrays() const;

 private:
  ValueType element_type_;
  uint64_t count_;
  std::span<const std::byte> bytes_;  // the encoded elements, validated by File::parse
};

// A metadata value of any type.
class Value {
 public:
  // A scalar that is no string: its bytes, zero-extended. Made by File::parse.
  Value(ValueType type, uint64_t bits) : type_(type), bits_(bits) {}
  explicit Value(std::string_view string) : type_(ValueType::kString), string_(string) {}
  explicit Value(Array array) : type_(ValueType::kArray), array_(array) {}

  [[nodiscard]] ValueType type() const { return type_; }

  // The value as the type in the name. An error names the expected and the actual type (and the value, where only the range is
  // wrong). Integers of any width are taken when they fit; f64 takes both float widths, and no integers.
  [[nodiscard]] Result<uint64_t> u64() const;
  [[nodiscard]] Result<int64_t> i64() const;
  [[nodiscard]] Result<double> f64() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<std::string_view> string() const;  // any bytes; not necessarily UTF-8
  [[nodiscard]] Result<Array> array() const;

 private:
  ValueType type_;
  uint64_t bits_ = 0;
  std::string_view string_;
  std::optional<Array> array_;
};

struct Entry {
  std::string_view key;
  Value value;
};

// A tensor with its data in the file.
struct TensorInfo {
  std::string_view name;
  TensorType type;
  int dimensions;                            // 1 to 4
  std::array<int64_t, kMaxDimensions> dims;  // innermost (a row's length) first; 1 beyond `dimensions`
  uint64_t offset;                           // of the data, in bytes from the beginning of the file
  std::span<const std::byte> data;           // all of it: rows() * row_bytes(type, dims[0]) bytes

  [[nodiscard]] int64_t elements() const { return dims[0] * rows(); }
  [[nodiscard]] int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  [[nodiscard]] std::span<const std::byte> row(int64_t index) const;
};

class File {
 public:
  // Reads and checks a whole file. Errors (kCorrupt: breaks the format; kUnsupported: well formed, not for Quire) say what is
  // wrong, where and what to do; they do not name the file, which the caller knows.
  [[nodiscard]] static Result<File> parse(std::span<const std::byte> bytes);

  [[nodiscard]] uint32_t version() const { return version_; }
  [[nodiscard]] uint32_t alignment() const { return alignment_; }
  // Where the tensors' data begins, in bytes from the beginning of the file (beyond its end in a file without tensors, maybe).
  [[nodiscard]] uint64_t data_offset() const { return data_offset_; }

  // Metadata and tensors in the file's order.
  [[nodiscard]] const std::vector<Entry>& metadata() const { return metadata_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // Null when there is none.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const TensorInfo* find_tensor(std::string_view name) const;

  // The value of a key as a type (see Value and Array). Errors name the key: kNotFound when it is missing, kCorrupt when its value
  // is of another type or out of range.
  [[nodiscard]] Result<uint64_t> get_u64(std::string_view key) const;
  [[nodiscard]] Result<int64_t> get_i64(std::string_view key) const;
  [[nodiscard]] Result<double> get_f64(std::string_view key) const;
  [[nodiscard]] Result<bool> get_bool(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> get_string(std::string_view key) const;
  [[nodiscard]] Result<Array> get_array(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  [[nodiscard]] Result<std::vector<int64_t>> get_integers(std::string_view key) const;
  [[nodiscard]] Result<std::vector<double>> get_floats(std::string_view key) const;
  [[nodiscard]] Result<std::vector<bool>> get_bools(std::string_view key) const;

  // The same, with a value for a key that is missing; a value of another type is still an error.
  [[nodiscard]] Result<uint64_t> get_u64_or(std::string_view key, uint64_t fallback) const;
  [[nodiscard]] Result<double> get_f64_or(std::string_view key, double fallback) const;
  [[nodiscard]] Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  [[nodiscard]] Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;

  // The tensor of that name, or kNotFound with the name.
  [[nodiscard]] Result<TensorInfo> get_tensor(std::string_view name) const;

 private:
  friend class Parser;
  File() = default;

  uint32_t version_ = 0;
  uint32_t alignment_ = kDefaultAlignment;
  uint64_t data_offset_ = 0;
  std::vector<Entry> metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> metadata_by_key_;  // indices into metadata_, sorted by key
  std::vector<uint32_t> tensors_by_name_;  // indices into tensors_, sorted by name
};

}  // namespace quire::gguf
