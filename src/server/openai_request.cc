#include "server/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "server/json_fields.h"
#include "server/openai_messages.h"

namespace quire::server {
namespace {

constexpr int64_t kCompletionTokens = 16;  // what a completion without max_tokens gets, as at OpenAI
constexpr int64_t kMaxPriority = 1'000'000;
constexpr double kSmallestPenalty = 0.01;
constexpr double kLargestPenalty = 100;
// OpenAI takes top_p 0 for the most probable token alone, which this leaves of any row.
constexpr double kSmallestTopP = 1e-9;

ApiStatus read_penalties(const ObjectReader& body, sampling::SamplingParameters& sampling) {
  QUIRE_TRY_STATUS(body.read("presence_penalty", sampling.presence_penalty, -2, 2));
  QUIRE_TRY_STATUS(body.read("frequency_penalty", sampling.frequency_penalty, -2, 2));
  // vLLM's name, and llama.cpp's.
  QUIRE_TRY_STATUS(body.read("repetition_penalty", sampling.repeat_penalty, kSmallestPenalty, kLargestPenalty));
  return body.read("repeat_penalty", sampling.repeat_penalty, kSmallestPenalty, kLargestPenalty);
}

ApiStatus read_logit_bias(const ObjectReader& body, std::vector<sampling::LogitBias>& biases) {
  const std::optional<Field> field = body.find("logit_bias");
  if (!field) return {};
  QUIRE_TRY(const ObjectReader entries, ObjectReader::of(*field));
  for (const auto& [key, value] : entries.object()) {
    const Field entry{value, entries.path_of(key)};
    if (biases.size() == kMaxLogitBiases) {
      return bad_field(field->path, "array_above_max_length", fmt::format("at most {} tokens are taken", kMaxLogitBiases));
    }
    TokenId token = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token < 0) {
      return bad_field(entry.path.substr(0, kMaxNameBytes), "invalid_value", "a key must be a token id, as in {\"42\": -100}");
    }
    QUIRE_TRY(const double bias, as_number(entry, sampling::kBanned, sampling::kForced));
    const auto same = std::find_if(biases.begin(), biases.end(), [token](const auto& known) { return known.token == token; });
    if (same != biases.end()) return bad_field(entry.path, "invalid_value", "the token is named twice");
    biases.push_back({token, bias});
  }
  return {};
}

ApiStatus read_sampling(const ObjectReader& body, CompletionBody& out) {
  sampling::SamplingParameters& sampling = out.reply.sampling;
  sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_last_n = -1, .logit_bias = {}};
  QUIRE_TRY_STATUS(body.read("temperature", sampling.temperature, 0, 2));
  QUIRE_TRY_STATUS(body.read("top_p", sampling.top_p, 0, 1));
  sampling.top_p = std::max(sampling.top_p, kSmallestTopP);
  QUIRE_TRY_STATUS(body.read_integer("top_k", sampling.top_k, -1, std::numeric_limits<int32_t>::max()));
  sampling.top_k = std::max(sampling.top_k, 0);  // vLLM's -1: off
  QUIRE_TRY_STATUS(body.read("min_p", sampling.min_p, 0, 1));
  QUIRE_TRY_STATUS(body.read("typical_p", sampling.typical_p, kSmallestTopP, 1));
  QUIRE_TRY_STATUS(read_penalties(body, sampling));
  QUIRE_TRY_STATUS(read_logit_bias(body, sampling.logit_bias));
  if (const std::optional<Field> seed = body.find("seed")) {
    QUIRE_TRY(const int64_t number, as_integer(*seed, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
    sampling.seed = static_cast<uint64_t>(number);
    out.has_seed = true;
  }
  return {};
}

ApiStatus read_stop(const ObjectReader& body, std::vector<std::string>& stop) {
  const std::optional<Field> field = body.find("stop");
  if (!field) return {};
  std::vector<Field> texts = {*field};
  if (!field->element.is_string()) {
    if (!field->element.is_array()) return wrong_type(*field, "a string or an array of strings");
    QUIRE_TRY(texts, as_array(*field, 0, kMaxStopTexts));
  }
  for (const Field& text : texts) {
    QUIRE_TRY(std::string value, as_string(text, kMaxStopBytes));
    if (value.empty()) return bad_field(text.path, "invalid_value", "an empty text would end every reply; leave it out");
    stop.push_back(std::move(value));
  }
  return {};
}

ApiStatus read_logprobs(const ObjectReader& body, CompletionBody& out) {
  int64_t top = 0;
  if (out.endpoint == Endpoint::kCompletions) {
    if (!body.find("logprobs")) return {};
    QUIRE_TRY_STATUS(body.read_integer("logprobs", top, 0, kMaxTopLogprobs));
    out.reply.logprobs = static_cast<size_t>(top);
    return {};
  }
  bool wanted = false;
  QUIRE_TRY_STATUS(body.read("logprobs", wanted));
  QUIRE_TRY_STATUS(body.read_integer("top_logprobs", top, 0, kMaxTopLogprobs));
  if (wanted) out.reply.logprobs = static_cast<size_t>(top);
  if (!wanted && top > 0) return bad_field("top_logprobs", "invalid_value", "it needs logprobs: true");
  return {};
}

ApiStatus read_limits(const ObjectReader& body, CompletionBody& out) {
  out.reply.max_tokens = TokenCount(out.endpoint == Endpoint::kCompletions ? kCompletionTokens : 0);
  QUIRE_TRY_STATUS(body.read_integer("max_tokens", out.reply.max_tokens.value, 1, kMaxTokensLimit));
  QUIRE_TRY_STATUS(body.read_integer("max_completion_tokens", out.reply.max_tokens.value, 1, kMaxTokensLimit));
  out.has_max_tokens = body.find("max_tokens") || body.find("max_completion_tokens");
  QUIRE_TRY_STATUS(body.read_integer("n", out.choices, 1, kMaxChoices));
  QUIRE_TRY_STATUS(body.read("ignore_eos", out.reply.ignore_end));
  return read_stop(body, out.reply.stop);
}

ApiStatus read_stream(const ObjectReader& body, CompletionBody& out) {
  QUIRE_TRY_STATUS(body.read("stream", out.stream));
  const std::optional<Field> field = body.find("stream_options");
  if (!field) return {};
  QUIRE_TRY(const ObjectReader options, ObjectReader::of(*field));
  return options.read("include_usage", out.include_usage);
}

ApiStatus read_who(const ObjectReader& body, CompletionBody& out) {
  QUIRE_TRY_STATUS(body.read("model", out.model, kMaxNameBytes));
  std::string user;  // who asks in the client's words: checked, and of no effect
  QUIRE_TRY_STATUS(body.read("user", user, kMaxNameBytes));
  QUIRE_TRY_STATUS(body.read("cache_salt", out.cache_salt, kMaxNameBytes));
  return body.read_integer("priority", out.priority, -kMaxPriority, kMaxPriority);
}

// What would change the answer and cannot be done is refused, never passed over.
ApiStatus refuse_unsupported(const ObjectReader& body, const CompletionBody& out) {
  const auto refuse = [](const std::string& path, const std::string& message) {
    return bad_field(path, "unsupported_value", message);
  };
  if (const std::optional<Field> format = body.find("response_format")) {
    QUIRE_TRY(const ObjectReader fields, ObjectReader::of(*format));
    std::string type = "text";
    QUIRE_TRY_STATUS(fields.read("type", type, kMaxNameBytes));
    if (type != "text") return refuse(fields.path_of("type"), "replies are free text; only \"text\" is supported");
  }
  if (out.endpoint != Endpoint::kCompletions) return {};
  if (const std::optional<Field> suffix = body.find("suffix")) {
    QUIRE_TRY(const std::string text, as_string(*suffix, kMaxBodyBytes));
    if (!text.empty()) return refuse(suffix->path, "text cannot be inserted before a suffix");
  }
  int64_t best_of = out.choices;
  QUIRE_TRY_STATUS(body.read_integer("best_of", best_of, 1, kMaxChoices));
  if (best_of != out.choices) return refuse("best_of", "choices are not ranked; leave it out or give it the value of n");
  return {};
}

// --- Prompts of a completion

ApiResult<std::vector<TokenId>> read_tokens(const Field& field) {
  std::vector<TokenId> tokens;
  for (const simdjson::dom::element& value : simdjson::dom::array(field.element)) {
    int64_t token = 0;
    if (!value.is_int64() || value.get(token) != simdjson::SUCCESS || token < 0 || token > std::numeric_limits<TokenId>::max()) {
      return bad_field(fmt::format("{}[{}]", field.path, tokens.size()), "invalid_value", "it is no token id");
    }
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

bool begins_with_number(const Field& field) {
  const simdjson::dom::array array(field.element);
  return array.begin() != array.end() && (*array.begin()).is_number();
}

// A text, an array of tokens, or an array of either.
ApiStatus read_prompts(const ObjectReader& body, CompletionBody& out) {
  QUIRE_TRY(const Field field, body.require("prompt"));
  std::vector<Field> prompts = {field};
  if (!field.element.is_string()) {
    if (!field.element.is_array()) return wrong_type(field, "a string, an array of token ids, or an array of prompts");
    if (!begins_with_number(field)) {
      QUIRE_TRY(prompts, as_array(field, 1, kMaxPrompts));
    }
  }
  for (const Field& prompt : prompts) {
    if (prompt.element.is_array()) {
      QUIRE_TRY(std::vector<TokenId> tokens, read_tokens(prompt));
      if (tokens.empty()) return bad_field(prompt.path, "empty_array", "a prompt must have at least one token");
      out.prompts.emplace_back(std::move(tokens));
    } else {
      if (!prompt.element.is_string()) return wrong_type(prompt, "a string or an array of token ids");
      QUIRE_TRY(std::string text, as_string(prompt, kMaxBodyBytes));
      out.prompts.emplace_back(std::move(text));
    }
  }
  return {};
}

}  // namespace

std::string_view path_of(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions ? "/v1/chat/completions" : "/v1/completions";
}

std::optional<Endpoint> endpoint_of(std::string_view path) {
  for (const Endpoint endpoint : {Endpoint::kChatCompletions, Endpoint::kCompletions}) {
    if (path == path_of(endpoint)) return endpoint;
  }
  return std::nullopt;
}

ApiResult<CompletionBody> parse_completion(Endpoint endpoint, std::string_view body) {
  QUIRE_TRY(const JsonDocument document, JsonDocument::parse_object(body, kMaxBodyBytes));
  return parse_completion(endpoint, document.root());
}

ApiResult<CompletionBody> parse_completion(Endpoint endpoint, const simdjson::dom::element& body) {
  QUIRE_TRY(const ObjectReader reader, ObjectReader::of({body, ""}));
  CompletionBody out;
  out.endpoint = endpoint;
  if (endpoint == Endpoint::kChatCompletions) {
    QUIRE_TRY(out.conversation, read_conversation(reader));
  } else {
    QUIRE_TRY_STATUS(read_prompts(reader, out));
    QUIRE_TRY_STATUS(reader.read("echo", out.echo));
    QUIRE_TRY_STATUS(reader.read("parse_special", out.parse_special));
  }
  QUIRE_TRY_STATUS(read_who(reader, out));
  QUIRE_TRY_STATUS(read_limits(reader, out));
  if (out.prompts.size() * static_cast<size_t>(out.choices) > kMaxPrompts) {
    return bad_field("n", "too_many_replies",
                     fmt::format("{} prompts with {} replies each are more than {} replies to one request", out.prompts.size(),
                                 out.choices, kMaxPrompts));
  }
  QUIRE_TRY_STATUS(read_sampling(reader, out));
  QUIRE_TRY_STATUS(read_logprobs(reader, out));
  QUIRE_TRY_STATUS(read_stream(reader, out));
  QUIRE_TRY_STATUS(refuse_unsupported(reader, out));
  return out;
}

}  // namespace quire::server
