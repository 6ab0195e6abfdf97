// A step loop on a thread of its own, for as long as the object lives.
#pragma once

#include <thread>

#include "engine/step_loop.h"

namespace quire::engine {

class LoopThread {
 public:
  // See StepLoop. kLimit: the system starts no more threads.
  [[nodiscard]] static Result<std::unique_ptr<LoopThread>> start(ModelRunner& model, const tokenizer::Tokenizer& tokenizer,
                                                                 kv::KvCache& cache, const StepLoopOptions& options);
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  // Ends after the step that is being made; requests that are not over end as cancelled.
  ~LoopThread();

  [[nodiscard]] StepLoop& loop() { return loop_; }

 private:
  LoopThread(ModelRunner& model, const tokenizer::Tokenizer& tokenizer, kv::KvCache& cache, const StepLoopOptions& options)
      : loop_(model, tokenizer, cache, options) {}

  StepLoop loop_;
  std::thread thread_;
};

}  // namespace quire::engine
