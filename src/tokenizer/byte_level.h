// The alphabet of byte-level BPE: each byte is written as one printable character, so that a vocabulary is text.
//
// Source: GPT-2's bytes_to_unicode. The bytes 21-7E, A1-AC and AE-FF stand for themselves (as U+0021 ...); the others, in their
// order, are U+0100, U+0101, ...: a space is U+0120, a newline U+010A.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire::tokenizer {

// The character of a byte, in UTF-8.
[[nodiscard]] std::string byte_level_character(uint8_t byte);

// The bytes that a text in this alphabet stands for; nothing if a character is not of the alphabet.
[[nodiscard]] std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace quire::tokenizer
