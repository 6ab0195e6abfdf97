#include "kv/eviction_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "kv/prefix_tree.h"

namespace quire::kv {
namespace {

Victim first(const EvictionOrder& order) {
  return order.first([](const Victim&) { return true; });
}

TEST(EvictionOrder, OfEqualLossesTheOneUsedLongestAgoGoesFirst) {
  EvictionOrder order;
  Node nodes[3];
  LastUse uses[3];
  for (int i = 0; i < 3; ++i) {
    uses[i] = order.use();
    order.add(uses[i], {&nodes[i], 100});
  }
  EXPECT_EQ(first(order).node, &nodes[0]);
  order.remove(uses[0], 100);
  uses[0] = order.use();
  order.add(uses[0], {&nodes[0], 100});
  EXPECT_EQ(first(order).node, &nodes[1]);
}

TEST(EvictionOrder, TokensFarFromTheBeginningAreDearer) {
  EvictionOrder order;
  Node near;
  Node far;
  order.add(order.use(), {&far, 100'000});
  order.add(order.use(), {&near, 100});
  EXPECT_EQ(first(order).node, &near) << "although it was used later: computing it again costs a sixth";
}

// What is dear is not kept for ever: the floor rises with what goes.
TEST(EvictionOrder, TheDearGoWhenNobodyComesForThem) {
  EvictionOrder order;
  Node dear;
  std::vector<Node> others(1000);
  order.add(order.use(), {&dear, 100'000});
  size_t evictions = 0;
  for (Node& other : others) {
    order.add(order.use(), {&other, 100});
    const Victim victim = first(order);
    if (victim.node == &dear) break;
    const LastUse last{.floor = static_cast<double>(evictions) * (1 + 100 / kAttentionDoublesCost),
                       .tick = static_cast<int64_t>(evictions) + 2};
    ASSERT_TRUE(order.contains(last, victim));
    order.raise_floor(last, victim.position);
    order.remove(last, victim.position);
    ++evictions;
  }
  // (1 + 100,000 / 16,384) / (1 + 100 / 16,384) of them raise the floor to its rank.
  EXPECT_EQ(evictions, 7);
}

TEST(EvictionOrder, WhoIsNotAcceptedIsPassedOver) {
  EvictionOrder order;
  Node nodes[2];
  order.add(order.use(), {&nodes[0], 10});
  order.add(order.use(), {&nodes[1], 10});
  EXPECT_EQ(order.first([&](const Victim& victim) { return victim.node != &nodes[0]; }).node, &nodes[1]);
  EXPECT_EQ(order.first([](const Victim&) { return false; }).node, nullptr);
}

// A list that is sorted anew for every question.
TEST(EvictionOrderModel, IsAListSortedByRankAndTime) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
    struct Entry {
      double rank;
      int64_t tick;
      LastUse last;
      int64_t position;
      Node* node;
    };
    EvictionOrder order;
    std::vector<Node> nodes(5);
    std::vector<Entry> list;
    for (int step = 0; step < 300; ++step) {
      if (pick(3) != 0) {
        const LastUse last = order.use();
        const int64_t position = 1 + pick(50'000);
        Node* node = &nodes[static_cast<size_t>(pick(nodes.size()))];
        order.add(last, {node, position});
        list.push_back({last.floor + 1 + static_cast<double>(position) / 16384, last.tick, last, position, node});
      } else if (!list.empty() && pick(2) == 0) {
        const size_t chosen = static_cast<size_t>(pick(list.size()));
        list[chosen].node = &nodes[static_cast<size_t>(pick(nodes.size()))];
        order.move(list[chosen].last, list[chosen].position, list[chosen].node);
      }
      ASSERT_EQ(order.size(), list.size());
      if (list.empty()) continue;
      std::sort(list.begin(), list.end(),
                [](const Entry& a, const Entry& b) { return std::tie(a.rank, a.tick) < std::tie(b.rank, b.tick); });
      const Victim victim = first(order);
      ASSERT_EQ(victim.node, list[0].node);
      ASSERT_EQ(victim.position, list[0].position);
      if (pick(4) != 0) continue;
      order.raise_floor(list[0].last, list[0].position);
      EXPECT_EQ(order.use().floor, list[0].rank);
      order.remove(list[0].last, list[0].position);
      list.erase(list.begin());
    }
  }
}

}  // namespace
}  // namespace quire::kv
