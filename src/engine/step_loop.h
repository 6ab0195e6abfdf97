// The step loop: requests in, tokens out.
//
// One thread, the owner, runs it: run() until stop(), or step() by hand (tests, simulation). Every other thread only submits,
// cancels and reads streams.
//
//   a step:  take what came in -> the scheduler plans -> suspend, open, back memory -> one forward pass over all chunks, while a
//            helper backs memory for the step after -> sample, stream out, end what has ended
//
// The cache, the scheduler and the running requests belong to the owner thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "engine/model_runner.h"
#include "engine/request.h"
#include "kv/kv_cache.h"
#include "sched/scheduler.h"
#include "tokenizer/tokenizer.h"

namespace quire::engine {

struct StepLoopOptions {
  sched::SchedulerOptions scheduler = {};
  TokenCount context{0};           // longest sequence
  size_t stream_capacity = 64;     // pieces that a reader may be behind
  bool background_backing = true;  // memory for the next step is backed by a helper thread while a step computes
  // Called from the owner thread and from those that submit; empty: port::monotonic_ns.
  std::function<int64_t()> now_ns = {};
  // The ceiling of the KV memory, asked by the owner thread a few times a second; empty: what the cache's limit was at the start.
  std::function<Bytes()> ceiling = {};
};

// What the loop has done since it began; what it holds now.
struct LoopStatistics {
  int64_t steps = 0;
  int64_t prompt_tokens = 0;      // of all requests that were admitted
  int64_t reused_tokens = 0;      // of them found in the cache, counted once a request, at its first admission
  int64_t computed_tokens = 0;    // rows of forward passes, those computed again after a suspension included
  int64_t recomputed_tokens = 0;  // of them computed before, and lost by suspension
  int64_t generated_tokens = 0;
  kv::Usage memory;
  kv::Usage peak_memory;  // each number's largest
  sched::Scheduler::Counts jobs;
};

class StepLoop {
 public:
  // `model`, `tokenizer` and `cache` must outlive the loop. `cache` is used by nobody else while the loop lives.
  StepLoop(ModelRunner& model, const tokenizer::Tokenizer& tokenizer, kv::KvCache& cache, const StepLoopOptions& options);
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;
  // Requests that are not over end as cancelled.
  ~StepLoop();

  // Any thread. The stream ends by itself, whatever happens; dropping it cancels the request. `readable`: see ReplyStream.
  // kInvalidArgument, kLimit: a request that could not run on any machine (empty prompt, ids outside the vocabulary, a prompt that
  // fills the context); what does not fit this machine's memory ends with kRefused instead.
  [[nodiscard]] Result<std::shared_ptr<ReplyStream>> submit(Request request, std::function<void()> readable = {});

  // Runs steps until stop(), on the calling thread, which sleeps while there is nothing to do.
  void run();
  // Any thread. run() returns after the step that it is in.
  void stop();

  // One step by hand: false when there was nothing to do.
  bool step();
  // After a step() that had nothing to do: when there may be something although nobody submits, cancels or reads; nothing: never.
  [[nodiscard]] std::optional<int64_t> idle_until_ns() const;

  // Any thread. All memory that no running request reads is given back before the next step.
  void clear_cache();

  // Any thread.
  [[nodiscard]] LoopStatistics statistics() const;

  // Owner thread, or while the loop stands.
  [[nodiscard]] std::string verify() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::engine
