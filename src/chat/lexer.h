// From a template's text to tokens, with Jinja's rules for whitespace: trim_blocks, lstrip_blocks, the signs - and + inside of
// delimiters, raw blocks, comments, and one newline at the end of the text dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/syntax.h"

namespace quire::chat {

enum class TokenKind {
  kText,         // template text outside of delimiters
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kName,
  kString,  // text holds the string with its escapes resolved
  kInteger,
  kFloat,
  kOperator,  // text holds it: "+", "==", "(", ...
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  Place place;
  int64_t integer = 0;
  double number = 0;
};

// How a message names the token: "end of template", "'%}'", "name 'endif'".
[[nodiscard]] std::string describe(const Token& token);

// The message of a syntax error at a place.
[[nodiscard]] Error syntax_error(Place place, std::string_view what);

// The tokens of the whole text, kEnd last. Errors name line and column.
[[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace quire::chat
