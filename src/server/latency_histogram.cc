#include "server/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace quire::server {
namespace {

constexpr double kGrowth = 1.01;
constexpr double kFirstNs = 1000;

}  // namespace

void LatencyHistogram::add(int64_t ns) {
  const double steps = ns <= 1000 ? 0 : std::ceil(std::log(static_cast<double>(ns) / kFirstNs) / std::log(kGrowth));
  ++buckets_[std::min(static_cast<size_t>(steps), kBuckets - 1)];
  ++count_;
}

double LatencyHistogram::percentile_ms(double p) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<int64_t>(std::ceil(p * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return kFirstNs * std::pow(kGrowth, static_cast<double>(i)) * 1e-6;
  }
  return 0;
}

}  // namespace quire::server
