#include "engine/loop_thread.h"

#include <fmt/format.h>

#include <system_error>

namespace quire::engine {

Result<std::unique_ptr<LoopThread>> LoopThread::start(ModelRunner& model, const tokenizer::Tokenizer& tokenizer, kv::KvCache& cache,
                                                      const StepLoopOptions& options) {
  std::unique_ptr<LoopThread> started(new LoopThread(model, tokenizer, cache, options));
  try {
    started->thread_ = std::thread([loop = &started->loop_] { loop->run(); });
  } catch (const std::system_error& error) {
    return make_error(ErrorCode::kLimit, fmt::format("the system starts no more threads: {}; raise the limit (ulimit -u), or close "
                                                     "other programs",
                                                     error.what()));
  }
  return started;
}

LoopThread::~LoopThread() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

}  // namespace quire::engine
