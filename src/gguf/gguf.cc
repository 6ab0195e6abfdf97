#include "gguf/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "gguf/bytes.h"
#include "gguf/value_reader.h"

namespace quire::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
// The least bytes that an entry of metadata (length, one byte of key, type, one byte of value) and of the tensor table (length,
// one byte of name, number of dimensions, one of them, type, offset) take: counts beyond what fits are refused before any reserve.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

Error corrupt(std::string message) { return make_error(ErrorCode::kCorrupt, std::move(message)); }
Error unsupported(std::string message) { return make_error(ErrorCode::kUnsupported, std::move(message)); }

Error missing(std::string_view what, std::string_view name) {
  return make_error(ErrorCode::kNotFound, fmt::format("{} {} is missing", what, printable(name)));
}

Status check_version(uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version == 1) return unsupported("GGUF version 1 is not supported: convert the model again with a current converter");
  // The version's bytes in the other order: a small number in the upper half.
  if (version != 0 && (version & 0xffff) == 0) {
    return unsupported("the file is big-endian; Quire reads little-endian GGUF files: get or convert a little-endian one");
  }
  return unsupported(fmt::format("GGUF version {} is not supported (Quire reads versions 2 and 3)", version));
}

// Indices of `items`, sorted by the name that `name_of` gives.
template <typename Item, typename NameOf>
std::vector<uint32_t> sorted_index(const std::vector<Item>& items, NameOf name_of) {
  std::vector<uint32_t> index(items.size());
  std::iota(index.begin(), index.end(), 0u);
  std::sort(index.begin(), index.end(), [&](uint32_t a, uint32_t b) { return name_of(items[a]) < name_of(items[b]); });
  return index;
}

// The first name that two items share, looked for in their sorted index.
template <typename Item, typename NameOf>
std::optional<std::string_view> first_duplicate(const std::vector<Item>& items, const std::vector<uint32_t>& index,
                                                NameOf name_of) {
  for (size_t i = 1; i < index.size(); ++i) {
    if (name_of(items[index[i - 1]]) == name_of(items[index[i]])) return name_of(items[index[i]]);
  }
  return std::nullopt;
}

template <typename Item, typename NameOf>
const Item* find_sorted(const std::vector<Item>& items, const std::vector<uint32_t>& index, std::string_view name, NameOf name_of) {
  const auto found = std::lower_bound(index.begin(), index.end(), name,
                                      [&](uint32_t i, std::string_view wanted) { return name_of(items[i]) < wanted; });
  return found != index.end() && name_of(items[*found]) == name ? &items[*found] : nullptr;
}

constexpr auto kKeyOf = [](const Entry& entry) { return entry.key; };
constexpr auto kNameOf = [](const TensorInfo& tensor) { return tensor.name; };

// The type and sizes of a tensor as the table gives them, before they are believed.
struct Shape {
  int dimensions = 0;
  std::array<int64_t, kMaxDimensions> dims = {1, 1, 1, 1};
};

Result<Shape> read_shape(Cursor& cursor) {
  const auto dimensions = cursor.take<uint32_t>();
  if (!dimensions) return cut_short(cursor, "its number of dimensions");
  if (*dimensions < 1 || *dimensions > kMaxDimensions) {
    return corrupt(fmt::format("it has {} dimensions; 1 to {} are possible", *dimensions, kMaxDimensions));
  }
  Shape shape{static_cast<int>(*dimensions)};
  for (int i = 0; i < shape.dimensions; ++i) {
    const auto size = cursor.take<uint64_t>();
    if (!size) return cut_short(cursor, "its dimensions");
    if (*size == 0 || *size > uint64_t{INT64_MAX}) return corrupt(fmt::format("dimension {} is {}", i, *size));
    shape.dims[i] = static_cast<int64_t>(*size);
  }
  return shape;
}

Result<TensorType> read_tensor_type(Cursor& cursor) {
  const auto value = cursor.take<uint32_t>();
  if (!value) return cut_short(cursor, "its type");
  const auto type = tensor_type_from_value(*value);
  if (!type) {
    return unsupported(
        fmt::format("its type {} is not supported (supported: {})", tensor_type_value_name(*value), supported_tensor_types()));
  }
  return *type;
}

// Bytes of a tensor, or nothing when the number leaves 63 bits.
std::optional<int64_t> checked_bytes(TensorType type, const Shape& shape) {
  int64_t bytes = shape.dims[0] / block_elements(type);
  if (__builtin_mul_overflow(bytes, block_bytes(type), &bytes)) return std::nullopt;
  for (int i = 1; i < kMaxDimensions; ++i) {
    if (__builtin_mul_overflow(bytes, shape.dims[i], &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace

// Reads one file from front to back.
class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<File> run() {
    QUIRE_TRY_STATUS(read_header());
    QUIRE_TRY_STATUS(read_metadata());
    QUIRE_TRY_STATUS(check_general());
    QUIRE_TRY_STATUS(read_tensors());
    QUIRE_TRY_STATUS(place_tensors());
    QUIRE_TRY_STATUS(check_overlaps());
    return std::move(file_);
  }

 private:
  Status read_header() {
    const auto magic = cursor_.take<uint32_t>();
    if (!magic || *magic != kMagic) return corrupt("this is no GGUF file: it does not begin with \"GGUF\"");
    const auto version = cursor_.take<uint32_t>();
    if (!version) return cut_short(cursor_, "the version");
    QUIRE_TRY_STATUS(check_version(*version));
    file_.version_ = *version;
    const auto tensors = cursor_.take<uint64_t>();
    const auto entries = cursor_.take<uint64_t>();
    if (!tensors || !entries) return cut_short(cursor_, "the header");
    tensor_count_ = *tensors;
    entry_count_ = *entries;
    const uint64_t left = cursor_.remaining();
    if (entry_count_ > left / kMinEntryBytes || tensor_count_ > (left - entry_count_ * kMinEntryBytes) / kMinTensorBytes) {
      return corrupt(
          fmt::format("the header tells of {} metadata entries and {} tensors, more than a file of {} bytes can hold; it is "
                      "cut short or damaged: fetch it again",
                      entry_count_, tensor_count_, bytes_.size()));
    }
    return {};
  }

  Status read_metadata() {
    file_.metadata_.reserve(entry_count_);
    for (uint64_t i = 0; i < entry_count_; ++i) {
      const auto key = cursor_.take_string();
      if (!key) return cut_short(cursor_, fmt::format("the key of metadata entry {} of {}", i, entry_count_));
      if (key->empty() || key->size() > kMaxKeyBytes) {
        return corrupt(
            fmt::format("the key of metadata entry {} has {} bytes; 1 to {} are possible", i, key->size(), kMaxKeyBytes));
      }
      auto value = read_value(cursor_);
      if (!value) return at(fmt::format("metadata key {}", printable(*key)), value.error());
      file_.metadata_.push_back({*key, std::move(*value)});
    }
    file_.metadata_by_key_ = sorted_index(file_.metadata_, kKeyOf);
    if (const auto key = first_duplicate(file_.metadata_, file_.metadata_by_key_, kKeyOf)) {
      return corrupt(fmt::format("metadata key {} is there twice", printable(*key)));
    }
    return {};
  }

  Status check_general() {
    QUIRE_TRY(const uint64_t alignment, file_.get_u64_or("general.alignment", kDefaultAlignment));
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
      return corrupt(fmt::format("metadata key general.alignment: {} is no power of two from 1 to {}", alignment, kMaxAlignment));
    }
    file_.alignment_ = static_cast<uint32_t>(alignment);
    QUIRE_TRY(const uint64_t parts, file_.get_u64_or("split.count", 1));
    if (parts > 1) {
      return unsupported(
          fmt::format("this file is one of the {} parts of a split model: merge them into one file first (llama.cpp's "
                      "llama-gguf-split --merge does it)",
                      parts));
    }
    return {};
  }

  Status read_tensors() {
    file_.tensors_.reserve(tensor_count_);
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      const auto name = cursor_.take_string();
      if (!name) return cut_short(cursor_, fmt::format("the name of tensor {} of {}", i, tensor_count_));
      if (name->empty() || name->size() > kMaxTensorNameBytes) {
        return corrupt(
            fmt::format("the name of tensor {} has {} bytes; 1 to {} are possible", i, name->size(), kMaxTensorNameBytes));
      }
      if (auto status = read_tensor(*name); !status) return at(fmt::format("tensor {}", printable(*name)), status.error());
    }
    file_.tensors_by_name_ = sorted_index(file_.tensors_, kNameOf);
    if (const auto name = first_duplicate(file_.tensors_, file_.tensors_by_name_, kNameOf)) {
      return corrupt(fmt::format("tensor {} is there twice", printable(*name)));
    }
    return {};
  }

  // One entry of the table; its offset is still that of the file (relative to the data), its data empty.
  Status read_tensor(std::string_view name) {
    QUIRE_TRY(const Shape shape, read_shape(cursor_));
    QUIRE_TRY(const TensorType type, read_tensor_type(cursor_));
    const auto offset = cursor_.take<uint64_t>();
    if (!offset) return cut_short(cursor_, "its offset");
    if (shape.dims[0] % block_elements(type) != 0) {
      return corrupt(fmt::format("its rows have {} elements, which is no multiple of the {} that a block of {} holds",
                                 shape.dims[0], block_elements(type), to_string(type)));
    }
    file_.tensors_.push_back({name, type, shape.dimensions, shape.dims, *offset, {}});
    return {};
  }

  // The data of every tensor, now that the end of the table tells where the data begins.
  Status place_tensors() {
    const uint64_t mask = file_.alignment_ - 1;
    file_.data_offset_ = (cursor_.position() + mask) & ~mask;
    for (TensorInfo& tensor : file_.tensors_) {
      if (auto status = place(tensor); !status) return at(fmt::format("tensor {}", printable(tensor.name)), status.error());
    }
    return {};
  }

  Status place(TensorInfo& tensor) {
    if (tensor.offset % file_.alignment_ != 0) {
      return corrupt(fmt::format("its offset {} is no multiple of the alignment {}", tensor.offset, file_.alignment_));
    }
    const auto size = checked_bytes(tensor.type, {tensor.dimensions, tensor.dims});
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!size || __builtin_add_overflow(file_.data_offset_, tensor.offset, &begin) ||
        __builtin_add_overflow(begin, static_cast<uint64_t>(*size), &end)) {
      return corrupt(fmt::format("its size ({} x {} x {} x {}, {}) or offset {} is beyond any file", tensor.dims[0], tensor.dims[1],
                                 tensor.dims[2], tensor.dims[3], to_string(tensor.type), tensor.offset));
    }
    if (end > bytes_.size()) {
      return corrupt(
          fmt::format("its data ends at byte {}, but the file has {} bytes; it is cut short: fetch it again", end, bytes_.size()));
    }
    tensor.offset = begin;
    tensor.data = bytes_.subspan(static_cast<size_t>(begin), static_cast<size_t>(*size));
    return {};
  }

  // Tensors that share bytes would let a small file stand for weights of any size.
  Status check_overlaps() {
    std::vector<uint32_t> order(file_.tensors_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto offset_of = [&](uint32_t i) { return file_.tensors_[i].offset; };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return offset_of(a) < offset_of(b); });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = file_.tensors_[order[i - 1]];
      const TensorInfo& after = file_.tensors_[order[i]];
      if (before.offset + before.data.size() > after.offset) {
        return corrupt(fmt::format("the tensors {} and {} overlap", printable(before.name), printable(after.name)));
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  File file_;
};

Result<File> File::parse(std::span<const std::byte> bytes) { return Parser(bytes).run(); }

std::span<const std::byte> TensorInfo::row(int64_t index) const {
  QUIRE_CHECK(index >= 0 && index < rows(), fmt::format("row {} of {} in {}", index, rows(), printable(name)));
  const int64_t size = row_bytes(type, dims[0]);
  return data.subspan(static_cast<size_t>(index * size), static_cast<size_t>(size));
}

const Value* File::find(std::string_view key) const {
  const Entry* entry = find_sorted(metadata_, metadata_by_key_, key, kKeyOf);
  return entry ? &entry->value : nullptr;
}

const TensorInfo* File::find_tensor(std::string_view name) const { return find_sorted(tensors_, tensors_by_name_, name, kNameOf); }

Result<TensorInfo> File::get_tensor(std::string_view name) const {
  const TensorInfo* tensor = find_tensor(name);
  if (!tensor) return missing("tensor", name);
  return *tensor;
}

namespace {

// The value of `key` through one of Value's accessors, its errors naming the key.
template <typename T>
Result<T> typed(const File& file, std::string_view key, Result<T> (Value::*accessor)() const) {
  const Value* value = file.find(key);
  if (!value) return missing("metadata key", key);
  auto result = (value->*accessor)();
  if (!result) return at(fmt::format("metadata key {}", printable(key)), result.error());
  return result;
}

template <typename T>
Result<T> typed_or(const File& file, std::string_view key, Result<T> (Value::*accessor)() const, T fallback) {
  if (!file.find(key)) return fallback;
  return typed(file, key, accessor);
}

template <typename T>
Result<std::vector<T>> typed_array(const File& file, std::string_view key, Result<std::vector<T>> (Array::*accessor)() const) {
  QUIRE_TRY(const Array array, file.get_array(key));
  auto result = (array.*accessor)();
  if (!result) return at(fmt::format("metadata key {}", printable(key)), result.error());
  return result;
}

}  // namespace

Result<uint64_t> File::get_u64(std::string_view key) const { return typed(*this, key, &Value::u64); }
Result<int64_t> File::get_i64(std::string_view key) const { return typed(*this, key, &Value::i64); }
Result<double> File::get_f64(std::string_view key) const { return typed(*this, key, &Value::f64); }
Result<bool> File::get_bool(std::string_view key) const { return typed(*this, key, &Value::boolean); }
Result<std::string_view> File::get_string(std::string_view key) const { return typed(*this, key, &Value::string); }
Result<Array> File::get_array(std::string_view key) const { return typed(*this, key, &Value::array); }

Result<std::vector<std::string_view>> File::get_strings(std::string_view key) const {
  return typed_array(*this, key, &Array::strings);
}
Result<std::vector<int64_t>> File::get_integers(std::string_view key) const { return typed_array(*this, key, &Array::integers); }
Result<std::vector<double>> File::get_floats(std::string_view key) const { return typed_array(*this, key, &Array::floats); }
Result<std::vector<bool>> File::get_bools(std::string_view key) const { return typed_array(*this, key, &Array::bools); }

Result<uint64_t> File::get_u64_or(std::string_view key, uint64_t fallback) const {
  return typed_or(*this, key, &Value::u64, fallback);
}
Result<double> File::get_f64_or(std::string_view key, double fallback) const { return typed_or(*this, key, &Value::f64, fallback); }
Result<bool> File::get_bool_or(std::string_view key, bool fallback) const {
  return typed_or(*this, key, &Value::boolean, fallback);
}
Result<std::string_view> File::get_string_or(std::string_view key, std::string_view fallback) const {
  return typed_or(*this, key, &Value::string, fallback);
}

}  // namespace quire::gguf
