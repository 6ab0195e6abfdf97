#include "engine/background_backer.h"

#include <system_error>

#include "base/check.h"

namespace quire::engine {

BackgroundBacker::BackgroundBacker() {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    // The system has no thread to spare: start() does the work itself.
  }
}

BackgroundBacker::~BackgroundBacker() {
  wait();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundBacker::start(kv::BackingPlan& plan) {
  if (!thread_.joinable()) {
    plan.back();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    QUIRE_CHECK(plan_ == nullptr, "one plan at a time");
    plan_ = &plan;
  }
  changed_.notify_all();
}

void BackgroundBacker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return plan_ == nullptr; });
}

void BackgroundBacker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return plan_ != nullptr || stopping_; });
    if (stopping_) return;
    lock.unlock();
    plan_->back();
    lock.lock();
    plan_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace quire::engine
