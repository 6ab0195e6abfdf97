// One who asks, reads and judges: what he gets must be what the fake law says, whatever happened on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/request.h"
#include "engine/step_loop.h"
#include "tests/simulation/fake_law.h"
#include "tokenizer/tokenizer.h"

namespace quire::simulation {

// What a request gets alone, computed without any memory.
struct ExpectedReply {
  engine::ReplyEnd end = engine::ReplyEnd::kEndOfText;
  int64_t tokens = 0;        // of the reply
  std::string text;          // before a stop text
  std::string spoken;        // of all tokens, that of the stop text too
  std::vector<size_t> ends;  // of each token's part in it
};

class Client {
 public:
  // `context` is the loop's, `vocabulary` the model's rows.
  Client(int64_t id, engine::Request request, const FakeLaw& law, const tokenizer::Tokenizer& tokenizer, TokenCount context,
         int vocabulary);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] int64_t id() const { return id_; }
  [[nodiscard]] const engine::Request& request() const { return request_; }
  // The prompt and the whole reply that it gets alone.
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const ExpectedReply& expected() const { return expected_; }
  [[nodiscard]] const std::vector<TokenId>& got() const { return got_; }
  // Prompt and output limit: what it needs memory for, as requests are counted (one more than it comes to hold).
  [[nodiscard]] TokenCount longest() const { return longest_; }
  [[nodiscard]] bool asked_for_length() const { return request_.reply.max_tokens.value > 0; }

  void submitted(std::shared_ptr<engine::ReplyStream> stream, int64_t now_ns);
  // Takes what is there, one piece where the reader is slow; whether there was anything.
  bool read(int64_t now_ns);
  // Goes away: by telling, or by dropping the stream.
  void cancel(bool by_dropping);

  [[nodiscard]] bool over() const { return result_.has_value() || dropped_; }
  [[nodiscard]] bool dropped() const { return dropped_; }
  [[nodiscard]] bool cancelled() const { return cancelled_ || dropped_; }
  [[nodiscard]] const std::optional<engine::ReplyResult>& result() const { return result_; }
  [[nodiscard]] bool stream_ended() const { return stream_ == nullptr || stream_->ended(); }

  // Empty, or what is wrong with the reply, which is over.
  [[nodiscard]] std::string judge() const;

  // How he reads: when next, and how long he pauses after a piece; 0: he takes everything at once.
  int64_t next_read_ns = 0;
  int64_t pause_ns = 0;
  bool slow = false;  // he paused at some time: his job may have rested

  // What the memory's limit was while he was there.
  Bytes lowest_limit{INT64_MAX};
  Bytes highest_limit{0};

  int64_t submitted_ns = 0;
  std::optional<int64_t> gone_ns;  // when he was seen to be over

 private:
  void compute_expected(const FakeLaw& law, const tokenizer::Tokenizer& tokenizer, TokenCount context, int vocabulary);
  void take(const engine::ReplyPiece& piece);
  [[nodiscard]] std::string judge_tokens() const;
  [[nodiscard]] std::string judge_end() const;

  const int64_t id_;
  const engine::Request request_;
  History history_;
  ExpectedReply expected_;
  TokenCount longest_;
  std::shared_ptr<engine::ReplyStream> stream_;
  std::vector<TokenId> got_;
  std::string text_;
  std::optional<engine::ReplyResult> result_;
  bool cancelled_ = false;
  bool dropped_ = false;
};

}  // namespace quire::simulation
