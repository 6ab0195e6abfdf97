#include "server/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace quire::server {
namespace {

TEST(LatencyHistogram, PercentilesAreWithinOnePercent) {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> times(std::log(2e7), 2);
  LatencyHistogram histogram;
  std::vector<double> all;
  for (int i = 0; i < 10000; ++i) {
    const auto ns = static_cast<int64_t>(times(random));
    histogram.add(ns);
    all.push_back(static_cast<double>(ns) * 1e-6);
  }
  std::sort(all.begin(), all.end());
  for (const double p : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double exact = all[static_cast<size_t>(std::ceil(p * 10000)) - 1];
    EXPECT_GE(histogram.percentile_ms(p), exact * 0.9999) << p;
    EXPECT_LE(histogram.percentile_ms(p), exact * 1.0101) << p;
  }
  EXPECT_EQ(histogram.count(), 10000);
}

TEST(LatencyHistogram, WhatIsOutOfRangeCountsAsItsEnds) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile_ms(0.5), 0);
  for (const int64_t ns : {int64_t{-5}, int64_t{0}, int64_t{1000}}) histogram.add(ns);
  EXPECT_DOUBLE_EQ(histogram.percentile_ms(1), 0.001);
  histogram.add(INT64_MAX);
  EXPECT_DOUBLE_EQ(histogram.percentile_ms(0.75), 0.001);
  EXPECT_GT(histogram.percentile_ms(1), 3600e3) << "hours";
}

}  // namespace
}  // namespace quire::server
