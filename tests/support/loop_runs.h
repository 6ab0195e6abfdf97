// Requests through a step loop by hand, on a clock of its own: for tests of what replies are.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "kv/kv_cache.h"
#include "port/fault_vm.h"
#include "port/sim_vm.h"
#include "tests/support/tiny_engines.h"

namespace quire::engine {

struct HeardReply {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<ReplyToken> sampled;
  std::optional<ReplyResult> result;  // nothing: not over
};

// What a stream has now.
inline HeardReply read_now(ReplyStream& stream, HeardReply so_far = {}) {
  while (std::optional<ReplyPiece> piece = stream.try_next()) {
    so_far.text += piece->text;
    for (ReplyToken& token : piece->tokens) {
      so_far.tokens.push_back(token.token);
      so_far.sampled.push_back(std::move(token));
    }
  }
  if (stream.ended()) so_far.result = stream.result();
  return so_far;
}

struct LoopRunOptions {
  Bytes limit{int64_t{64} << 20};
  bool share = true;
  sched::Reserve reserve = sched::Reserve::kExpected;
  TokenCount context{512};
  size_t stream_capacity = 4096;
  bool background_backing = false;
  int64_t step_tokens = 512;
  std::optional<port::FaultPlan> fault = {};
};

// A loop over an engine's model with a cache of its own, whose memory is simulated: what nobody wrote is garbage.
class LoopRun {
 public:
  explicit LoopRun(Engine& engine, const LoopRunOptions& options = {}) : LoopRun(engine, engine.runner(), options) {}

  LoopRun(Engine& engine, ModelRunner& model, const LoopRunOptions& options)
      : memory_({.real_memory = true}),
        vm_(memory_, options.fault),
        cache_(vm_, engine.layer_groups(), {.limit = options.limit, .share = options.share}) {
    StepLoopOptions loop;
    loop.scheduler.reserve = options.reserve;
    loop.scheduler.step_tokens = TokenCount(options.step_tokens);
    loop.context = options.context;
    loop.stream_capacity = options.stream_capacity;
    loop.background_backing = options.background_backing;
    loop.now_ns = [this] { return now_ns_ += 1000; };
    loop.ceiling = [this] { return ceiling_; };
    ceiling_ = options.limit;
    loop_ = std::make_unique<StepLoop>(model, engine.tokenizer(), cache_, loop);
  }

  [[nodiscard]] StepLoop& loop() { return *loop_; }
  [[nodiscard]] kv::KvCache& cache() { return cache_; }
  [[nodiscard]] const port::FaultyVm& vm() const { return vm_; }
  void set_ceiling(Bytes ceiling) { ceiling_ = ceiling; }
  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  void pass_time(int64_t ns) { now_ns_ += ns; }

  [[nodiscard]] std::shared_ptr<ReplyStream> submit(Request request) { return loop_->submit(std::move(request)).value(); }

  // One step; everything is as it must be afterwards.
  bool step() {
    const bool busy = loop_->step();
    EXPECT_EQ(loop_->verify(), "");
    return busy;
  }

  // Steps until nothing can happen any more without somebody from outside.
  void drain() {
    for (;;) {
      if (step()) continue;
      const std::optional<int64_t> until = loop_->idle_until_ns();
      if (!until) return;
      now_ns_ = std::max(now_ns_, *until);
    }
  }

  // All of them at once, to their ends.
  [[nodiscard]] std::vector<HeardReply> answer(const std::vector<Request>& requests) {
    std::vector<std::shared_ptr<ReplyStream>> streams;
    for (const Request& request : requests) streams.push_back(submit(request));
    drain();
    std::vector<HeardReply> replies;
    for (const auto& stream : streams) replies.push_back(read_now(*stream));
    return replies;
  }

 private:
  int64_t now_ns_ = 0;
  Bytes ceiling_;
  port::SimVm memory_;
  port::FaultyVm vm_;
  kv::KvCache cache_;
  std::unique_ptr<StepLoop> loop_;
};

}  // namespace quire::engine
