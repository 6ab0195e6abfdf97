#include "sampling/top_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quire::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<TokenId> top_ids(const std::vector<float>& logits, size_t count) {
  std::vector<Candidate> top;
  select_top(logits, count, top);
  std::vector<TokenId> ids;
  for (const Candidate& candidate : top) ids.push_back(candidate.token);
  return ids;
}

TEST(TopTokensTest, EqualsAFullSortOnRowsWithManyTies) {
  std::mt19937 random(1);
  for (const size_t size : {1U, 2U, 65U, 1000U, 5000U}) {
    for (const int different : {1, 3, 50, 100000}) {
      std::vector<float> logits(size);
      for (float& logit : logits) logit = static_cast<float>(std::uniform_int_distribution<int>(-different, different)(random));
      std::vector<TokenId> sorted(size);
      for (size_t i = 0; i < size; ++i) sorted[i] = static_cast<TokenId>(i);
      std::stable_sort(sorted.begin(), sorted.end(), [&](TokenId a, TokenId b) { return logits[size_t(a)] > logits[size_t(b)]; });
      for (const size_t count : {0U, 1U, 2U, 40U, 900U, 6000U}) {
        auto expected = sorted;
        expected.resize(std::min<size_t>(count, size));
        ASSERT_EQ(top_ids(logits, count), expected) << size << " " << different << " " << count;
      }
      EXPECT_EQ(largest_logit(logits), sorted.front());
    }
  }
}

TEST(TopTokensTest, RisingLogitsAreTheWorstOrderAndStillRight) {
  std::vector<float> logits(10000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
  EXPECT_EQ(top_ids(logits, 3), (std::vector<TokenId>{9999, 9998, 9997}));
}

TEST(TopTokensTest, NanAndInfinities) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> logits = {kNan, -kInfinity, 1, kInfinity, largest, kNan, -5};
  EXPECT_EQ(top_ids(logits, 10), (std::vector<TokenId>{3, 4, 2, 6}));
  EXPECT_EQ(largest_logit(logits), 3);
  EXPECT_EQ(largest_logit(std::vector<float>{largest, kInfinity}), 0);
  EXPECT_EQ(largest_logit(std::vector<float>{kNan, -kInfinity, kNan}), 0);
  EXPECT_EQ(top_ids({kNan, -kInfinity}, 2), (std::vector<TokenId>{}));
}

}  // namespace
}  // namespace quire::sampling
