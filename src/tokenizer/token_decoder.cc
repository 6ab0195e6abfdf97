#include "tokenizer/token_decoder.h"

#include <fmt/format.h>

namespace quire::tokenizer {

Status TokenDecoder::append(TokenId id, std::string& bytes) {
  if (!tokenizer_.contains(id)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tokenizer: {} is no token; the vocabulary has the ids 0 to {}", id,
                                                               tokenizer_.vocab_size() - 1));
  }
  std::string_view piece = tokenizer_.piece(id);
  const bool control = tokenizer_.is_control(id);
  if (control || tokenizer_.type(id) == TokenType::kUserDefined) {
    if (!control || include_special_) bytes += piece;
    drop_space_ = tokenizer_.add_space_prefix();
    return {};
  }
  if (piece.empty()) return {};
  if (drop_space_ && piece.front() == ' ') piece.remove_prefix(1);
  drop_space_ = false;
  bytes += piece;
  return {};
}

}  // namespace quire::tokenizer
