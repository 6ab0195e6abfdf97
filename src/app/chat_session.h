// A conversation with a model: messages through the chat template, or texts completed as they are.
//
// A turn renders the whole conversation anew and asks for a reply to all of it; what was computed for earlier turns is found in the
// cache. A step loop on a thread of its own answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "engine/loop_thread.h"
#include "engine/request.h"

namespace quire::app {

struct SessionOptions {
  bool raw = false;       // complete texts, also where the model has a template
  std::string system;     // the system message; empty: what the template does without one
  TokenCount context{0};  // 0: the model's
  engine::ReplyOptions reply;
};

// Hears each piece of text as it is certain, and nothing a few times a second while there is none; returns whether to go on.
using ReplyListener = std::function<bool(std::string_view piece)>;

struct Answer {
  engine::ReplyEnd end;
  bool out_of_memory = false;  // kContextFull, but not because of the context
  TokenCount prompt_tokens;
  TokenCount reused_tokens;  // of the prompt, held already
  TokenCount reply_tokens;
  double prompt_seconds = 0;
  double reply_seconds = 0;
  Bytes kv_used;    // by this conversation's tokens
  Bytes kv_backed;  // physical memory of the cache
  Bytes kv_per_token;
};

// One line for people: tokens a second, and what the KV cache took.
[[nodiscard]] std::string summary(const Answer& answer);

class ChatSession {
 public:
  // The engine must outlive the session, and computes for nobody else meanwhile. kInvalidArgument: a context larger than the
  // model's, a system message without a template.
  [[nodiscard]] static Result<ChatSession> create(engine::Engine& engine, SessionOptions options);

  [[nodiscard]] bool uses_template() const;

  // Answers `text`. When that fails, or is interrupted before the first word, the conversation is as it was before.
  [[nodiscard]] Result<Answer> ask(const std::string& text, const ReplyListener& listener);

  // Forgets the conversation, but for the system message, and gives its memory back.
  void clear();

 private:
  ChatSession(engine::Engine& engine, SessionOptions options, std::unique_ptr<engine::LoopThread> loop);

  [[nodiscard]] Result<std::vector<TokenId>> prompt_tokens(const std::string& text) const;
  [[nodiscard]] Error too_long(size_t tokens) const;
  [[nodiscard]] Result<Answer> answer(std::vector<TokenId> prompt, const ReplyListener& listener, std::string& reply);
  [[nodiscard]] Bytes used_by(TokenCount tokens) const;
  void forget();

  engine::Engine* engine_;
  SessionOptions options_;
  std::vector<chat::Message> messages_;
  std::unique_ptr<engine::LoopThread> loop_;
};

}  // namespace quire::app
