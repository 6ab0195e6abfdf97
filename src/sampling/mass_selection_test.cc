#include "sampling/mass_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace quire::sampling {
namespace {

std::vector<size_t> selected(const std::vector<uint32_t>& keys, const std::vector<double>& masses, double wanted) {
  MassSelector selector;
  MassSelection selection = selector.select(keys, masses, wanted);
  std::vector<size_t> taken;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (selection.take(keys[i])) taken.push_back(i);
  }
  return taken;
}

std::vector<size_t> selected_by_sorting(const std::vector<uint32_t>& keys, const std::vector<double>& masses, double wanted) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  double sum = 0;
  size_t count = 0;
  while (count < order.size() && sum < wanted) sum += masses[order[count++]];
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(MassSelectionTest, EqualsSorting) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const size_t size = 1 + random() % 300;
    // Keys that differ in their high, middle or low bits, or hardly at all. Masses are integers, so that sums are exact.
    const int shift = std::array{0, 9, 20, 29}[random() % 4];
    const uint32_t base = random();
    std::vector<uint32_t> keys(size);
    std::vector<double> masses(size);
    for (uint32_t& key : keys) key = base ^ ((random() % 8) << shift);
    for (double& mass : masses) mass = random() % 4;
    const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
    for (const double wanted : {1.0, total / 3 + 0.5, total / 2 + 0.25, total, total + 1}) {
      if (wanted <= 0) continue;
      ASSERT_EQ(selected(keys, masses, wanted), selected_by_sorting(keys, masses, wanted))
          << "seed " << seed << " wanted " << wanted;
    }
  }
}

TEST(MassSelectionTest, KeysOrderLikeTheirNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending = {-infinity, -3e38F, -1, -1e-40F, 0, 1e-40F, 1, 1.5F, 3e38F, infinity};
  for (size_t i = 1; i < ascending.size(); ++i) EXPECT_LT(ascending_key(ascending[i - 1]), ascending_key(ascending[i])) << i;
  EXPECT_EQ(ascending_key(-0.0F), ascending_key(0.0F));
}

TEST(MassSelectionTest, NothingAndOne) {
  EXPECT_TRUE(selected({}, {}, 1).empty());
  EXPECT_EQ(selected({0}, {0}, 1), (std::vector<size_t>{0}));
  EXPECT_EQ(selected({0xffffffff, 0}, {1, 1}, 1), (std::vector<size_t>{0}));
}

}  // namespace
}  // namespace quire::sampling
