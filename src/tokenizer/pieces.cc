#include "tokenizer/pieces.h"

#include <charconv>

#include "base/check.h"
#include "tokenizer/byte_level.h"

namespace quire::tokenizer {
namespace {

constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";  // U+2581

bool is_literal(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kUserDefined;
}

std::string with_spaces(std::string_view text) {
  std::string bytes;
  while (true) {
    const size_t at = text.find(kVisibleSpace);
    bytes += text.substr(0, at);
    if (at == std::string_view::npos) return bytes;
    bytes += ' ';
    text.remove_prefix(at + kVisibleSpace.size());
  }
}

}  // namespace

void Pieces::add(std::string_view bytes) {
  bytes_ += bytes;
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

std::string_view Pieces::operator[](TokenId id) const {
  const auto index = static_cast<size_t>(id);
  QUIRE_DCHECK(index < ends_.size());
  const uint32_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(bytes_).substr(begin, ends_[index] - begin);
}

Pieces byte_level_pieces(const Vocabulary& vocabulary) {
  Pieces pieces;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    pieces.add(is_literal(type_of(vocabulary, static_cast<TokenId>(id))) ? text : from_byte_level(text).value_or(text));
  }
  return pieces;
}

Pieces sentence_piece_pieces(const Vocabulary& vocabulary) {
  Pieces pieces;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    const TokenType type = type_of(vocabulary, static_cast<TokenId>(id));
    if (is_literal(type)) {
      pieces.add(text);
    } else if (const int byte = type == TokenType::kByte ? parse_byte_token(text) : -1; byte >= 0) {
      pieces.add(std::string(1, static_cast<char>(byte)));
    } else {
      pieces.add(with_spaces(text));
    }
  }
  return pieces;
}

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  return error == std::errc() && end == text.data() + 5 && byte >= 0 ? byte : -1;
}

}  // namespace quire::tokenizer
