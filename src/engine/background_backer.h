// A helper thread that has memory backed while a step computes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "kv/kv_cache.h"

namespace quire::engine {

class BackgroundBacker {
 public:
  BackgroundBacker();
  BackgroundBacker(const BackgroundBacker&) = delete;
  BackgroundBacker& operator=(const BackgroundBacker&) = delete;
  ~BackgroundBacker();

  // Runs plan.back() on the helper. `plan` stays where it is, and untouched, until wait() returns; one at a time.
  void start(kv::BackingPlan& plan);
  // Returns when back() has; at once when nothing was started.
  void wait();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  kv::BackingPlan* plan_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire::engine
