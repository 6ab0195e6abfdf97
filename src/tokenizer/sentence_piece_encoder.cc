#include "tokenizer/sentence_piece_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tokenizer/utf8.h"

namespace quire::tokenizer {

Result<std::unique_ptr<const Encoder>> SentencePieceEncoder::create(const Vocabulary& vocabulary, const Pieces& pieces) {
  if (!vocabulary.pre.empty() && vocabulary.pre != "default") {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("tokenizer: the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported for the model llama; "
                                  "supported: default",
                                  vocabulary.pre));
  }
  auto encoder = std::unique_ptr<SentencePieceEncoder>(new SentencePieceEncoder(pieces));
  QUIRE_TRY_STATUS(encoder->read_bytes(vocabulary));
  QUIRE_TRY_STATUS(encoder->read_scores(vocabulary));
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status SentencePieceEncoder::read_bytes(const Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (type_of(vocabulary, static_cast<TokenId>(id)) != TokenType::kByte) continue;
    const int byte = parse_byte_token(vocabulary.tokens[id]);
    if (byte < 0) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("tokenizer: token {} has the type byte, but its text {} is not of the form <0xNN>", id,
                                    printable(vocabulary.tokens[id])));
    }
    TokenId& token = byte_tokens_[static_cast<size_t>(byte)];
    if (token != kNoToken) {
      return make_error(ErrorCode::kCorrupt, fmt::format("tokenizer: the tokens {} and {} stand for the same byte", token, id));
    }
    token = static_cast<TokenId>(id);
  }
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    if (byte_tokens_[byte] != kNoToken) continue;
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer: the vocabulary has no token <0x{:02X}>; SentencePiece vocabularies without all 256 byte "
                    "tokens are not supported",
                    byte));
  }
  return {};
}

Status SentencePieceEncoder::read_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.empty()) return make_error(ErrorCode::kCorrupt, "tokenizer: the model llama needs tokenizer.ggml.scores");
  for (size_t id = 0; id < vocabulary.scores.size(); ++id) {
    if (!std::isnan(vocabulary.scores[id])) continue;
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("tokenizer: the score of token {} is not a number (tokenizer.ggml.scores)", id));
  }
  std::vector<float> distinct = vocabulary.scores;
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  ranks_.reserve(vocabulary.scores.size());
  for (size_t i = 0; i < vocabulary.scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), vocabulary.scores[i], std::greater<>());
    ranks_.push_back(static_cast<uint32_t>(at - distinct.begin()));
    const TokenType type = type_of(vocabulary, id);
    if ((type != TokenType::kNormal && type != TokenType::kUnused) || pieces_[id].empty()) continue;
    index_.insert(pieces_, id);
    longest_ = std::max(longest_, pieces_[id].size());
  }
  return {};
}

std::vector<Symbol> SentencePieceEncoder::symbols_of(std::string_view text) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    const Utf8Step step = utf8_step(text.substr(begin));
    const size_t length = step.kind == Utf8Step::Kind::kCharacter ? step.length : 1;
    const TokenId id = index_.find(pieces_, text.substr(begin, length)).value_or(kNoToken);
    symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(length), id});
    begin += length;
  }
  return symbols;
}

Status SentencePieceEncoder::encode(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<Symbol> symbols = symbols_of(text);
  SymbolMerger merger;
  merger.run(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const size_t length = size_t{left.length} + right.length;
    if (length > longest_) return std::nullopt;
    const auto id = index_.find(pieces_, text.substr(left.begin, length));
    if (!id) return std::nullopt;
    return Merge{ranks_[static_cast<size_t>(*id)], *id};
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kNoToken) {
      ids.push_back(symbol.id);
    } else {
      for (const char c : text.substr(symbol.begin, symbol.length)) ids.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    }
  }
  return {};
}

}  // namespace quire::tokenizer
