#include "app/chat_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/input.h"
#include "app/progress.h"
#include "port/clock.h"

namespace quire::app {
namespace {

double rate(TokenCount tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens.value) / seconds : 0; }

size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::string text_of(const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.piece(*token)) : "";
}

Error empty_prompt() { return make_error(ErrorCode::kInvalidArgument, "the prompt is empty; write something"); }

chat::PromptOptions prompt_options(const tokenizer::Tokenizer& tokenizer) {
  const std::tm now = port::local_time();
  return {.add_generation_prompt = true,
          .bos_token = text_of(tokenizer, tokenizer.bos()),
          .eos_token = text_of(tokenizer, tokenizer.eos()),
          .render = {.now = {.year = now.tm_year + 1900,
                             .month = now.tm_mon + 1,
                             .day = now.tm_mday,
                             .hour = now.tm_hour,
                             .minute = now.tm_min,
                             .second = now.tm_sec},
                     .limits = {}}};
}

}  // namespace

std::string summary(const Answer& a) {
  const TokenCount computed = a.prompt_tokens - a.reused_tokens;
  const std::string reused = a.reused_tokens.value > 0 ? fmt::format(" ({} reused)", a.reused_tokens.value) : "";
  return fmt::format(
      "[prompt {} tokens{}, {:.0f} tokens/s; reply {} tokens, {:.0f} tokens/s, {}; KV {} used, {} backed, {} a token]",
      a.prompt_tokens.value, reused, rate(computed, a.prompt_seconds), a.reply_tokens.value, rate(a.reply_tokens, a.reply_seconds),
      engine::to_string(a.end), format_bytes(a.kv_used), format_bytes(a.kv_backed), format_bytes(a.kv_per_token));
}

Result<ChatSession> ChatSession::create(engine::Engine& engine, SessionOptions options) {
  const TokenCount longest(engine.config().context_length);
  if (options.context > longest) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("--context {} is more than the {} tokens that the model was made for", options.context.value, longest.value));
  }
  if (options.context.value == 0) options.context = longest;
  if (!options.system.empty() && (options.raw || engine.chat_template() == nullptr)) {
    return make_error(ErrorCode::kInvalidArgument, "--system needs a chat template to put it into; leave it out" +
                                                       std::string(options.raw ? ", or --raw" : ", or give --chat-template FILE"));
  }
  return ChatSession(engine, std::move(options));
}

ChatSession::ChatSession(engine::Engine& engine, SessionOptions options) : engine_(&engine), options_(std::move(options)) {
  clear();
}

bool ChatSession::uses_template() const { return !options_.raw && engine_->chat_template() != nullptr; }

void ChatSession::clear() {
  sequence_.reset();
  messages_.clear();
  if (!options_.system.empty()) messages_.push_back({.role = "system", .content = options_.system});
}

Result<Answer> ChatSession::ask(const std::string& text, const engine::ReplyListener& listener) {
  if (uses_template() && text.empty()) return empty_prompt();
  if (uses_template()) messages_.push_back({.role = "user", .content = text});
  std::string reply;
  const auto attempt = [&]() -> Result<Answer> {
    QUIRE_TRY(const std::vector<TokenId> prompt, prompt_tokens(text));
    return answer(prompt, listener, reply);
  };
  Result<Answer> answered = attempt();
  if (!uses_template()) return answered;
  const bool unanswered = !answered.ok() || (answered->end == engine::ReplyEnd::kInterrupted && reply.empty());
  if (unanswered) {
    messages_.pop_back();
  } else {
    messages_.push_back({.role = "assistant", .content = std::move(reply)});
  }
  return answered;
}

Result<std::vector<TokenId>> ChatSession::prompt_tokens(const std::string& text) const {
  const tokenizer::Tokenizer& tokenizer = engine_->tokenizer();
  std::vector<TokenId> tokens;
  if (uses_template()) {
    const Result<std::string> prompt = chat::render_chat(*engine_->chat_template(), messages_, prompt_options(tokenizer));
    if (!prompt.ok()) return at("the chat template", not_usage(prompt.error()));
    QUIRE_TRY(tokens, tokenizer.encode(*prompt, {.parse_special = true}));
  } else {
    QUIRE_TRY(tokens, tokenizer.encode(text, {.add_special = true}));
  }
  if (tokens.empty()) return empty_prompt();
  if (TokenCount(static_cast<int64_t>(tokens.size())) >= options_.context) return too_long(tokens.size());
  return tokens;
}

Error ChatSession::too_long(size_t tokens) const {
  std::string advice = messages_.size() > 2 ? "begin anew with /clear" : "shorten it";
  if (options_.context.value < engine_->config().context_length) advice += " or raise --context";
  return make_error(ErrorCode::kLimit, fmt::format("the prompt has {} tokens, the context has room for {} and a reply; {}", tokens,
                                                   options_.context.value - 1, advice));
}

// Keeps what the sequence and the prompt have in common; the last token is always computed, for its logits.
Status ChatSession::hold_prefix(std::span<const TokenId> prompt) {
  if (!sequence_) {
    QUIRE_TRY(sequence_, engine::Sequence::create(*engine_, options_.context));
  }
  const size_t held = std::min(common_length(sequence_->tokens(), prompt), prompt.size() - 1);
  QUIRE_TRY_STATUS(sequence_->truncate(TokenCount(static_cast<int64_t>(held))));
  return {};
}

// Computes the prompt pass by pass; returns whether to go on.
Result<bool> ChatSession::compute_prompt(std::span<const TokenId> rest, const engine::ReplyListener& listener) {
  QUIRE_TRY_STATUS(sequence_->check_room(sequence_->length() + TokenCount(static_cast<int64_t>(rest.size()))));
  ProgressLine progress("reading the prompt");
  const auto chunk = static_cast<size_t>(engine_->forward().max_rows());
  for (size_t done = 0; done < rest.size();) {
    const auto part = rest.subspan(done, std::min(chunk, rest.size() - done));
    QUIRE_TRY_STATUS(sequence_->extend_one_pass(part));
    done += part.size();
    progress.update(static_cast<int64_t>(done), static_cast<int64_t>(rest.size()));
    if (!listener("")) return false;
  }
  return true;
}

Result<Answer> ChatSession::answer(std::span<const TokenId> prompt, const engine::ReplyListener& listener, std::string& reply) {
  QUIRE_TRY_STATUS(hold_prefix(prompt));
  Answer a{.end = engine::ReplyEnd::kInterrupted,
           .prompt_tokens = TokenCount(static_cast<int64_t>(prompt.size())),
           .reused_tokens = sequence_->length(),
           .reply_tokens = {},
           .kv_used = {},
           .kv_backed = {},
           .kv_per_token = {}};
  const double start = port::monotonic_seconds();
  QUIRE_TRY(const bool go_on, compute_prompt(prompt.subspan(static_cast<size_t>(a.reused_tokens.value)), listener));
  const double computed = port::monotonic_seconds();
  a.prompt_seconds = computed - start;
  if (go_on) {
    QUIRE_TRY(engine::Reply made, engine::generate(*engine_, *sequence_, options_.reply, listener));
    a.end = made.end;
    a.reply_tokens = made.tokens;
    reply = std::move(made.text);
  }
  a.reply_seconds = port::monotonic_seconds() - computed;
  a.kv_used = sequence_->memory().used_bytes(sequence_->length());
  a.kv_backed = sequence_->memory().backed_bytes();
  for (const kv::LayerGroupSpec& group : engine_->layer_groups()) a.kv_per_token += kv::bytes_per_token(group);
  return a;
}

}  // namespace quire::app
