// What goes into the step loop and what comes out: requests, and the streams of their replies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "sampling/logprobs.h"
#include "sampling/sampler.h"

namespace quire::engine {

struct ReplyOptions {
  sampling::SamplingParameters sampling = {};
  TokenCount max_tokens{0};             // 0: until the reply ends or the context is full
  std::vector<std::string> stop = {};   // texts that end the reply; they are not part of it
  bool ignore_end = false;              // go on after the model's end of text (for measuring)
  std::optional<size_t> logprobs = {};  // of each token, with so many of the most probable ones beside it
};

struct Request {
  std::vector<TokenId> prompt;  // at least one, ids of the vocabulary
  ReplyOptions reply = {};
  uint32_t choice = 0;  // tells several replies to one prompt apart; each is a request of its own
  std::string tenant = {};
  double tenant_weight = 1;
  int priority = 0;                         // smaller goes first
  std::string cache_salt = {};              // prompts share keys and values only under the same salt
  std::optional<int64_t> deadline_ns = {};  // of port::monotonic_ns()
};

enum class ReplyEnd {
  kEndOfText,    // the model ended it
  kStop,         // a stop text came
  kMaxTokens,    // max_tokens
  kContextFull,  // the context, or all memory that there is, has no room for another token
  kDeadline,
  kCancelled,  // its reader went away, or cancel()
  kRefused,    // can never fit: ReplyResult::error has the numbers
  kFailed,     // ReplyResult::error says why
};
// "end of text", "stop text", ...
[[nodiscard]] std::string_view to_string(ReplyEnd end);

struct ReplyToken {
  TokenId token = 0;
  double logprob = 0;                            // only with ReplyOptions::logprobs
  std::vector<sampling::TokenLogprob> top = {};  // the same
};

// Part of a reply: text that is certain (never half a character, never a part of a stop text), and the tokens sampled meanwhile.
struct ReplyPiece {
  std::string text;
  std::vector<ReplyToken> tokens;
};

struct ReplyResult {
  ReplyEnd end = ReplyEnd::kEndOfText;
  std::optional<Error> error = {};
  TokenCount prompt_tokens;
  TokenCount reused_tokens;    // of the prompt, found in the cache
  TokenCount reply_tokens;     // sampled ones, the end of text not counted
  int64_t submitted_ns = 0;    // of port::monotonic_ns() or the clock that the loop was given
  int64_t started_ns = 0;      // first admitted; 0: never
  int64_t first_token_ns = 0;  // 0: none
  int64_t ended_ns = 0;
  int64_t suspensions = 0;
};

// What generation and scoring answer when logits are not finite (kCorrupt).
[[nodiscard]] Error no_numbers(TokenPos position);

// The stream of one reply: the step loop writes, one reader reads, on any threads. Bounded: when the reader is `capacity` pieces
// behind, his job rests until he has read; nobody else notices.
class ReplyStream {
 public:
  // `capacity` >= 1 pieces. `readable` (may be empty) is called from the loop's thread when there is something to read, or the end.
  explicit ReplyStream(size_t capacity, std::function<void()> readable = {});
  ReplyStream(const ReplyStream&) = delete;
  ReplyStream& operator=(const ReplyStream&) = delete;

  // --- The reader

  // The next piece; waits for it. Nothing: the reply has ended, result() is there.
  [[nodiscard]] std::optional<ReplyPiece> next();
  // The same without waiting: nothing when none is there yet (ended() tells which).
  [[nodiscard]] std::optional<ReplyPiece> try_next();
  // Waits until there is a piece or the end, at most so long: whether there is.
  [[nodiscard]] bool wait(std::chrono::nanoseconds at_most);
  // Whether everything was read and the reply has ended.
  [[nodiscard]] bool ended() const;
  // After the end, ended() or not.
  [[nodiscard]] const ReplyResult& result() const;
  // The reader wants no more; the request ends within a step. After the end it does nothing.
  void cancel();

  // --- The step loop

  // Also when full: what one step makes is taken, then the loop asks full(). Not after finish().
  void push(ReplyPiece piece);
  // Once.
  void finish(ReplyResult result);
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool cancelled() const;
  // `attention` is called from the reader's thread when a full stream can take pieces again and when the reader cancels; never
  // after finish(), but for a call that is on its way. Set before the reader has the stream.
  void on_attention(std::function<void()> attention);

 private:
  [[nodiscard]] std::optional<ReplyPiece> take(std::unique_lock<std::mutex>& lock);

  const size_t capacity_;
  const std::function<void()> readable_;
  std::function<void()> attention_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ReplyPiece> pieces_;
  std::optional<ReplyResult> result_;
  bool cancelled_ = false;
};

}  // namespace quire::engine
