#include "kv/segment_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "port/fault_vm.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

constexpr Bytes kPlenty{INT64_C(1) << 40};
constexpr int64_t kTableBytes = 4096;

std::vector<LayerGroupSpec> two_groups() {
  return {{.name = "full", .layers = {0, 2}, .tile_record = Bytes(8192), .window = {}},
          {.name = "window", .layers = {1}, .tile_record = Bytes(4096), .window = 64}};
}
// Of one tile in both groups.
constexpr int64_t kTileBytes = 2 * 8192 + 4096;

struct Fixture {
  explicit Fixture(const SegmentPoolOptions& options = {}) : pool(port, budget, two_groups(), options) {}

  SegmentSet* take(int64_t tiles) {
    const Result<SegmentSet*> set = pool.take(TileCount(tiles));
    QUIRE_CHECK(set.ok());
    return *set;
  }
  static void back(SegmentSet* set, int64_t first, int64_t end) {
    for (size_t group = 0; group < set->groups(); ++group) {
      const Result<Space> space = set->segment(group).back({first, end}, Purpose::kLive);
      QUIRE_CHECK(space.ok() && *space == Space::kOk);
    }
  }
  SegmentSet* take_backed(int64_t tiles) {
    SegmentSet* set = take(tiles);
    back(set, 0, tiles);
    return set;
  }

  port::SimVm port;
  Budget budget{kPlenty};
  SegmentPool pool;
};

TEST(SizeClass, IsAtMostAQuarterTooLargeAndItsOwnClass) {
  const std::vector<int64_t> first = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48};
  std::vector<int64_t> found;
  for (int64_t tiles = 1; tiles <= 48; ++tiles) {
    const int64_t reserved = size_class(TileCount(tiles)).value;
    if (found.empty() || found.back() != reserved) found.push_back(reserved);
  }
  EXPECT_EQ(found, first);
  for (int64_t tiles = 1; tiles < INT64_MAX / 3; tiles += tiles / 8 + 1) {
    const int64_t reserved = size_class(TileCount(tiles)).value;
    ASSERT_GE(reserved, tiles);
    ASSERT_LE(reserved - tiles, tiles / 4);
    ASSERT_EQ(size_class(TileCount(reserved)).value, reserved);
  }
  EXPECT_EQ(size_class(TileCount(INT64_MAX)).value, INT64_MAX);
}

TEST(SegmentPool, ASetThatWasPutIsTakenAgainWithItsWarmTiles) {
  Fixture at;
  SegmentSet* set = at.take_backed(9);
  EXPECT_EQ(set->max_tiles(), TileCount(10));
  EXPECT_EQ(set->groups(), 2U);
  set->end = TileIndex(9);
  const int64_t calls = at.port.counters().back_calls;
  at.pool.put(set);
  EXPECT_EQ(at.pool.warm_sets(), 1U);
  EXPECT_EQ(at.budget.backed(Purpose::kWarm), Bytes(9 * kTileBytes));
  EXPECT_NE(at.take(8), set) << "another class";
  ASSERT_EQ(at.take(10), set);
  EXPECT_EQ(at.pool.warm_sets(), 0U);
  EXPECT_EQ(set->end, TileIndex(0));
  EXPECT_EQ(set->segment(0).purpose(TileIndex(8)), Purpose::kWarm);
  Fixture::back(set, 0, 9);
  EXPECT_EQ(at.port.counters().back_calls, calls) << "warm tiles cost no page faults";
  EXPECT_EQ(at.budget.backed(Purpose::kLive), Bytes(9 * kTileBytes));
  EXPECT_EQ(at.pool.verify(), "");
}

TEST(SegmentPool, ASetWithoutBackedTilesIsUnmapped) {
  Fixture at;
  SegmentSet* set = at.take_backed(3);
  for (size_t group = 0; group < 2; ++group) set->segment(group).give_back({0, 3});
  EXPECT_GT(at.budget.backed(Purpose::kPageTables), Bytes(0));
  at.pool.put(set);
  EXPECT_EQ(at.pool.sets(), 0U);
  EXPECT_EQ(at.budget.backed(), Bytes(0)) << "the page tables went with it";
  EXPECT_EQ(at.port.counters().reservations, 0);
}

TEST(SegmentPool, TheWarmListHasALength) {
  Fixture at({.warm_sets = 2});
  std::vector<SegmentSet*> sets;
  for (int64_t tiles = 1; tiles <= 3; ++tiles) sets.push_back(at.take_backed(tiles));
  for (SegmentSet* set : sets) at.pool.put(set);
  EXPECT_EQ(at.pool.sets(), 2U);
  EXPECT_EQ(at.budget.backed(Purpose::kWarm), Bytes((2 + 3) * kTileBytes)) << "the longest there went";
  EXPECT_EQ(at.pool.verify(), "");
}

TEST(SegmentPool, ShedsWholeSetsOfTheWarmListFirstTheLongestThere) {
  Fixture at;
  std::vector<SegmentSet*> sets;
  for (const int64_t tiles : {5, 4, 4, 6}) sets.push_back(at.take_backed(tiles));
  for (SegmentSet* set : sets) at.pool.put(set);
  SegmentSet* used = at.take(6);
  EXPECT_EQ(used, sets[3]);
  const int64_t tables = at.budget.backed(Purpose::kPageTables).value;
  EXPECT_EQ(tables, 4 * 2 * kTableBytes) << "one for each segment";
  EXPECT_EQ(at.pool.sheddable(), Bytes((5 + 4 + 4 + 6) * kTileBytes + 3 * 2 * kTableBytes));

  EXPECT_EQ(at.pool.shed(Bytes(0)), Bytes(0));
  EXPECT_EQ(at.pool.shed(Bytes(1)), Bytes(5 * kTileBytes + 2 * kTableBytes));
  EXPECT_EQ(at.pool.sets(), 3U);
  EXPECT_EQ(at.pool.shed(Bytes(8 * kTileBytes)), Bytes(2 * (4 * kTileBytes + 2 * kTableBytes)));
  EXPECT_EQ(at.pool.warm_sets(), 0U);
  EXPECT_EQ(at.pool.shed(Bytes(1)), Bytes(2 * 8192)) << "of the set in use, the last tile of a group";
  EXPECT_EQ(used->segment(0).purpose(TileIndex(4)), Purpose::kWarm);
  EXPECT_EQ(used->segment(0).purpose(TileIndex(5)), std::nullopt);
  EXPECT_EQ(at.pool.verify(), "");
  EXPECT_EQ(at.pool.shed(kPlenty), Bytes(6 * kTileBytes - 2 * 8192));
  EXPECT_EQ(at.pool.sheddable(), Bytes(0));
  EXPECT_EQ(at.pool.shed(kPlenty), Bytes(0));
  EXPECT_EQ(at.pool.sets(), 1U);
  EXPECT_EQ(at.pool.verify(), "");
}

TEST(SegmentPool, FindsTilesThatBecomeWarmInASetInUse) {
  Fixture at;
  SegmentSet* first = at.take_backed(4);
  SegmentSet* second = at.take_backed(4);
  first->segment(1).set_purpose({1, 3}, Purpose::kWarm);
  second->segment(0).set_purpose({0, 1}, Purpose::kWarm);
  EXPECT_EQ(at.pool.verify(), "");
  second->segment(0).set_purpose({0, 1}, Purpose::kLive);
  EXPECT_EQ(at.pool.sheddable(), Bytes(2 * 4096));
  EXPECT_EQ(at.pool.shed(kPlenty), Bytes(2 * 4096));
  EXPECT_EQ(at.pool.sets(), 2U) << "sets in use stay";
  EXPECT_EQ(at.pool.verify(), "");
}

TEST(SegmentPool, ASetIsAtMostAsLargeAsAllowed) {
  Fixture at({.largest = TileCount(9)});
  EXPECT_EQ(at.take(100)->max_tiles(), TileCount(9));
  EXPECT_EQ(at.take(9)->max_tiles(), TileCount(9)) << "although the class is 10";
  EXPECT_EQ(at.take(5)->max_tiles(), TileCount(5));
}

TEST(SegmentPool, PageTablesAreNeverMoreThanForeseen) {
  for (const int64_t tiles : {1, 5, 63, 64, 65, 200, 700}) {
    Fixture at({.largest = TileCount(300)});
    for (int64_t rest = tiles; rest > 0; rest -= 300) at.take_backed(std::min<int64_t>(rest, 300));
    const Bytes foreseen = at.pool.page_tables_for(TileCount(tiles));
    EXPECT_LE(at.budget.backed(Purpose::kPageTables), foreseen) << tiles << " tiles";
    EXPECT_LE(foreseen.value, tiles * kTileBytes / 100 + (tiles / 300 + 1) * 2 * 2 * kTableBytes) << tiles << " tiles";
  }
  Fixture at;
  EXPECT_EQ(at.pool.page_tables_for(TileCount(0)), Bytes(0));
  EXPECT_EQ(at.pool.page_tables_for(TileCount(INT64_MAX)), Bytes(INT64_MAX));
}

TEST(SegmentPool, WhatCannotBeReservedIsAnErrorAndLeavesNothing) {
  for (int64_t nth = 0; nth < 2; ++nth) {
    port::SimVm inner;
    port::FaultyVm port(inner, port::FaultPlan{.nth_call = nth});
    Budget budget(kPlenty);
    SegmentPool pool(port, budget, two_groups(), {});
    const Result<SegmentSet*> set = pool.take(TileCount(4));
    ASSERT_FALSE(set.ok());
    EXPECT_THAT(set.error().message, ::testing::HasSubstr(nth == 0 ? "KV of 128 tokens (2 layers of group full)" : "group window"));
    EXPECT_EQ(pool.sets(), 0U);
    EXPECT_EQ(inner.counters().reservations, 0);
    EXPECT_TRUE(pool.take(TileCount(4)).ok());
    EXPECT_EQ(pool.verify(), "");
  }
}

TEST(SegmentPool, OnTheHostThousandsOfSetsLive) {
  port::PosixVm port;
  Budget budget(kPlenty);
  const std::vector<LayerGroupSpec> groups = {{.name = "full", .layers = {0, 1}, .tile_record = Bytes(4096), .window = {}}};
  SegmentPool pool(port, budget, groups, {});
  std::vector<SegmentSet*> sets;
  for (int64_t count = 0; count < 3000; ++count) {
    const Result<SegmentSet*> set = pool.take(TileCount(256));
    ASSERT_TRUE(set.ok()) << set.error().message;
    ASSERT_EQ(*(*set)->segment(0).back({count % 200, count % 200 + 1}, Purpose::kLive), Space::kOk);
    sets.push_back(*set);
  }
  EXPECT_EQ(pool.verify(), "");
  for (SegmentSet* set : sets) pool.put(set);
  EXPECT_EQ(pool.warm_sets(), 1024U);
  EXPECT_EQ(pool.verify(), "");
  EXPECT_EQ(budget.backed(Purpose::kWarm), Bytes(1024 * 2 * 4096));
  pool.shed(kPlenty);
  EXPECT_EQ(budget.backed(), Bytes(0));
}

TEST(SegmentPoolDeathTest, BugsAreCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Fixture at;
        SegmentSet* set = at.take_backed(1);
        at.pool.put(set);
        at.pool.put(set);
      },
      "check failed");
}

}  // namespace
}  // namespace quire::kv
