#include "tokenizer/vocabulary_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::tokenizer {
namespace {

std::string key_of(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }

Status read_strings(const gguf::File& file, std::string_view name, std::vector<std::string>& out) {
  QUIRE_TRY(const std::vector<std::string_view> strings, file.get_strings(key_of(name)));
  out.assign(strings.begin(), strings.end());
  return {};
}

Status read_types(const gguf::File& file, std::vector<int32_t>& out) {
  const std::string key = key_of("token_type");
  if (!file.find(key)) return {};
  QUIRE_TRY(const std::vector<int64_t> types, file.get_integers(key));
  out.reserve(types.size());
  for (const int64_t type : types) {
    if (type != static_cast<int32_t>(type))
      return make_error(ErrorCode::kCorrupt, fmt::format("{}: {} is no token type", key, type));
    out.push_back(static_cast<int32_t>(type));
  }
  return {};
}

Status read_scores(const gguf::File& file, std::vector<float>& out) {
  const std::string key = key_of("scores");
  if (!file.find(key)) return {};
  QUIRE_TRY(const std::vector<double> scores, file.get_floats(key));
  out.reserve(scores.size());
  // A float64 beyond float32's range becomes infinite, which is what it means for an order.
  for (const double score : scores) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    const bool fits = !(score > kLargest || score < -kLargest);
    const float infinite = score > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
    out.push_back(fits ? static_cast<float>(score) : infinite);
  }
  return {};
}

Status read_id(const gguf::File& file, std::string_view name, std::optional<int64_t>& out) {
  const std::string key = key_of(name);
  if (!file.find(key)) return {};
  QUIRE_TRY(out, file.get_i64(key));
  return {};
}

Status read_flag(const gguf::File& file, std::string_view name, std::optional<bool>& out) {
  const std::string key = key_of(name);
  if (!file.find(key)) return {};
  QUIRE_TRY(out, file.get_bool(key));
  return {};
}

Status refuse_normalization(const gguf::File& file) {
  QUIRE_TRY(const bool remove, file.get_bool_or(key_of("remove_extra_whitespaces"), false));
  if (remove) return make_error(ErrorCode::kUnsupported, key_of("remove_extra_whitespaces") + ": not supported");
  if (const gguf::Value* map = file.find(key_of("precompiled_charsmap"))) {
    QUIRE_TRY(const gguf::Array array, map->array());
    if (array.count() > 0) return make_error(ErrorCode::kUnsupported, key_of("precompiled_charsmap") + ": not supported");
  }
  return {};
}

}  // namespace

Result<Vocabulary> vocabulary_from(const gguf::File& file) {
  Vocabulary vocabulary;
  QUIRE_TRY(vocabulary.model, file.get_string(key_of("model")));
  QUIRE_TRY(vocabulary.pre, file.get_string_or(key_of("pre"), ""));
  QUIRE_TRY_STATUS(refuse_normalization(file));
  QUIRE_TRY_STATUS(read_strings(file, "tokens", vocabulary.tokens));
  if (file.find(key_of("merges"))) QUIRE_TRY_STATUS(read_strings(file, "merges", vocabulary.merges));
  QUIRE_TRY_STATUS(read_types(file, vocabulary.types));
  QUIRE_TRY_STATUS(read_scores(file, vocabulary.scores));
  const std::pair<std::string_view, std::optional<int64_t>*> ids[] = {{"bos_token_id", &vocabulary.bos},
                                                                      {"eos_token_id", &vocabulary.eos},
                                                                      {"eot_token_id", &vocabulary.end_of_turn},
                                                                      {"unknown_token_id", &vocabulary.unknown},
                                                                      {"padding_token_id", &vocabulary.padding}};
  for (const auto& [name, id] : ids) QUIRE_TRY_STATUS(read_id(file, name, *id));
  const std::pair<std::string_view, std::optional<bool>*> flags[] = {{"add_bos_token", &vocabulary.add_bos},
                                                                     {"add_eos_token", &vocabulary.add_eos},
                                                                     {"add_space_prefix", &vocabulary.add_space_prefix}};
  for (const auto& [name, flag] : flags) QUIRE_TRY_STATUS(read_flag(file, name, *flag));
  return vocabulary;
}

}  // namespace quire::tokenizer
