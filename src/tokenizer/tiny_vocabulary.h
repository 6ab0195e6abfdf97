// Small vocabularies for tests and fuzz targets.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

inline TokenId add_token(Vocabulary& vocabulary, std::string_view text, TokenType type = TokenType::kNormal, float score = 0) {
  vocabulary.tokens.emplace_back(text);
  vocabulary.types.push_back(static_cast<int32_t>(type));
  vocabulary.scores.push_back(score);
  return static_cast<TokenId>(vocabulary.tokens.size() - 1);
}

// gpt2: the ids 0 to 255 are the bytes, then the merges' tokens in their order, then special ones.
inline Vocabulary tiny_byte_level_vocabulary(std::string_view pre = "gpt-2") {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = pre;
  for (int byte = 0; byte < 256; ++byte) add_token(v, byte_level_character(static_cast<uint8_t>(byte)));
  constexpr std::pair<std::string_view, std::string_view> kMerges[] = {
      {"h", "e"}, {"l", "l"},   {"he", "ll"}, {"hell", "o"}, {"Ġ", "hello"}, {"Ġ", "w"}, {"Ġ", "Ġ"},
      {"a", "a"}, {"aa", "aa"}, {"1", "2"},   {"Ã", "©"},    {"i", "m"},     {"<", "|"}};
  for (const auto& [left, right] : kMerges) {
    v.merges.push_back(fmt::format("{} {}", left, right));
    add_token(v, fmt::format("{}{}", left, right));
  }
  v.bos = add_token(v, "<|begin|>", TokenType::kControl);
  v.eos = add_token(v, "<|end|>", TokenType::kControl);
  add_token(v, "<|im_end|>", TokenType::kControl);
  add_token(v, "[TOOL]", TokenType::kUserDefined);
  add_token(v, "[TOOL]s", TokenType::kUserDefined);
  return v;
}

// llama: <unk> <s> </s>, the 256 bytes (byte b is the id 3 + b), then pieces of which longer ones merge first, then special ones.
inline Vocabulary tiny_sentence_piece_vocabulary() {
  Vocabulary v;
  v.model = "llama";
  v.pre = "default";
  v.unknown = add_token(v, "<unk>", TokenType::kUnknown);
  v.bos = add_token(v, "<s>", TokenType::kControl);
  v.eos = add_token(v, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add_token(v, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  float score = -1;
  for (const std::string_view piece :
       {"▁the", "▁t", "he", "aaaa", "aa", "▁▁", "▁", "a", "b", "e", "h", "s", "t", "é", "<", ">", "<s"}) {
    add_token(v, piece, TokenType::kNormal, score);
    score -= 1;
  }
  add_token(v, "\n\n", TokenType::kUserDefined, -1000);
  add_token(v, "<b>", TokenType::kUserDefined, -1000);
  add_token(v, "<end_of_turn>", TokenType::kControl, -1000);
  return v;
}

}  // namespace quire::tokenizer
