#include "engine/loop_inbox.h"

#include <chrono>
#include <utility>

namespace quire::engine {

void LoopInbox::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    letters_.submitted.push_back(std::move(job));
  }
  changed_.notify_all();
}

void LoopInbox::call_attention(sched::JobId job) {
  {
    const std::lock_guard lock(mutex_);
    letters_.attention.push_back(job);
  }
  changed_.notify_all();
}

void LoopInbox::clear_cache() {
  {
    const std::lock_guard lock(mutex_);
    letters_.clear_cache = true;
  }
  changed_.notify_all();
}

void LoopInbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    letters_.stop = true;
  }
  changed_.notify_all();
}

LoopInbox::Letters LoopInbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(letters_, {});
}

void LoopInbox::wait(std::optional<int64_t> at_most_ns) {
  std::unique_lock lock(mutex_);
  const auto something = [&] { return !letters_.empty(); };
  if (at_most_ns) {
    changed_.wait_for(lock, std::chrono::nanoseconds(*at_most_ns), something);
  } else {
    changed_.wait(lock, something);
  }
}

}  // namespace quire::engine
