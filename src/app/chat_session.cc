#include "app/chat_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/civil_time.h"
#include "app/input.h"
#include "app/progress.h"

namespace quire::app {
namespace {

double rate(TokenCount tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens.value) / seconds : 0; }

std::string text_of(const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.piece(*token)) : "";
}

Error empty_prompt() { return make_error(ErrorCode::kInvalidArgument, "the prompt is empty; write something"); }

chat::PromptOptions prompt_options(const tokenizer::Tokenizer& tokenizer) {
  return {.add_generation_prompt = true,
          .bos_token = text_of(tokenizer, tokenizer.bos()),
          .eos_token = text_of(tokenizer, tokenizer.eos()),
          .render = {.now = civil_time(), .limits = {}}};
}

constexpr std::chrono::milliseconds kLookEvery(50);  // for Ctrl-C
constexpr int64_t kStallNs = 1'000'000'000;  // without memory a reply ends soon: there is nobody here whose end could make room

std::string_view end_name(const Answer& answer) {
  if (answer.end == engine::ReplyEnd::kCancelled) return "interrupted";
  return answer.out_of_memory ? "out of memory" : engine::to_string(answer.end);
}

double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

// Hands the pieces of a stream to the listener until it ends or he has heard enough; returns what he heard.
std::string listen(engine::ReplyStream& stream, const ReplyListener& listener, const std::function<void()>& while_waiting) {
  std::string heard;
  bool going_on = true;
  while (!stream.ended()) {
    if (!stream.wait(kLookEvery)) while_waiting();
    const std::optional<engine::ReplyPiece> piece = stream.try_next();
    if (!going_on) continue;
    if (piece) heard += piece->text;
    going_on = listener(piece ? piece->text : "");
    if (!going_on) stream.cancel();
  }
  return heard;
}

}  // namespace

std::string summary(const Answer& a) {
  const TokenCount computed = a.prompt_tokens - a.reused_tokens;
  const std::string reused = a.reused_tokens.value > 0 ? fmt::format(" ({} reused)", a.reused_tokens.value) : "";
  return fmt::format(
      "[prompt {} tokens{}, {:.0f} tokens/s; reply {} tokens, {:.0f} tokens/s, {}; KV {} used, {} backed, {} a token]",
      a.prompt_tokens.value, reused, rate(computed, a.prompt_seconds), a.reply_tokens.value, rate(a.reply_tokens, a.reply_seconds),
      end_name(a), format_bytes(a.kv_used), format_bytes(a.kv_backed), format_bytes(a.kv_per_token));
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
  engine::StepLoopOptions loop_options = engine.loop_options();
  loop_options.context = options.context;
  loop_options.scheduler.stall_limit_ns = kStallNs;
  QUIRE_TRY(auto loop, engine::LoopThread::start(engine.runner(), engine.tokenizer(), engine.cache(), loop_options));
  return ChatSession(engine, std::move(options), std::move(loop));
}

ChatSession::ChatSession(engine::Engine& engine, SessionOptions options, std::unique_ptr<engine::LoopThread> loop)
    : engine_(&engine), options_(std::move(options)), loop_(std::move(loop)) {
  forget();
}

bool ChatSession::uses_template() const { return !options_.raw && engine_->chat_template() != nullptr; }

void ChatSession::clear() {
  forget();
  loop_->loop().clear_cache();
}

void ChatSession::forget() {
  messages_.clear();
  if (!options_.system.empty()) messages_.push_back({.role = "system", .content = options_.system});
}

Result<Answer> ChatSession::ask(const std::string& text, const ReplyListener& listener) {
  if (uses_template() && text.empty()) return empty_prompt();
  if (uses_template()) messages_.push_back({.role = "user", .content = text});
  std::string reply;
  const auto attempt = [&]() -> Result<Answer> {
    QUIRE_TRY(std::vector<TokenId> prompt, prompt_tokens(text));
    return answer(std::move(prompt), listener, reply);
  };
  Result<Answer> answered = attempt();
  if (!uses_template()) return answered;
  const bool unanswered = !answered.ok() || (answered->end == engine::ReplyEnd::kCancelled && reply.empty());
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
    const Result<chat::MarkedText> prompt = chat::render_chat(*engine_->chat_template(), messages_, prompt_options(tokenizer));
    if (!prompt.ok()) return at("the chat template", not_usage(prompt.error()));
    QUIRE_TRY(tokens, tokenizer.encode(prompt->text(), {.parse_special = true, .plain = prompt->input()}));
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

Bytes ChatSession::used_by(TokenCount tokens) const {
  Bytes used;
  for (const kv::LayerGroupSpec& group : engine_->layer_groups()) {
    used += kv::bytes_per_token(group) * std::min(tokens.value, group.window.value_or(tokens.value));
  }
  return used;
}

Result<Answer> ChatSession::answer(std::vector<TokenId> prompt, const ReplyListener& listener, std::string& reply) {
  engine::StepLoop& loop = loop_->loop();
  const engine::LoopStatistics before = loop.statistics();
  const auto prompt_length = static_cast<int64_t>(prompt.size());
  ProgressLine progress("reading the prompt");
  const auto show_progress = [&] {
    const engine::LoopStatistics now = loop.statistics();
    if (now.generated_tokens > before.generated_tokens) return;
    progress.update(now.computed_tokens + now.reused_tokens - before.computed_tokens - before.reused_tokens, prompt_length);
  };
  QUIRE_TRY(const std::shared_ptr<engine::ReplyStream> stream, loop.submit({.prompt = std::move(prompt), .reply = options_.reply}));
  reply = listen(*stream, listener, show_progress);
  const engine::ReplyResult& result = stream->result();
  if (result.error) return *result.error;
  const TokenCount whole = result.prompt_tokens + result.reply_tokens;
  Answer a{.end = result.end,
           .out_of_memory = result.end == engine::ReplyEnd::kContextFull && whole <= options_.context,
           .prompt_tokens = result.prompt_tokens,
           .reused_tokens = result.reused_tokens,
           .reply_tokens = result.reply_tokens,
           .kv_used = used_by(whole.value > prompt_length ? whole - TokenCount(1) : whole),
           .kv_backed = loop.statistics().memory.backed,
           .kv_per_token = {}};
  const int64_t prompt_end = result.first_token_ns != 0 ? result.first_token_ns : result.ended_ns;
  if (result.started_ns != 0) a.prompt_seconds = seconds_between(result.started_ns, prompt_end);
  a.reply_seconds = seconds_between(prompt_end, result.ended_ns);
  for (const kv::LayerGroupSpec& group : engine_->layer_groups()) a.kv_per_token += kv::bytes_per_token(group);
  return a;
}

}  // namespace quire::app
