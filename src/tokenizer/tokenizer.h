// Text to token ids and back.
//
//   QUIRE_TRY(Vocabulary vocabulary, vocabulary_from(file));          // tokenizer/vocabulary_gguf.h
//   QUIRE_TRY(Tokenizer tokenizer, Tokenizer::create(std::move(vocabulary)));
//   QUIRE_TRY(std::vector<TokenId> ids, tokenizer.encode("Hello", {.add_special = true}));
//   QUIRE_TRY(std::string text, tokenizer.decode(ids));               // replies token by token: tokenizer/detokenizer.h
//
// Any bytes are a text. What is not UTF-8 is kept: where the vocabulary has tokens for all bytes (all of SentencePiece's do),
// decode(encode(text)) == text to the byte. Time is at most O(n log n) in the length of the text, whatever is in it.
//
// A Tokenizer does not change after create(); all const functions may be called from many threads at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text_range.h"
#include "base/units.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

struct EncodeOptions {
  // Control tokens written in the text ("<|im_end|>") become these tokens. Off, they are plain text: what a user writes can never
  // end his turn. User-defined tokens are always cut out first; of several that begin at one place the longest wins.
  bool parse_special = false;
  // Where parse_special does not hold: parts that a user wrote (chat::MarkedText::input()), ascending, not empty, without overlaps.
  // No control token begins, ends or lies in them, and none reaches over one.
  std::span<const TextRange> plain = {};
  // Adds bos and eos where the model's metadata says so, as for a whole text of its own.
  bool add_special = false;
};

struct DecodeOptions {
  // Control tokens appear as their text; else as nothing.
  bool include_special = false;
  // The ids go on from other ones (a reply after its prompt), so a space before their first word is real. Else a SentencePiece
  // model's first space is the one that encode() added, and is left out.
  bool continues_text = false;
};

// Longer texts are refused: working memory is about 50 bytes for each byte of text.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

class Tokenizer {
 public:
  // Checks everything in the vocabulary. Errors (kCorrupt, kUnsupported) name what is wrong; those about an unknown model or
  // pre-tokenizer list the supported ones.
  [[nodiscard]] static Result<Tokenizer> create(Vocabulary vocabulary);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Errors: kLimit for a text beyond kMaxTextBytes or one that the pre-tokenizer gives up on.
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes of a text; they may end inside of a character where the ids do. kInvalidArgument for an id that is no token.
  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  [[nodiscard]] size_t vocab_size() const;
  [[nodiscard]] bool contains(TokenId id) const;

  // The bytes of one token, without any rule about spaces; a control token's are its text. The id must be a token's.
  [[nodiscard]] std::string_view piece(TokenId id) const;
  [[nodiscard]] TokenType type(TokenId id) const;
  [[nodiscard]] bool is_control(TokenId id) const;  // control or unknown: no part of the text

  // Ends a reply: eos, the end of a turn, and tokens that are known to end a turn or a text by their names ("<|im_end|>", ...).
  [[nodiscard]] bool is_end_of_generation(TokenId id) const;
  [[nodiscard]] std::span<const TokenId> end_of_generation() const;  // ascending

  // The control or user-defined token with this text.
  [[nodiscard]] std::optional<TokenId> special_token(std::string_view text) const;

  [[nodiscard]] std::optional<TokenId> bos() const;
  [[nodiscard]] std::optional<TokenId> eos() const;
  [[nodiscard]] bool add_bos() const;  // encode() with add_special begins with bos
  [[nodiscard]] bool add_eos() const;
  [[nodiscard]] bool add_space_prefix() const;  // encode() puts a space before the text and after each special token

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace quire::tokenizer
