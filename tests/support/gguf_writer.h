// Writes GGUF files: small ones whole, big ones tensor by tensor. For tests and for tools that make models; it checks nothing, so
// that it can also write files that a reader must refuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gguf/gguf.h"

namespace quire::test_support {

// The metadata type of a C++ type: the integer of its size and sign, bool, float32, float64, string (anything that is no number).
template <typename T>
constexpr gguf::ValueType value_type_of() {
  using gguf::ValueType;
  if constexpr (std::is_same_v<T, bool>) {
    return ValueType::kBool;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? ValueType::kFloat32 : ValueType::kFloat64;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    if (sizeof(T) == 1) return kSigned ? ValueType::kInt8 : ValueType::kUint8;
    if (sizeof(T) == 2) return kSigned ? ValueType::kInt16 : ValueType::kUint16;
    if (sizeof(T) == 4) return kSigned ? ValueType::kInt32 : ValueType::kUint32;
    return kSigned ? ValueType::kInt64 : ValueType::kUint64;
  } else {
    return ValueType::kString;
  }
}

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// Bytes in the making: numbers little-endian, strings with their u64 length.
class ByteWriter {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T>
  void put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void put(std::string_view text) {
    put(uint64_t{text.size()});
    put_bytes(std::as_bytes(std::span(text)));
  }
  void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void pad_to(size_t multiple) { bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple); }

  // Element type, count and elements of an array; vectors of vectors are arrays of arrays.
  template <typename T>
  void put_array(const std::vector<T>& elements) {
    if constexpr (kIsVector<T>) {
      put(static_cast<uint32_t>(gguf::ValueType::kArray));
      put(uint64_t{elements.size()});
      for (const auto& element : elements) put_array(element);
    } else {
      put(static_cast<uint32_t>(value_type_of<T>()));
      put(uint64_t{elements.size()});
      for (const auto& element : elements)
        put(static_cast<std::conditional_t<std::is_arithmetic_v<T>, T, std::string_view>>(element));
    }
  }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class GgufWriter {
 public:
  // `alignment` other than the default is also written as general.alignment.
  explicit GgufWriter(uint32_t version = 3, uint32_t alignment = gguf::kDefaultAlignment);

  // Metadata, in the order of the calls. A key that is added twice is in the file twice.
  template <typename T>
    requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) {
    ByteWriter encoded;
    encoded.put(value);
    add_encoded(key, value_type_of<T>(), encoded.bytes());
  }
  void add(std::string_view key, std::string_view value);
  template <typename T>
  void add(std::string_view key, const std::vector<T>& elements) {
    ByteWriter encoded;
    encoded.put_array(elements);
    add_encoded(key, gguf::ValueType::kArray, encoded.bytes());
  }
  // The same key and value as in another file.
  void add(const gguf::Entry& entry);
  // A value as the bytes given.
  void add_encoded(std::string_view key, gguf::ValueType type, std::span<const std::byte> encoded);
  // Takes every entry with that key out again.
  void remove(std::string_view key);

  // A tensor with its data, placed behind those added before. Dimensions innermost first.
  void add_tensor(std::string_view name, gguf::TensorType type, std::vector<uint64_t> dims, std::vector<std::byte> data);
  // The same for data that the caller writes himself after header(): `size` bytes at data_offset() of the tensor.
  void declare_tensor(std::string_view name, gguf::TensorType type, std::vector<uint64_t> dims, uint64_t size);
  // An entry of the table exactly as given, without data.
  void add_raw_tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset);

  [[nodiscard]] size_t tensor_count() const { return tensors_.size(); }
  // Where the data of the tensor begins, in bytes from the end of the header.
  [[nodiscard]] uint64_t data_offset(size_t tensor) const { return tensors_[tensor].offset; }

  // Everything before the tensors' data, padded to the alignment.
  [[nodiscard]] std::vector<std::byte> header() const;
  // The whole file, its end padded to the alignment; declared tensors have zeros for data.
  [[nodiscard]] std::vector<std::byte> bytes() const;

 private:
  struct Metadata {
    std::string key;
    gguf::ValueType type;
    std::vector<std::byte> encoded;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    uint64_t offset;
    std::vector<std::byte> data;
  };

  uint32_t version_;
  uint32_t alignment_;
  uint64_t data_size_ = 0;  // of the tensors so far, padded
  std::vector<Metadata> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace quire::test_support
