// Byte-level BPE (tokenizer.ggml.model = "gpt2").
//
// Algorithm: R. Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), over bytes as GPT-2 does it
// (openai/gpt-2, src/encoder.py): the pre-tokenizer cuts the text; each piece begins as one symbol a byte; neighbours merge in
// the order of the list of merges.
//
// Some vocabularies have no token for bytes that never occurred in their training (SmolLM2's lacks 21). Such a byte is encoded as
// U+FFFD: never dropped in silence, never a special token. A vocabulary that lacks bytes of U+FFFD as well is refused.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/encoder.h"
#include "tokenizer/pieces.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/symbol_merger.h"
#include "tokenizer/token_index.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

// The merges by the pair of ids that they join.
class MergeTable {
 public:
  explicit MergeTable(size_t expected);

  // The first merge of a pair stays.
  void insert(TokenId left, TokenId right, Merge merge);
  [[nodiscard]] std::optional<Merge> find(TokenId left, TokenId right) const;

 private:
  struct Entry {
    TokenId left = kNoToken;  // kNoToken: the slot is free
    TokenId right = kNoToken;
    Merge merge{};
  };
  [[nodiscard]] size_t slot_of(TokenId left, TokenId right) const;

  std::vector<Entry> slots_;  // a power of two of them, at most half used
};

class BytePairEncoder final : public Encoder {
 public:
  // From a checked vocabulary and its pieces (byte_level_pieces). Errors: a merge that is no "left right", names a token that is
  // not there or a special one, or does not yield its parts' bytes; missing byte tokens; an unknown pre-tokenizer.
  [[nodiscard]] static Result<std::unique_ptr<const Encoder>> create(const Vocabulary& vocabulary, const Pieces& pieces);

  [[nodiscard]] Status encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  BytePairEncoder(PreTokenizer pre_tokenizer, size_t merges) : pre_tokenizer_(std::move(pre_tokenizer)), merges_(merges) {}

  [[nodiscard]] Status read_bytes(const Vocabulary& vocabulary, const TokenIndex& index);
  [[nodiscard]] Status read_merges(const Vocabulary& vocabulary, const Pieces& pieces, const TokenIndex& index);
  void append_symbols(std::string_view piece, std::vector<Symbol>& symbols) const;

  PreTokenizer pre_tokenizer_;
  std::array<TokenId, 256> byte_tokens_{};  // kNoToken where there is none
  MergeTable merges_;
};

}  // namespace quire::tokenizer
