// Reading little-endian numbers and strings from bytes whose bounds are checked first. Internal to gguf/.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place: the machine must be little-endian");

template <typename T>
[[nodiscard]] T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// A place in the bytes that only moves forward. A take that the bytes do not hold answers nothing and moves nothing.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] size_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  [[nodiscard]] std::optional<T> take() {
    if (remaining() < sizeof(T)) return std::nullopt;
    const T value = load<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return value;
  }

  [[nodiscard]] std::optional<std::span<const std::byte>> take_bytes(uint64_t count) {
    if (count > remaining()) return std::nullopt;
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += taken.size();
    return taken;
  }

  // A u64 length and that many bytes.
  [[nodiscard]] std::optional<std::string_view> take_string() {
    const size_t start = position_;
    const auto length = take<uint64_t>();
    const auto text = length ? take_bytes(*length) : std::nullopt;
    if (!text) {
      position_ = start;
      return std::nullopt;
    }
    return std::string_view(reinterpret_cast<const char*>(text->data()), text->size());
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

// Text from a file, fit for a message: unprintable bytes as \xNN, cut after 80 characters.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace quire::gguf
