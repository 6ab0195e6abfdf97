#include "sched/length_predictor.h"

#include <gtest/gtest.h>

namespace quire::sched {
namespace {

int64_t remaining(const LengthPredictor& predictor, int64_t produced, int64_t left) {
  return predictor.remaining(TokenCount(produced), TokenCount(left)).value;
}

TEST(LengthPredictor, SensibleBeforeAnythingWasObserved) {
  const LengthPredictor predictor;
  EXPECT_EQ(remaining(predictor, 0, 100), 100);
  EXPECT_EQ(remaining(predictor, 0, 1'000'000), LengthPredictor::kUnknownTokens);
  // A reply that has gone on for long will go on for as long again.
  EXPECT_EQ(remaining(predictor, 5000, 1'000'000), 5000);
  EXPECT_EQ(remaining(predictor, 5000, 0), 0);
}

TEST(LengthPredictor, ComesToTheMeanOfWhatIsObserved) {
  LengthPredictor predictor;
  for (int i = 0; i < 500; ++i) predictor.observe(TokenCount(i % 2 == 0 ? 100 : 300));
  EXPECT_NEAR(static_cast<double>(remaining(predictor, 0, 10'000)), 200, 5);
  // After 150 tokens only the long ones are possible; after 600 nothing is known but that it goes on.
  EXPECT_NEAR(static_cast<double>(remaining(predictor, 150, 10'000)), 150, 8);
  EXPECT_EQ(remaining(predictor, 600, 10'000), 600);
}

TEST(LengthPredictor, NeverAboveTheLimitAndNeverZero) {
  LengthPredictor predictor;
  for (int i = 1; i < 3000; ++i) predictor.observe(TokenCount(i * 37 % 5000));
  for (int64_t produced = 0; produced < 6000; produced += 13) {
    for (const int64_t left : {1, 2, 50, 4000}) {
      EXPECT_GE(remaining(predictor, produced, left), 1) << produced;
      EXPECT_LE(remaining(predictor, produced, left), left) << produced;
    }
  }
}

TEST(LengthPredictor, LongRepliesCountAsTheLimitOfTheAsked) {
  LengthPredictor predictor;
  for (int i = 0; i < 500; ++i) predictor.observe(TokenCount(4000));
  EXPECT_EQ(remaining(predictor, 0, 100), 100);
  EXPECT_NEAR(static_cast<double>(remaining(predictor, 0, 3000)), 3000, 10);
}

TEST(LengthPredictor, ForgetsWhatIsLongAgo) {
  LengthPredictor predictor;
  for (int i = 0; i < LengthPredictor::kMemory; ++i) predictor.observe(TokenCount(1000));
  for (int i = 0; i < 8 * LengthPredictor::kMemory; ++i) predictor.observe(TokenCount(10));
  EXPECT_LT(remaining(predictor, 0, 100'000), 20);
}

TEST(LengthPredictor, TakesAnyLength) {
  LengthPredictor predictor;
  predictor.observe(TokenCount(0));
  EXPECT_EQ(remaining(predictor, 0, 100), 100);
  predictor.observe(TokenCount(INT64_MAX / 2));
  EXPECT_EQ(remaining(predictor, 0, 100), 100);
  EXPECT_GE(remaining(predictor, INT64_MAX / 4, 100), 1);
}

}  // namespace
}  // namespace quire::sched
