// Requests of the OpenAI API, from the body's JSON to what the engine runs.
//
//   parse_completion()    the body, checked: types, ranges, sizes. Knows nothing of a model.
//   PreparedCompletion    the body for one model: chat template, tokens, context
//
// The body is untrusted. Unknown fields are ignored, null is the same as missing; a wrong type or a value out of its range is an
// error with the field's path, and every number is checked before anything is allocated for it.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "chat/chat.h"
#include "engine/request.h"
#include "server/api_error.h"
#include "tokenizer/tokenizer.h"

namespace quire::server {

enum class Endpoint { kChatCompletions, kCompletions };
// "/v1/chat/completions", "/v1/completions".
[[nodiscard]] std::string_view path_of(Endpoint endpoint);
[[nodiscard]] std::optional<Endpoint> endpoint_of(std::string_view path);

// Bounds of what one body may ask for.
inline constexpr size_t kMaxBodyBytes = size_t{16} << 20;
inline constexpr int64_t kMaxChoices = 128;          // `n`
inline constexpr size_t kMaxPrompts = 2048;          // of a completion; prompts times `n`, too
inline constexpr size_t kMaxMessages = 16384;        // of a chat
inline constexpr int64_t kMaxTokensLimit = 1 << 24;  // max_tokens
inline constexpr int64_t kMaxTopLogprobs = 20;
inline constexpr size_t kMaxStopTexts = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr size_t kMaxLogitBiases = 1024;
inline constexpr size_t kMaxNameBytes = 1024;  // model, user, cache_salt, a message's role and name

struct CompletionBody {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string model = {};  // empty: not given

  // A chat. Contents are texts (or null where an assistant only calls tools); what else a message has is passed to the template.
  chat::Conversation conversation = {};
  // A completion: at least one.
  std::vector<std::variant<std::string, std::vector<TokenId>>> prompts = {};
  bool echo = false;
  bool parse_special = false;  // control tokens written in a prompt's text become tokens

  int choices = 1;  // of each prompt
  engine::ReplyOptions reply = {};
  bool has_max_tokens = false;  // reply.max_tokens was given
  bool has_seed = false;        // reply.sampling.seed was given
  std::string cache_salt = {};
  int priority = 0;
  bool stream = false;
  bool include_usage = false;  // stream_options
};

[[nodiscard]] ApiResult<CompletionBody> parse_completion(Endpoint endpoint, std::string_view body);
// The same of a body that is a part of another document, of an object.
[[nodiscard]] ApiResult<CompletionBody> parse_completion(Endpoint endpoint, const simdjson::dom::element& body);

// The model that answers. What it refers to outlives every use.
struct ServedModel {
  std::string name;
  const tokenizer::Tokenizer* tokenizer = nullptr;
  const chat::Template* chat_template = nullptr;  // null: it has none
  TokenCount context{0};                          // tokens of prompt and reply at most
};

// A body made ready: its prompts as tokens. Choice i answers prompt i / body().choices.
class PreparedCompletion {
 public:
  struct Prompt {
    std::vector<TokenId> tokens;
    std::string echo = {};  // what `echo` puts before the reply
  };

  // `seed` is taken where the body names none; `now` is what a template may tell. Errors: context_length_exceeded with the numbers,
  // model_has_no_chat_template, invalid_prompt, what the template refused, ids that are no tokens.
  [[nodiscard]] static ApiResult<PreparedCompletion> create(CompletionBody body, const ServedModel& model, uint64_t seed,
                                                            const chat::CivilTime& now);

  [[nodiscard]] const CompletionBody& body() const { return body_; }
  [[nodiscard]] size_t choices() const { return prompts_.size() * static_cast<size_t>(body_.choices); }
  [[nodiscard]] const Prompt& prompt_of(size_t choice) const { return prompts_[choice / static_cast<size_t>(body_.choices)]; }
  [[nodiscard]] const std::vector<Prompt>& prompts() const { return prompts_; }

  // Choice i as the step loop takes it.
  [[nodiscard]] engine::Request request(size_t choice) const;

 private:
  explicit PreparedCompletion(CompletionBody body) : body_(std::move(body)) {}
  [[nodiscard]] ApiStatus render_chat(const ServedModel& model, const chat::CivilTime& now);
  [[nodiscard]] ApiStatus encode_prompts(const ServedModel& model);
  [[nodiscard]] ApiStatus check_room(const ServedModel& model) const;

  CompletionBody body_;
  std::vector<Prompt> prompts_;
};

}  // namespace quire::server
