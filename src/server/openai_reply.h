// Replies of the OpenAI API: from what the engine streams to the body of a response.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/openai_request.h"
#include "tokenizer/detokenizer.h"

namespace quire::server {

// "stop" or "length".
[[nodiscard]] std::string_view finish_reason(engine::ReplyEnd end);

// The code where a request needs more bytes for its keys and values than there can ever be; the message has both numbers.
inline constexpr const char* kKvMemoryExceeded = "kv_memory_exceeded";

// What a client is told of a reply that is none; nothing for one that ended in order.
[[nodiscard]] std::optional<ApiError> failure_of(const engine::ReplyResult& result);
// The same of a request that the step loop did not take.
[[nodiscard]] ApiError refused_request(const Error& error);

struct ReplyIdentity {
  std::string id;       // what follows "chatcmpl-" or "cmpl-"
  std::string model;    // the name that the response bears
  int64_t created = 0;  // seconds since 1970
};

// Collects the replies of all choices of a request.
class CompletionReply {
 public:
  // Both must outlive it.
  CompletionReply(const PreparedCompletion& request, const tokenizer::Tokenizer& tokenizer);

  void add(size_t choice, const engine::ReplyPiece& piece);
  void finish(size_t choice, const engine::ReplyResult& result);
  // Whether every choice has ended.
  [[nodiscard]] bool finished() const { return unfinished_ == 0; }

  // The response's body, of type chat.completion or text_completion, or the failure of a choice. Only when finished.
  [[nodiscard]] ApiResult<nlohmann::ordered_json> body(const ReplyIdentity& identity) const;

 private:
  struct Choice {
    std::string text;
    std::vector<engine::ReplyToken> tokens;  // only where logprobs are asked for
    engine::ReplyResult result = {};
    bool finished = false;
  };

  void drop_stop_text(Choice& choice) const;
  [[nodiscard]] nlohmann::ordered_json chat_choice(size_t index) const;
  [[nodiscard]] nlohmann::ordered_json text_choice(size_t index) const;
  [[nodiscard]] nlohmann::ordered_json chat_logprobs(const Choice& choice) const;
  [[nodiscard]] nlohmann::ordered_json text_logprobs(size_t index) const;
  [[nodiscard]] nlohmann::ordered_json usage() const;

  const PreparedCompletion& request_;
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
  size_t unfinished_;
};

}  // namespace quire::server
