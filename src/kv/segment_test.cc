#include "kv/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "port/machine.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

constexpr Bytes kPlenty{INT64_C(1) << 40};

// Sanitizers back shadow memory of their own beside everything that is touched.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kProcessHasOtherMemory = true;
#else
constexpr bool kProcessHasOtherMemory = false;
#endif

LayerGroupSpec group_of(int layers, int64_t record) {
  LayerGroupSpec group{.name = "full", .layers = {}, .tile_record = Bytes(record), .window = {}};
  for (int layer = 0; layer < layers; ++layer) group.layers.push_back(layer);
  return group;
}

Segment reserve(port::Vm& port, Budget& budget, const LayerGroupSpec& group, int64_t tiles) {
  Result<Segment> segment = Segment::reserve(port, budget, group, TileCount(tiles));
  QUIRE_CHECK(segment.ok());
  return std::move(segment).value();
}

Space back(Segment& segment, int64_t tiles) {
  const Result<Space> space = segment.back(TileCount(tiles));
  QUIRE_CHECK(space.ok());
  return *space;
}

TEST(Segment, BacksAsTilesComeAndNothingBefore) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(3, 8192), 100);
  EXPECT_EQ(port.counters().reserved, Bytes(3 * 100 * 8192));
  EXPECT_EQ(budget.backed(), Bytes(0));
  EXPECT_EQ(back(segment, 0), Space::kOk);
  EXPECT_EQ(budget.backed(), Bytes(0));
  EXPECT_EQ(back(segment, 2), Space::kOk);
  EXPECT_EQ(segment.backed_bytes(), Bytes(3 * 2 * 8192));
  EXPECT_EQ(port.counters().backed, Bytes(3 * 2 * 8192));
  EXPECT_EQ(back(segment, 1), Space::kOk) << "backed already";
  EXPECT_EQ(segment.end_tile(), TileCount(2));
  EXPECT_EQ(segment.verify(), "");
  EXPECT_EQ(segment.dump(),
            "segment full layers 3 record 8192 tiles [0, 2) of 100 granules [0, 4) touched 4 live 49152 page_tables 4096\n");
}

TEST(Segment, AGranuleIsChargedWithItsFirstTileAndFreedWithItsLast) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(1, 6144), 8);  // two tiles on three pages
  const auto pages = [&] { return port.counters().backed.value / 4096; };
  EXPECT_EQ(back(segment, 1), Space::kOk);
  EXPECT_EQ(pages(), 2);
  EXPECT_EQ(back(segment, 2), Space::kOk);
  EXPECT_EQ(pages(), 3);
  EXPECT_EQ(back(segment, 3), Space::kOk);
  EXPECT_EQ(pages(), 5);
  segment.give_back_before(TileIndex(1));  // the page that tiles 0 and 1 share stays
  EXPECT_EQ(pages(), 4);
  segment.give_back_before(TileIndex(2));
  EXPECT_EQ(pages(), 2);
  segment.give_back_before(TileIndex(3));  // nothing is left, the half-filled last page goes too
  EXPECT_EQ(pages(), 0);
  EXPECT_EQ(back(segment, 4), Space::kOk);
  EXPECT_EQ(pages(), 2);
  EXPECT_EQ(segment.verify(), "");
  segment.give_back_from(TileCount(3));
  EXPECT_EQ(pages(), 0);
  EXPECT_EQ(budget.backed(Purpose::kLive), Bytes(0));
}

TEST(Segment, StripesAreContiguousApartAndBeginOnGranules) {
  port::SimVm port({.real_memory = true});
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(4, 1536), 10);
  ASSERT_EQ(back(segment, 10), Space::kOk);
  for (int layer = 0; layer < 4; ++layer) {
    const Stripe stripe = segment.stripe(layer);
    EXPECT_EQ(stripe.tile_stride, 1536);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(stripe.base) % 4096, 0U);
    std::memset(stripe.base, layer + 1, 10 * 1536);
  }
  for (int layer = 0; layer < 4; ++layer) {
    const std::byte* base = segment.stripe(layer).base;
    EXPECT_TRUE(std::all_of(base, base + 10 * 1536, [&](std::byte b) { return b == static_cast<std::byte>(layer + 1); }));
  }
}

TEST(Segment, NoSpaceInTheBudgetChangesNothing) {
  port::SimVm port;
  const Bytes tables(4096);
  Budget budget(Bytes(2 * 3 * 4096) + tables);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 2), Space::kOk);
  const std::string before = segment.dump() + budget.dump();
  const int64_t calls = port.counters().back_calls;
  EXPECT_EQ(back(segment, 4), Space::kNoSpace);
  EXPECT_EQ(segment.dump() + budget.dump(), before);
  EXPECT_EQ(port.counters().back_calls, calls) << "the budget decides before the system is asked";
  EXPECT_EQ(back(segment, 3), Space::kOk);
  EXPECT_EQ(budget.available(), Bytes(0));
}

TEST(Segment, NoMemoryInTheSystemChangesNothing) {
  port::SimVm port({.physical_limit = Bytes(7 * 4096)});
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 2), Space::kOk);
  const std::string before = segment.dump() + budget.dump();
  EXPECT_EQ(back(segment, 4), Space::kNoSpace);
  EXPECT_EQ(segment.dump() + budget.dump(), before);
  EXPECT_EQ(port.counters().backed, Bytes(4 * 4096));
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, PageTablesAreChargedOnceAndUntilTheEnd) {
  // A table reaches 2 MiB; stripes of 5 MiB do not begin at one.
  port::SimVm port;
  Budget budget(kPlenty);
  {
    Segment segment = reserve(port, budget, group_of(2, 1 << 20), 5);
    ASSERT_EQ(back(segment, 1), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(2 * 4096)) << "1 MiB at 0 and at 5 MiB: one table each";
    ASSERT_EQ(back(segment, 5), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(5 * 4096)) << "10 MiB without a gap: the two stripes share the third";
    segment.give_back_from(TileCount(1));
    ASSERT_EQ(back(segment, 2), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(5 * 4096)) << "what was reached once stays";
    segment.give_back_before(TileIndex(2));
    EXPECT_EQ(segment.backed_bytes(), Bytes(0));
    EXPECT_EQ(budget.backed(Purpose::kPageTables), Bytes(5 * 4096)) << "giving back does not free them";
  }
  EXPECT_EQ(budget.backed(), Bytes(0));
}

TEST(Segment, WhatCannotBeReservedIsAnErrorWithTheNumbers) {
  port::SimVm port({.virtual_limit = Bytes(1 << 20)});
  Budget budget(kPlenty);
  const Result<Segment> segment = Segment::reserve(port, budget, group_of(30, 24576), TileCount(256));
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(segment.error().message, ::testing::AllOf(::testing::StartsWith("KV of 8192 tokens (30 layers of group full): "),
                                                        ::testing::HasSubstr("180 MiB")));
  EXPECT_FALSE(Segment::reserve(port, budget, group_of(1000, INT64_C(1) << 50), TileCount(INT64_C(1) << 50)).ok());
}

TEST(Segment, MovesAndIsOverwritten) {
  port::SimVm port;
  Budget budget(kPlenty);
  {
    Segment first = reserve(port, budget, group_of(1, 4096), 10);
    Segment second = reserve(port, budget, group_of(2, 4096), 10);
    ASSERT_EQ(back(first, 3), Space::kOk);
    ASSERT_EQ(back(second, 4), Space::kOk);
    Segment moved = std::move(first);
    EXPECT_EQ(moved.verify(), "");
    moved = std::move(second);
    EXPECT_EQ(moved.end_tile(), TileCount(4));
    EXPECT_EQ(moved.verify(), "");
  }
  EXPECT_EQ(port.counters().reservations, 0);
  EXPECT_EQ(budget.backed(), Bytes(0));
}

#if QUIRE_CHECK_LEVEL >= 1
TEST(Segment, CheckedBuildsPoisonNewTilesWithNan) {
  port::SimVm port({.real_memory = true});
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 1536), 10);
  ASSERT_EQ(back(segment, 1), Space::kOk);
  std::memset(segment.stripe(1).base, 0, 1536);
  ASSERT_EQ(back(segment, 3), Space::kOk);
  const std::byte* base = segment.stripe(1).base;
  EXPECT_TRUE(std::all_of(base, base + 1536, [](std::byte b) { return b == std::byte{0}; })) << "a written tile is left alone";
  EXPECT_TRUE(std::all_of(base + 1536, base + 3 * 1536, [](std::byte b) { return b == std::byte{0xFF}; }));
  float value = 0;
  std::memcpy(&value, base + 1536, sizeof(value));
  EXPECT_NE(value, value);
}
#endif

// verify() must be able to fail: memory that appears or vanishes behind the segment's back is found.
TEST(Segment, VerifySeesWhatTheSystemSays) {
  port::PosixVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 8192), 100);
  ASSERT_EQ(back(segment, 2), Space::kOk);
  ASSERT_EQ(segment.verify(), "");
  *(segment.stripe(1).base + 50 * 8192) = std::byte{1};
  EXPECT_THAT(segment.verify(), ::testing::StartsWith("K7: layer 1: 4096 bytes"));
}

TEST(Segment, OnTheHostMemoryReallyComesAndGoes) {
  if (kProcessHasOtherMemory) GTEST_SKIP() << "a sanitizer's own memory hides the segment's";
  port::PosixVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(30, 24576), 1000);
  const Bytes before = port::process_memory().resident;
  ASSERT_EQ(back(segment, 100), Space::kOk);
  const Bytes grown = port::process_memory().resident - before;
  EXPECT_GE(grown.value, segment.backed_bytes().value * 9 / 10);
  EXPECT_EQ(segment.verify(), "");
  segment.give_back_before(TileIndex(90));
  EXPECT_LE(port::process_memory().resident - before, Bytes(grown.value * 2 / 10));
  EXPECT_EQ(segment.backed_bytes(), Bytes(10 * 720 * 1024));
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, PageTablesAreWhatTheKernelSays) {
  if (kProcessHasOtherMemory) GTEST_SKIP() << "a sanitizer's own memory hides the segment's";
  port::PosixVm port;
  Budget budget(kPlenty);
  const Bytes before = port::process_memory().page_tables;
  Segment segment = reserve(port, budget, group_of(30, 24576), 4000);
  ASSERT_EQ(back(segment, 200), Space::kOk);
  const Bytes grown = port::process_memory().page_tables - before;
  // The upper levels (a page for each GiB) and what else the process maps meanwhile are slack.
  EXPECT_GE(grown.value, segment.page_table_bytes().value);
  EXPECT_LE(grown.value, segment.page_table_bytes().value + 16 * 4096);
}

}  // namespace
}  // namespace quire::kv
