#include "tests/support/gguf_writer.h"

#include <algorithm>

#include "base/check.h"

namespace quire::test_support {

GgufWriter::GgufWriter(uint32_t version, uint32_t alignment) : version_(version), alignment_(alignment) {
  if (alignment != gguf::kDefaultAlignment) add("general.alignment", alignment);
}

void GgufWriter::add(std::string_view key, std::string_view value) {
  ByteWriter encoded;
  encoded.put(value);
  add_encoded(key, gguf::ValueType::kString, encoded.bytes());
}

void GgufWriter::add(const gguf::Entry& entry) {
  using gguf::ValueType;
  const gguf::Value& value = entry.value;
  switch (value.type()) {
    case ValueType::kUint8: return add(entry.key, static_cast<uint8_t>(*value.u64()));
    case ValueType::kInt8: return add(entry.key, static_cast<int8_t>(*value.i64()));
    case ValueType::kUint16: return add(entry.key, static_cast<uint16_t>(*value.u64()));
    case ValueType::kInt16: return add(entry.key, static_cast<int16_t>(*value.i64()));
    case ValueType::kUint32: return add(entry.key, static_cast<uint32_t>(*value.u64()));
    case ValueType::kInt32: return add(entry.key, static_cast<int32_t>(*value.i64()));
    case ValueType::kUint64: return add(entry.key, *value.u64());
    case ValueType::kInt64: return add(entry.key, *value.i64());
    case ValueType::kFloat32: return add(entry.key, static_cast<float>(*value.f64()));
    case ValueType::kFloat64: return add(entry.key, *value.f64());
    case ValueType::kBool: return add(entry.key, *value.boolean());
    case ValueType::kString: return add(entry.key, *value.string());
    case ValueType::kArray: break;
  }
  const gguf::Array array = *value.array();
  ByteWriter encoded;
  encoded.put(static_cast<uint32_t>(array.element_type()));
  encoded.put(array.count());
  encoded.put_bytes(array.bytes());
  add_encoded(entry.key, ValueType::kArray, encoded.bytes());
}

void GgufWriter::add_encoded(std::string_view key, gguf::ValueType type, std::span<const std::byte> encoded) {
  metadata_.push_back({std::string(key), type, {encoded.begin(), encoded.end()}});
}

void GgufWriter::remove(std::string_view key) {
  std::erase_if(metadata_, [&](const Metadata& entry) { return entry.key == key; });
}

void GgufWriter::add_tensor(std::string_view name, gguf::TensorType type, std::vector<uint64_t> dims, std::vector<std::byte> data) {
  declare_tensor(name, type, std::move(dims), data.size());
  tensors_.back().data = std::move(data);
}

void GgufWriter::declare_tensor(std::string_view name, gguf::TensorType type, std::vector<uint64_t> dims, uint64_t size) {
  add_raw_tensor(name, std::move(dims), static_cast<uint32_t>(type), data_size_);
  data_size_ += (size + alignment_ - 1) / alignment_ * alignment_;
}

void GgufWriter::add_raw_tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
  tensors_.push_back({std::string(name), std::move(dims), type, offset, {}});
}

std::vector<std::byte> GgufWriter::header() const {
  ByteWriter out;
  for (const char c : {'G', 'G', 'U', 'F'}) out.put(c);
  out.put(version_);
  out.put(uint64_t{tensors_.size()});
  out.put(uint64_t{metadata_.size()});
  for (const Metadata& entry : metadata_) {
    out.put(entry.key);
    out.put(static_cast<uint32_t>(entry.type));
    out.put_bytes(entry.encoded);
  }
  for (const Tensor& tensor : tensors_) {
    out.put(tensor.name);
    out.put(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t size : tensor.dims) out.put(size);
    out.put(tensor.type);
    out.put(tensor.offset);
  }
  out.pad_to(alignment_);
  return out.bytes();
}

std::vector<std::byte> GgufWriter::bytes() const {
  std::vector<std::byte> file = header();
  const size_t data = file.size();
  file.resize(data + data_size_);
  for (const Tensor& tensor : tensors_) {
    std::copy(tensor.data.begin(), tensor.data.end(), file.begin() + static_cast<ptrdiff_t>(data + tensor.offset));
  }
  return file;
}

}  // namespace quire::test_support
