#include "sampling/random.h"

#include <gtest/gtest.h>

#include <set>

namespace quire::sampling {
namespace {

// The known answers that the authors of Philox publish with it.
TEST(RandomTest, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, EveryCoordinateMatters) {
  std::set<double> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
    for (uint32_t choice : {0U, 1U}) {
      for (int64_t position : {int64_t{0}, int64_t{1}, int64_t{1} << 33}) seen.insert(uniform_at(seed, choice, TokenPos(position)));
    }
  }
  EXPECT_EQ(seen.size(), 18U);
  EXPECT_EQ(uniform_at(7, 2, TokenPos(11)), uniform_at(7, 2, TokenPos(11)));
}

TEST(RandomTest, PositionsAreUniformlySpread) {
  int buckets[10] = {};
  double sum = 0;
  for (int64_t i = 0; i < 100000; ++i) {
    const double u = uniform_at(42, 0, TokenPos(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++buckets[static_cast<int>(u * 10)];
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.004);
  for (const int bucket : buckets) EXPECT_NEAR(bucket, 10000, 400);
}

}  // namespace
}  // namespace quire::sampling
