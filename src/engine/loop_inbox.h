// What other threads tell the step loop, until its owner thread takes it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/job.h"

namespace quire::engine {

// Any thread puts in; the owner thread takes. Streams keep it alive, so that a reader who comes late finds it.
class LoopInbox {
 public:
  struct Letters {
    std::vector<std::unique_ptr<Job>> submitted;  // in order
    std::vector<sched::JobId> attention;          // their streams have room again, or were cancelled
    bool clear_cache = false;
    bool stop = false;

    [[nodiscard]] bool empty() const { return submitted.empty() && attention.empty() && !clear_cache && !stop; }
  };

  void submit(std::unique_ptr<Job> job);
  void call_attention(sched::JobId job);
  void clear_cache();
  void stop();

  // Everything that came since the last call.
  [[nodiscard]] Letters take();
  // Waits until there is something, at most so long (for ever without a bound).
  void wait(std::optional<int64_t> at_most_ns);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Letters letters_;
};

}  // namespace quire::engine
