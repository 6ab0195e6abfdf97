// UTF-8 by the Unicode standard (version 15, table 3-7): no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire::tokenizer {

// U+FFFD, what stands for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

struct Utf8Step {
  enum class Kind {
    kCharacter,   // a whole character
    kIncomplete,  // the text ends inside of a character that could still become valid
    kInvalid,     // bytes that no continuation makes valid
  };
  Kind kind;
  size_t length;  // bytes, at least 1: of an invalid sequence its maximal subpart (what one U+FFFD replaces)
};

// What stands at the beginning of a text that is not empty.
[[nodiscard]] Utf8Step utf8_step(std::string_view text);

// Appends the text with U+FFFD for each maximal subpart that is no character. An incomplete character at the end is not appended:
// its length (0 to 3) is returned.
size_t append_valid_utf8(std::string_view text, std::string& out);

}  // namespace quire::tokenizer
