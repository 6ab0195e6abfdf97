#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace quire::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogprobsTest, EqualsTheLongDoubleSoftmax) {
  std::mt19937 random(5);
  std::vector<float> logits(50000);
  for (float& logit : logits) logit = std::normal_distribution<float>(0, 6)(random);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  LogprobRow row;
  row.read(logits, 5);
  for (const TokenId token : {0, 17, 49999}) {
    const long double exact = static_cast<long double>(logits[static_cast<size_t>(token)]) - std::log(sum);
    EXPECT_NEAR(row.of(logits, token), static_cast<double>(exact), 1e-12);
  }
  ASSERT_EQ(row.top().size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(row.top()[i].logprob, row.of(logits, row.top()[i].token));
    if (i > 0) {
      EXPECT_GE(row.top()[i - 1].logprob, row.top()[i].logprob);
    }
  }
}

TEST(LogprobsTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38F, 3e38F, -3e38F};
  LogprobRow row;
  row.read(logits, 3);
  EXPECT_EQ(row.of(logits, 0), 0);  // log 2 is lost beside 3e38
  EXPECT_EQ(row.top().size(), 3U);
  EXPECT_EQ(row.top()[0].token, 0);
}

TEST(LogprobsTest, RowsWithoutNumbers) {
  const std::vector<float> nothing = {-kInfinity, std::nanf(""), -kInfinity};
  LogprobRow row;
  row.read(nothing, 2);
  EXPECT_TRUE(row.top().empty());
  EXPECT_EQ(row.of(nothing, 1), -std::numeric_limits<double>::infinity());

  const std::vector<float> mixed = {std::nanf(""), 0, -kInfinity, 0};
  row.read(mixed, 4);
  ASSERT_EQ(row.top().size(), 2U);
  EXPECT_EQ(row.top()[0].token, 1);
  EXPECT_EQ(row.top()[1].token, 3);
  EXPECT_NEAR(row.of(mixed, 3), -std::log(2.0), 1e-15);
  EXPECT_EQ(row.of(mixed, 0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(row.of(mixed, 4), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(row.of(mixed, -1), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace quire::sampling
