#include "port/clock.h"

#include <chrono>

namespace quire::port {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double monotonic_seconds() { return static_cast<double>(monotonic_ns()) * 1e-9; }

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::localtime_r(&now, &parts);
  return parts;
}

int64_t unix_seconds() { return std::time(nullptr); }

}  // namespace quire::port
