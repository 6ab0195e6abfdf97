// SentencePiece's BPE (tokenizer.ggml.model = "llama").
//
// Algorithm: T. Kudo, J. Richardson, "SentencePiece" (2018), src/bpe_model.cc: the text begins as one symbol a character; of all
// neighbours whose concatenation is a token, the one with the highest score merges first, of equal ones the leftmost. A character
// that has no token in the end becomes one byte token a byte. There is no pre-tokenizer.
//
// Merging yields normal and unused tokens only, so that text cannot become a control token by merging. A space is U+2581 in the
// vocabulary; here it is a space throughout, so a U+2581 in the text is a character like others (it becomes bytes and comes back).
// Bytes that are not UTF-8 are characters of one byte each.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/encoder.h"
#include "tokenizer/pieces.h"
#include "tokenizer/symbol_merger.h"
#include "tokenizer/token_index.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

class SentencePieceEncoder final : public Encoder {
 public:
  // From a checked vocabulary and its pieces (sentence_piece_pieces), which must outlive the encoder at their place. Errors: no
  // scores, a score that is not a number, byte tokens that are missing or double, a pre-tokenizer other than "default".
  [[nodiscard]] static Result<std::unique_ptr<const Encoder>> create(const Vocabulary& vocabulary, const Pieces& pieces);

  [[nodiscard]] Status encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  explicit SentencePieceEncoder(const Pieces& pieces) : pieces_(pieces), index_(pieces.size()) { byte_tokens_.fill(kNoToken); }

  [[nodiscard]] Status read_bytes(const Vocabulary& vocabulary);
  [[nodiscard]] Status read_scores(const Vocabulary& vocabulary);
  [[nodiscard]] std::vector<Symbol> symbols_of(std::string_view text) const;

  const Pieces& pieces_;
  TokenIndex index_;             // of the tokens that merging can yield
  std::vector<uint32_t> ranks_;  // of each token: 0 for the highest score, equal for equal scores
  std::array<TokenId, 256> byte_tokens_{};
  size_t longest_ = 0;  // bytes of the longest token in index_
};

}  // namespace quire::tokenizer
