// From ids to bytes, one id after the other: what Tokenizer::decode() and Detokenizer share.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "tokenizer/tokenizer.h"

namespace quire::tokenizer {

class TokenDecoder {
 public:
  // The tokenizer must outlive it.
  TokenDecoder(const Tokenizer& tokenizer, DecodeOptions options)
      : tokenizer_(tokenizer),
        include_special_(options.include_special),
        drop_space_(tokenizer.add_space_prefix() && !options.continues_text) {}

  // Appends the bytes of the next token. kInvalidArgument for an id that is no token; the state is then unchanged.
  [[nodiscard]] Status append(TokenId id, std::string& bytes);

 private:
  const Tokenizer& tokenizer_;
  bool include_special_;
  // The next piece begins where encode() adds a space: at the beginning and after each special token.
  bool drop_space_;
};

}  // namespace quire::tokenizer
