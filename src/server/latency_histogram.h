// Percentiles of many times in little memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire::server {

// Counts times in buckets whose borders grow by 1 %: a percentile is exact to that. From 1 microsecond to some hours; shorter and
// longer ones count as these.
class LatencyHistogram {
 public:
  void add(int64_t ns);
  [[nodiscard]] int64_t count() const { return count_; }

  // The time in milliseconds that the share `p` in (0, 1] of all times does not exceed (nearest rank); 0 without any.
  [[nodiscard]] double percentile_ms(double p) const;

 private:
  static constexpr size_t kBuckets = 2400;

  std::array<int64_t, kBuckets> buckets_ = {};
  int64_t count_ = 0;
};

}  // namespace quire::server
