#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::model {
namespace {

TEST(Rope, AnglesFollowTheFormula) {
  const RopeFrequencies rope({.base = 10000, .position_divisor = 4}, 8, {});
  float cos[4];
  float sin[4];
  rope.angles(TokenPos(1000), cos, sin);
  for (int i = 0; i < 4; ++i) {
    const double angle = 1000.0 / 4 * std::pow(10000.0, -2.0 * i / 8);
    EXPECT_NEAR(cos[i], std::cos(angle), 1e-6) << i;
    EXPECT_NEAR(sin[i], std::sin(angle), 1e-6) << i;
  }
}

TEST(Rope, FactorsDivideFrequencies) {
  const float factors[] = {1, 2, 4, 8};
  const RopeFrequencies with({.base = 500000, .position_divisor = 1}, 8, factors);
  const RopeFrequencies without({.base = 500000, .position_divisor = 1}, 8, {});
  float cos[2][4];
  float sin[2][4];
  with.angles(TokenPos(80), cos[0], sin[0]);
  without.angles(TokenPos(10), cos[1], sin[1]);
  EXPECT_EQ(cos[0][3], cos[1][3]);
  EXPECT_EQ(sin[0][3], sin[1][3]);
  EXPECT_NE(cos[0][0], cos[1][0]);
}

}  // namespace
}  // namespace quire::model
