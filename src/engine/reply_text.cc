#include "engine/reply_text.h"

#include <utility>

namespace quire::engine {

std::string ReplyText::add(TokenId token) {
  Result<std::string> characters = detokenizer_.push(token);
  QUIRE_CHECK(characters.ok(), "only tokens of the vocabulary are sampled");
  return stop_.append(*characters);
}

std::string ReplyText::finish() {
  std::string rest = stop_.append(detokenizer_.finish());
  rest += stop_.finish();
  return rest;
}

}  // namespace quire::engine
