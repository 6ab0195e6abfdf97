#include "tokenizer/detokenizer.h"

#include "tokenizer/utf8.h"

namespace quire::tokenizer {

Result<std::string> Detokenizer::push(TokenId id) {
  QUIRE_TRY_STATUS(decoder_.append(id, pending_));
  std::string text;
  const size_t incomplete = append_valid_utf8(pending_, text);
  pending_.erase(0, pending_.size() - incomplete);
  return text;
}

std::string Detokenizer::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return incomplete ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace quire::tokenizer
