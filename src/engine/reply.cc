#include "engine/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/stop_texts.h"
#include "tokenizer/detokenizer.h"

namespace quire::engine {
namespace {

// Turns sampled tokens into the text that the listener hears.
class ReplyText {
 public:
  ReplyText(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stop, const ReplyListener& listener)
      : detokenizer_(tokenizer, {.continues_text = true}), stop_(stop), listener_(listener) {}

  Status add(TokenId token) {
    QUIRE_TRY(const std::string piece, detokenizer_.push(token));
    say(stop_.append(piece));
    return {};
  }

  void finish() {
    say(stop_.append(detokenizer_.finish()));
    say(stop_.finish());
  }

  [[nodiscard]] bool stopped() const { return stop_.stopped(); }
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void say(const std::string& certain) {
    text_ += certain;
    if (!listener_(certain)) interrupted_ = true;
  }

  tokenizer::Detokenizer detokenizer_;
  StopTexts stop_;
  const ReplyListener& listener_;
  std::string text_;
  bool interrupted_ = false;
};

}  // namespace

Error no_numbers(int64_t position) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("the model computes no numbers for the token at position {}; its file is damaged, or "
                                "its metadata wrong: get it again",
                                position));
}

std::string_view to_string(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kEndOfText: return "end of text";
    case ReplyEnd::kStop: return "stop text";
    case ReplyEnd::kMaxTokens: return "token limit";
    case ReplyEnd::kContextFull: return "context full";
    case ReplyEnd::kOutOfMemory: return "out of memory";
    case ReplyEnd::kInterrupted: return "interrupted";
  }
  QUIRE_CHECK(false, "known ReplyEnd");
  return {};
}

Result<Reply> generate(Engine& engine, Sequence& sequence, const ReplyOptions& options, const ReplyListener& listener) {
  sampling::Sampler sampler(options.sampling);
  ReplyText text(engine.tokenizer(), options.stop, listener);
  Reply reply;
  std::optional<TokenId> pending;  // sampled, and not computed yet
  for (;;) {
    if (pending) {
      if (sequence.length() >= sequence.max_tokens()) {
        reply.end = ReplyEnd::kContextFull;
        break;
      }
      const Status extended = sequence.extend(std::array{*pending});
      if (!extended.ok() && extended.error().code != ErrorCode::kOutOfMemory) return extended.error();
      if (!extended.ok()) {
        reply.end = ReplyEnd::kOutOfMemory;
        break;
      }
    }
    // Some models have more output rows than tokens.
    const std::span<const float> logits = sequence.logits().first(engine.tokenizer().vocab_size());
    const TokenId token = sampler.sample(logits, TokenPos(sequence.length().value), sequence.tokens());
    if (!std::isfinite(logits[static_cast<size_t>(token)])) return no_numbers(sequence.length().value);
    if (engine.tokenizer().is_end_of_generation(token) && !options.ignore_end) {
      reply.end = ReplyEnd::kEndOfText;
      break;
    }
    reply.tokens += TokenCount(1);
    QUIRE_TRY_STATUS(text.add(token));
    if (text.stopped() || text.interrupted()) {
      reply.end = text.stopped() ? ReplyEnd::kStop : ReplyEnd::kInterrupted;
      break;
    }
    if (reply.tokens == options.max_tokens) {
      reply.end = ReplyEnd::kMaxTokens;
      break;
    }
    pending = token;
  }
  if (reply.end != ReplyEnd::kStop) text.finish();
  reply.text = text.take();
  return reply;
}

}  // namespace quire::engine
