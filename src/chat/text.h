// Text as Python sees it: a string is a sequence of code points, kept here as UTF-8. A byte that is no part of valid UTF-8 counts
// as one character of its own, so that no text is refused and none is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::chat {

// One character at the start of a text that is not empty. A stray byte b has the code point 0xDC00 + b (as Python's
// surrogateescape).
struct Character {
  int32_t code_point;
  size_t bytes;
};
[[nodiscard]] Character first_character(std::string_view text);

[[nodiscard]] size_t count_characters(std::string_view text);

// The byte offset of the character at `index`, or text.size() when there are fewer.
[[nodiscard]] size_t offset_of_character(std::string_view text, size_t index);

void append_utf8(std::string& text, int32_t code_point);

[[nodiscard]] bool is_space(int32_t code_point);
[[nodiscard]] bool is_alphabetic(int32_t code_point);
[[nodiscard]] bool is_digit(int32_t code_point);
[[nodiscard]] bool is_upper(int32_t code_point);
[[nodiscard]] bool is_lower(int32_t code_point);
[[nodiscard]] bool is_printable(int32_t code_point);

[[nodiscard]] std::string to_upper(std::string_view text);
[[nodiscard]] std::string to_lower(std::string_view text);
// The first character in upper case and the rest in lower case.
[[nodiscard]] std::string capitalize(std::string_view text);
// Every word's first letter in upper case, the others in lower case, as Python's str.title.
[[nodiscard]] std::string to_title(std::string_view text);

// Without the characters of `set` at its ends; whitespace where `set` is nullptr.
[[nodiscard]] std::string_view strip_left(std::string_view text, const std::string* set = nullptr);
[[nodiscard]] std::string_view strip_right(std::string_view text, const std::string* set = nullptr);

}  // namespace quire::chat
