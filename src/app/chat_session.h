// A conversation with a model: messages through the chat template, or texts completed as they are.
//
// The sequence keeps the keys and values of everything said. A turn renders the whole conversation anew and computes only what the
// sequence does not hold yet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "engine/reply.h"
#include "engine/sequence.h"

namespace quire::app {

struct SessionOptions {
  bool raw = false;       // complete texts, also where the model has a template
  std::string system;     // the system message; empty: what the template does without one
  TokenCount context{0};  // 0: the model's
  engine::ReplyOptions reply;
};

struct Answer {
  engine::ReplyEnd end;
  TokenCount prompt_tokens;
  TokenCount reused_tokens;  // of the prompt, held already
  TokenCount reply_tokens;
  double prompt_seconds = 0;
  double reply_seconds = 0;
  Bytes kv_used;    // by tokens
  Bytes kv_backed;  // physical memory
  Bytes kv_per_token;
};

// One line for people: tokens a second, and what the KV cache took.
[[nodiscard]] std::string summary(const Answer& answer);

class ChatSession {
 public:
  // The engine must outlive the session. kInvalidArgument: a context larger than the model's, a system message
  // without a template.
  [[nodiscard]] static Result<ChatSession> create(engine::Engine& engine, SessionOptions options);

  [[nodiscard]] bool uses_template() const;

  // Answers `text`. When that fails, or is interrupted before the first word, the conversation is as it was before.
  [[nodiscard]] Result<Answer> ask(const std::string& text, const engine::ReplyListener& listener);

  // Forgets the conversation, but for the system message, and gives its memory back.
  void clear();

 private:
  ChatSession(engine::Engine& engine, SessionOptions options);

  [[nodiscard]] Result<std::vector<TokenId>> prompt_tokens(const std::string& text) const;
  [[nodiscard]] Error too_long(size_t tokens) const;
  [[nodiscard]] Result<Answer> answer(std::span<const TokenId> prompt, const engine::ReplyListener& listener, std::string& reply);
  [[nodiscard]] Status hold_prefix(std::span<const TokenId> prompt);
  [[nodiscard]] Result<bool> compute_prompt(std::span<const TokenId> rest, const engine::ReplyListener& listener);

  engine::Engine* engine_;
  SessionOptions options_;
  std::vector<chat::Message> messages_;
  std::optional<engine::Sequence> sequence_;
};

}  // namespace quire::app
