// What a model file says about its tokenizer, as plain data. Nothing here is trusted: Tokenizer::create() checks all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quire::tokenizer {

// The values of the metadata key tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,      // stands for what has no token
  kControl = 3,      // steers the model; text never becomes one unless the caller asks for it (parse_special)
  kUserDefined = 4,  // whole words that are cut out of any text before everything else
  kUnused = 5,
  kByte = 6,  // "<0x00>" to "<0xFF>": one byte each, for characters without a token (SentencePiece only)
};

struct Vocabulary {
  std::string model;                // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE)
  std::string pre;                  // tokenizer.ggml.pre: the pre-tokenizer; empty where the file has none
  std::vector<std::string> tokens;  // the text of each token as the file writes it; the index is the id
  std::vector<float> scores;        // llama: one a token, higher merges first; ignored for gpt2
  std::vector<int32_t> types;       // TokenType, one a token; empty means that all are normal
  std::vector<std::string> merges;  // gpt2: "left right", the first merges first

  std::optional<int64_t> bos;          // begins a text
  std::optional<int64_t> eos;          // ends a text
  std::optional<int64_t> end_of_turn;  // ends a reply
  std::optional<int64_t> unknown;
  std::optional<int64_t> padding;

  // What Tokenizer::create() takes where the file is silent: llama begins texts with bos (if there is one) and prefixes a space,
  // gpt2 does neither; nobody ends texts with eos.
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

// Checks what holds for every model: the sizes agree, token texts differ (empty ones, which nothing encodes to, aside), types are
// known, ids are in range. The error names the first thing that is wrong.
[[nodiscard]] Status check_vocabulary(const Vocabulary& vocabulary);

// The type of a token of a checked vocabulary.
[[nodiscard]] TokenType type_of(const Vocabulary& vocabulary, TokenId id);

// A token's text for messages: in quotes, cut at 40 bytes, with \xNN for what a terminal should not see.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace quire::tokenizer
