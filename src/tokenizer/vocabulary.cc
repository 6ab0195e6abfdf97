#include "tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "tokenizer/token_index.h"

namespace quire::tokenizer {
namespace {

Error corrupt(std::string message) { return make_error(ErrorCode::kCorrupt, "tokenizer: " + std::move(message)); }

Status check_sizes(const Vocabulary& v) {
  const size_t count = v.tokens.size();
  if (count == 0) return corrupt("the vocabulary is empty (tokenizer.ggml.tokens)");
  if (count > static_cast<size_t>(std::numeric_limits<TokenId>::max())) return corrupt("more than 2^31 tokens");
  if (!v.types.empty() && v.types.size() != count) {
    return corrupt(fmt::format("{} token types for {} tokens (tokenizer.ggml.token_type)", v.types.size(), count));
  }
  if (!v.scores.empty() && v.scores.size() != count) {
    return corrupt(fmt::format("{} scores for {} tokens (tokenizer.ggml.scores)", v.scores.size(), count));
  }
  uint64_t bytes = 0;
  for (const std::string& token : v.tokens) bytes += token.size();
  if (bytes > std::numeric_limits<uint32_t>::max()) return corrupt("the tokens are longer than 4 GiB together");
  return {};
}

Status check_id(std::string_view key, const std::optional<int64_t>& id, size_t count) {
  if (!id || (*id >= 0 && static_cast<uint64_t>(*id) < count)) return {};
  return corrupt(fmt::format("tokenizer.ggml.{} is {}, but the ids end at {}", key, *id, count - 1));
}

}  // namespace

Status check_vocabulary(const Vocabulary& v) {
  QUIRE_TRY_STATUS(check_sizes(v));
  const size_t count = v.tokens.size();
  for (size_t id = 0; id < v.types.size(); ++id) {
    if (v.types[id] < static_cast<int32_t>(TokenType::kNormal) || v.types[id] > static_cast<int32_t>(TokenType::kByte)) {
      return corrupt(fmt::format("token {} ({}) has the unknown type {}", id, printable(v.tokens[id]), v.types[id]));
    }
  }
  TokenIndex index(count);
  for (size_t id = 0; id < count; ++id) {
    if (v.tokens[id].empty()) continue;
    if (const auto first = index.insert(v.tokens, static_cast<TokenId>(id))) {
      return corrupt(fmt::format("the tokens {} and {} have the same text {}", *first, id, printable(v.tokens[id])));
    }
  }
  const std::pair<std::string_view, const std::optional<int64_t>*> ids[] = {{"bos_token_id", &v.bos},
                                                                            {"eos_token_id", &v.eos},
                                                                            {"eot_token_id", &v.end_of_turn},
                                                                            {"unknown_token_id", &v.unknown},
                                                                            {"padding_token_id", &v.padding}};
  for (const auto& [key, id] : ids) QUIRE_TRY_STATUS(check_id(key, *id, count));
  return {};
}

TokenType type_of(const Vocabulary& v, TokenId id) {
  return v.types.empty() ? TokenType::kNormal : static_cast<TokenType>(v.types[static_cast<size_t>(id)]);
}

std::string printable(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\' ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

}  // namespace quire::tokenizer
