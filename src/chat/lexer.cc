#include "chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "chat/limits.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_ascii_digit(c); }

int hex_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "\n" for every kind of line end, and without one newline at the end.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Whether the text ends in spaces alone on a line of which `at_line_start` says if it begins before the text: then without them.
std::string_view strip_indentation(std::string_view text, bool at_line_start) {
  const size_t newline = text.rfind('\n');
  if (newline == std::string_view::npos && !at_line_start) return text;
  const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
  return strip_left(text.substr(line)).empty() ? text.substr(0, line) : text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {
    line_starts_.push_back(0);
    for (size_t i = 0; i < source_.size(); ++i) {
      if (source_[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  Result<std::vector<Token>> run() {
    while (position_ < source_.size()) QUIRE_TRY_STATUS(lex_text());
    push(TokenKind::kEnd, "", position_);
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] Place place_of(size_t offset) const {
    const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - line_starts_.begin();
    return {static_cast<int>(line), static_cast<int>(offset - line_starts_[static_cast<size_t>(line - 1)] + 1)};
  }

  Token& push(TokenKind kind, std::string text, size_t offset) {
    tokens_.push_back({kind, std::move(text), place_of(offset)});
    return tokens_.back();
  }

  [[nodiscard]] bool at(std::string_view text) const { return std::string_view(source_).substr(position_, text.size()) == text; }

  bool skip(std::string_view text) {
    if (!at(text)) return false;
    position_ += text.size();
    return true;
  }

  void skip_space() { position_ = source_.size() - strip_left(std::string_view(source_).substr(position_)).size(); }

  // The text before a tag at `tag`, whose sign is '-', '+' or 0.
  void push_text(size_t start, size_t tag, char sign, bool strips_indentation) {
    std::string_view text = std::string_view(source_).substr(start, tag - start);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && strips_indentation) {
      text = strip_indentation(text, start == 0 || source_[start - 1] == '\n');
    }
    if (!text.empty()) push(TokenKind::kText, std::string(text), start);
  }

  // Skips the sign after the two bytes of a tag's opening.
  char skip_sign() {
    if (at("-") || at("+")) return source_[position_++];
    return 0;
  }

  // After "-%}" all whitespace goes, after "%}" one newline, after "+%}" nothing; false when no such end is here.
  bool skip_end(std::string_view closing, bool trims_newline) {
    const size_t start = position_;
    const char sign = skip_sign();
    if (!skip(closing) || (sign == '+' && !trims_newline)) {
      position_ = start;
      return false;
    }
    if (sign == '-') skip_space();
    if (sign == 0 && trims_newline) skip("\n");
    return true;
  }

  // From text outside of tags through the next tag.
  Status lex_text() {
    const size_t start = position_;
    size_t tag = start;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push(TokenKind::kText, source_.substr(start), start);
        position_ = source_.size();
        return {};
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
    }
    const char kind = source_[tag + 1];
    position_ = tag + 2;
    const char sign = skip_sign();
    push_text(start, tag, sign, kind != '{');
    if (kind == '#') return lex_comment(tag);
    if (kind == '%' && skip_raw_opening()) return lex_raw(tag);
    push(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, kind == '{' ? "{{" : "{%", tag);
    return lex_tag(kind == '%', tag);
  }

  Status lex_comment(size_t tag) {
    const size_t body = position_;
    const size_t end = source_.find("#}", body);
    if (end == std::string::npos) return syntax_error(place_of(tag), "this comment has no end: '#}' is missing");
    position_ = end > body && (source_[end - 1] == '-' || source_[end - 1] == '+') ? end - 1 : end;
    skip_end("#}", true);
    return {};
  }

  bool skip_raw_opening() {
    const size_t start = position_;
    skip_space();
    if (skip("raw")) {
      skip_space();
      if (skip("-%}")) return skip_space(), true;
      if (skip("%}")) return true;
    }
    position_ = start;
    return false;
  }

  Status lex_raw(size_t tag) {
    const size_t start = position_;
    for (size_t end = source_.find("{%", start); end != std::string::npos; end = source_.find("{%", end + 1)) {
      position_ = end + 2;
      const char sign = skip_sign();
      skip_space();
      if (!skip("endraw")) continue;
      skip_space();
      if (!skip_end("%}", true)) continue;
      push_text(start, end, sign, true);
      return {};
    }
    return syntax_error(place_of(tag), "this raw block has no end: '{% endraw %}' is missing");
  }

  // The tokens of a tag through its end.
  Status lex_tag(bool is_block, size_t tag) {
    std::string open_brackets;
    for (;;) {
      skip_space();
      const size_t start = position_;
      if (open_brackets.empty() && skip_end(is_block ? "%}" : "}}", is_block)) {
        push(is_block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, is_block ? "%}" : "}}", start);
        return {};
      }
      if (start >= source_.size()) {
        return syntax_error(place_of(tag),
                            is_block ? "this tag has no end: '%}' is missing" : "this tag has no end: '}}' is missing");
      }
      const char c = source_[start];
      if (is_name_start(c)) {
        while (position_ < source_.size() && is_name_part(source_[position_])) ++position_;
        push(TokenKind::kName, source_.substr(start, position_ - start), start);
      } else if (is_ascii_digit(c)) {
        QUIRE_TRY_STATUS(lex_number());
      } else if (c == '\'' || c == '"') {
        QUIRE_TRY_STATUS(lex_string());
      } else {
        QUIRE_TRY_STATUS(lex_operator(open_brackets));
      }
    }
  }

  Status lex_operator(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 27> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", "!"};
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(), [this](std::string_view text) { return at(text); });
    if (found == kOperators.end() || *found == "!" || *found == ";") {
      return syntax_error(place_of(position_), fmt::format("unexpected character {:?}", source_.substr(position_, 1)));
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') {
      if (open_brackets.size() >= static_cast<size_t>(kMaxNesting)) {
        return make_error(ErrorCode::kLimit, syntax_error(place_of(position_), "too many brackets within brackets").message);
      }
      open_brackets.push_back(c == '(' ? ')' : (c == '[' ? ']' : '}'));
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) {
        const std::string expected =
            open_brackets.empty() ? "no bracket is open" : fmt::format("expected '{}'", open_brackets.back());
        return syntax_error(place_of(position_), fmt::format("unexpected '{}', {}", c, expected));
      }
      open_brackets.pop_back();
    }
    push(TokenKind::kOperator, std::string(*found), position_);
    position_ += found->size();
    return {};
  }

  // Digits with single underscores between them, appended to `digits`.
  void take_digits(std::string& digits) {
    while (position_ < source_.size()) {
      const char c = source_[position_];
      const bool underscore = c == '_' && position_ + 1 < source_.size() && is_ascii_digit(source_[position_ + 1]);
      if (!is_ascii_digit(c) && !underscore) return;
      if (!underscore) digits.push_back(c);
      ++position_;
    }
  }

  [[nodiscard]] bool digit_at(size_t offset) const { return offset < source_.size() && is_ascii_digit(source_[offset]); }

  Status lex_number() {
    const size_t start = position_;
    if (at("0x") || at("0X") || at("0o") || at("0O") || at("0b") || at("0B")) return lex_prefixed_integer();
    std::string digits;
    take_digits(digits);
    // "a.0.1" takes elements, it has no float in it.
    const bool after_dot = start > 0 && source_[start - 1] == '.';
    bool is_float = false;
    if (!after_dot && at(".") && digit_at(position_ + 1)) {
      is_float = true;
      digits.push_back('.');
      ++position_;
      take_digits(digits);
    }
    if (!after_dot && (at("e") || at("E"))) {
      const size_t sign =
          position_ + 1 < source_.size() && (source_[position_ + 1] == '+' || source_[position_ + 1] == '-') ? 1 : 0;
      if (digit_at(position_ + 1 + sign)) {
        is_float = true;
        digits.append(source_, position_, 1 + sign);
        position_ += 1 + sign;
        take_digits(digits);
      }
    }
    Token& token = push(is_float ? TokenKind::kFloat : TokenKind::kInteger, source_.substr(start, position_ - start), start);
    if (is_float) {
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.number);
      if (error != std::errc()) return syntax_error(token.place, fmt::format("the number {} is out of range", digits));
      return {};
    }
    return parse_integer(digits, 10, token);
  }

  Status lex_prefixed_integer() {
    const size_t start = position_;
    const char kind = static_cast<char>(source_[start + 1] | 0x20);
    const int base = kind == 'x' ? 16 : (kind == 'o' ? 8 : 2);
    position_ += 2;
    std::string digits;
    while (position_ < source_.size()) {
      const char c = source_[position_];
      if (c != '_' && (hex_value(c) < 0 || hex_value(c) >= base)) break;
      if (c != '_') digits.push_back(c);
      ++position_;
    }
    Token& token = push(TokenKind::kInteger, source_.substr(start, position_ - start), start);
    return parse_integer(digits, base, token);
  }

  static Status parse_integer(const std::string& digits, int base, Token& token) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (error == std::errc()) return {};
    return syntax_error(token.place, fmt::format("{} is no integer of 64 bits", token.text));
  }

  Status lex_string() {
    const size_t start = position_;
    const char quote = source_[position_++];
    std::string text;
    while (position_ < source_.size() && source_[position_] != quote) {
      if (source_[position_] != '\\') {
        text.push_back(source_[position_++]);
      } else if (!resolve_escape(text)) {
        return syntax_error(place_of(position_), "this escape sequence is not complete");
      }
    }
    if (position_ >= source_.size())
      return syntax_error(place_of(start), fmt::format("this string has no end: {} is missing", quote));
    ++position_;
    push(TokenKind::kString, std::move(text), start);
    return {};
  }

  // One escape sequence, as in Python's strings; what is none keeps its backslash.
  bool resolve_escape(std::string& text) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (position_ + 1 >= source_.size()) return false;
    const char c = source_[position_ + 1];
    position_ += 2;
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) return text.push_back(kMeanings[letter]), true;
    if (c == '\n') return true;
    if (c == 'x') return resolve_code(text, 2, 16);
    if (c == 'u') return resolve_code(text, 4, 16);
    if (c == 'U') return resolve_code(text, 8, 16);
    if (c >= '0' && c <= '7') {
      --position_;
      size_t digits = 1;
      while (digits < 3 && position_ + digits < source_.size() && source_[position_ + digits] >= '0' &&
             source_[position_ + digits] <= '7') {
        ++digits;
      }
      return resolve_code(text, digits, 8);
    }
    text.push_back('\\');
    text.push_back(c);
    return true;
  }

  bool resolve_code(std::string& text, size_t digits, int base) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i, ++position_) {
      const int value = position_ < source_.size() ? hex_value(source_[position_]) : -1;
      if (value < 0 || value >= base) return false;
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(value);
    }
    // Surrogates have no UTF-8.
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    append_utf8(text, static_cast<int32_t>(code));
    return true;
  }

  std::string source_;
  size_t position_ = 0;
  std::vector<size_t> line_starts_;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText: return "template text";
    case TokenKind::kName: return fmt::format("name '{}'", token.text);
    case TokenKind::kString: return "a string";
    case TokenKind::kEnd: return "the end of the template";
    default: return fmt::format("'{}'", token.text);
  }
}

Error syntax_error(Place place, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("chat template, line {} column {}: {}", place.line, place.column, what));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return make_error(ErrorCode::kLimit,
                      fmt::format("chat template: {} bytes long, at most {} are read", source.size(), kMaxSourceBytes));
  }
  return Lexer(source).run();
}

}  // namespace quire::chat
