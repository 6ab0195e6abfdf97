#include "tokenizer/byte_level.h"

#include <array>

namespace quire::tokenizer {
namespace {

constexpr int kCharacters = 0x144;  // the last one is U+0143

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint16_t, 256> character;    // of a byte
  std::array<int16_t, kCharacters> byte;  // of a character, -1 for those outside of the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  alphabet.byte.fill(-1);
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t character = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
    alphabet.character[static_cast<size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_level_character(uint8_t byte) {
  const uint16_t character = kAlphabet.character[byte];
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    // All characters of the alphabet have one or two bytes in UTF-8.
    unsigned character = static_cast<unsigned char>(text[i]);
    if (character >= 0x80) {
      if (character < 0xC2 || character > 0xDF || i + 1 == text.size()) return std::nullopt;
      const unsigned second = static_cast<unsigned char>(text[++i]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      character = (character & 0x1F) << 6 | (second & 0x3F);
    }
    if (character >= kCharacters || kAlphabet.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[character]);
  }
  return bytes;
}

}  // namespace quire::tokenizer
