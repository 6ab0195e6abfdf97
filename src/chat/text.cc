#include "chat/text.h"

#include <utf8proc.h>

namespace quire::chat {
namespace {

constexpr int32_t kStrayByte = 0xDC00;

utf8proc_category_t category(int32_t code_point) { return utf8proc_category(code_point); }

bool is_cased(int32_t code_point) {
  return is_upper(code_point) || is_lower(code_point) || category(code_point) == UTF8PROC_CATEGORY_LT;
}

template <typename Map>
std::string map_characters(std::string_view text, Map map) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    append_utf8(result, map(character.code_point));
    text.remove_prefix(character.bytes);
  }
  return result;
}

bool is_in_set(int32_t code_point, const std::string* set) {
  if (set == nullptr) return is_space(code_point);
  for (std::string_view rest = *set; !rest.empty();) {
    const Character character = first_character(rest);
    if (character.code_point == code_point) return true;
    rest.remove_prefix(character.bytes);
  }
  return false;
}

Character last_character(std::string_view text) {
  for (size_t bytes = 1; bytes <= 4 && bytes <= text.size(); ++bytes) {
    const Character character = first_character(text.substr(text.size() - bytes));
    if (character.bytes == bytes && (bytes > 1 || character.code_point < 0x80)) return character;
  }
  return first_character(text.substr(text.size() - 1));
}

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text.front());
  if (byte < 0x80) return {byte, 1};
  utf8proc_int32_t code_point = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (bytes <= 0) return {kStrayByte + byte, 1};
  return {code_point, static_cast<size_t>(bytes)};
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).bytes);
  return count;
}

size_t offset_of_character(std::string_view text, size_t index) {
  const std::string_view whole = text;
  for (; index > 0 && !text.empty(); --index) text.remove_prefix(first_character(text).bytes);
  return whole.size() - text.size();
}

void append_utf8(std::string& text, int32_t code_point) {
  if (code_point >= kStrayByte + 0x80 && code_point <= kStrayByte + 0xFF) {
    text.push_back(static_cast<char>(code_point - kStrayByte));
    return;
  }
  utf8proc_uint8_t buffer[4];
  const auto bytes = utf8proc_encode_char(code_point, buffer);
  text.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(bytes));
}

bool is_space(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || category(c) == UTF8PROC_CATEGORY_ZL ||
         category(c) == UTF8PROC_CATEGORY_ZP;
}

bool is_alphabetic(int32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}

bool is_digit(int32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(int32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(int32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

bool is_printable(int32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

std::string to_upper(std::string_view text) {
  return map_characters(text, [](int32_t c) { return utf8proc_toupper(c); });
}

std::string to_lower(std::string_view text) {
  return map_characters(text, [](int32_t c) { return utf8proc_tolower(c); });
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_characters(text, [&first](int32_t c) {
    const bool upper = first;
    first = false;
    return upper ? utf8proc_totitle(c) : utf8proc_tolower(c);
  });
}

std::string to_title(std::string_view text) {
  bool in_word = false;
  return map_characters(text, [&in_word](int32_t c) {
    const bool inside = in_word;
    in_word = is_cased(c);
    return inside ? utf8proc_tolower(c) : utf8proc_totitle(c);
  });
}

std::string_view strip_left(std::string_view text, const std::string* set) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!is_in_set(character.code_point, set)) break;
    text.remove_prefix(character.bytes);
  }
  return text;
}

std::string_view strip_right(std::string_view text, const std::string* set) {
  while (!text.empty()) {
    const Character character = last_character(text);
    if (!is_in_set(character.code_point, set)) break;
    text.remove_suffix(character.bytes);
  }
  return text;
}

}  // namespace quire::chat
