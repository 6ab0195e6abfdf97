// Ids to text as they come, in whole UTF-8 characters: what a client sees of a reply while it is written.
//
//   Detokenizer detokenizer(tokenizer, {.continues_text = true});
//   for each new id:  QUIRE_TRY(std::string text, detokenizer.push(id));  // may be empty; send it
//   at the end:       std::string rest = detokenizer.finish();
//
// All texts together are the decoded bytes with U+FFFD for what is not UTF-8 (one for each maximal subpart, as the Unicode
// standard recommends in chapter 3.9), wherever the ids end. At most 3 bytes are held back: the beginning of a character that may
// still become whole.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/tokenizer.h"

namespace quire::tokenizer {

class Detokenizer {
 public:
  // The tokenizer must outlive it.
  explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {}) : decoder_(tokenizer, options) {}

  // The characters that are whole with this token. kInvalidArgument for an id that is no token; nothing has changed then.
  [[nodiscard]] Result<std::string> push(TokenId id);

  // What was held back, as one U+FFFD, or nothing. More ids may follow.
  [[nodiscard]] std::string finish();

  // Bytes that are held back.
  [[nodiscard]] size_t pending() const { return pending_.size(); }

 private:
  TokenDecoder decoder_;
  std::string pending_;
};

}  // namespace quire::tokenizer
