#include "kv/segment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "port/fault_vm.h"
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

Space back(Segment& segment, int64_t first, int64_t end, Purpose purpose = Purpose::kLive) {
  const Result<Space> space = segment.back({first, end}, purpose);
  QUIRE_CHECK(space.ok());
  return *space;
}

std::byte* record(const Segment& segment, int64_t layer, int64_t tile) {
  const Stripes stripes = segment.stripes();
  return stripes.base + layer * stripes.layer_stride + tile * stripes.tile_stride;
}

TEST(Segment, BacksTheTilesOfARunAndNothingElse) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(3, 8192), 100);
  EXPECT_EQ(port.counters().reserved, Bytes(3 * 100 * 8192));
  EXPECT_EQ(budget.backed(), Bytes(0));
  EXPECT_EQ(back(segment, 7, 7), Space::kOk);
  EXPECT_EQ(budget.backed(), Bytes(0));
  EXPECT_EQ(back(segment, 0, 2), Space::kOk);
  EXPECT_EQ(back(segment, 5, 6, Purpose::kCached), Space::kOk);
  EXPECT_EQ(segment.backed_bytes(), Bytes(3 * 3 * 8192));
  EXPECT_EQ(segment.backed_bytes(Purpose::kCached), Bytes(3 * 8192));
  EXPECT_EQ(port.counters().backed, Bytes(3 * 3 * 8192));
  const int64_t calls = port.counters().back_calls;
  EXPECT_EQ(segment.need({0, 2}), Bytes(0));
  EXPECT_EQ(back(segment, 0, 2), Space::kOk);
  EXPECT_EQ(port.counters().back_calls, calls) << "backed already";
  EXPECT_EQ(segment.purpose(TileIndex(5)), Purpose::kCached);
  EXPECT_EQ(segment.purpose(TileIndex(4)), std::nullopt);
  EXPECT_EQ(segment.verify(), "");
  EXPECT_EQ(segment.dump(), "segment full layers 3 record 8192 tiles 100 touched 6 page_tables 4096 [0, 2) live [5, 6) cached\n");
}

TEST(Segment, ChargesMoveWithTheTilesPurpose) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 10, 20), Space::kOk);
  const auto tiles = [&](Purpose purpose) { return budget.backed(purpose).value / (2 * 4096); };
  segment.set_purpose({0, 12}, Purpose::kShared);
  segment.set_purpose({15, 100}, Purpose::kWarm);
  EXPECT_EQ(tiles(Purpose::kShared), 2);
  EXPECT_EQ(tiles(Purpose::kLive), 3);
  EXPECT_EQ(tiles(Purpose::kWarm), 5);
  EXPECT_EQ(segment.purpose(TileIndex(0)), std::nullopt) << "free tiles stay free";
  ASSERT_EQ(back(segment, 14, 22, Purpose::kCached), Space::kOk);
  EXPECT_EQ(tiles(Purpose::kCached), 8);
  EXPECT_EQ(tiles(Purpose::kWarm), 0);
  EXPECT_EQ(tiles(Purpose::kLive), 2);
  segment.give_back({11, 21});
  EXPECT_EQ(tiles(Purpose::kShared), 1);
  EXPECT_EQ(tiles(Purpose::kCached), 1);
  EXPECT_EQ(port.counters().backed, Bytes(2 * 2 * 4096));
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, AGranuleIsChargedWithItsFirstTileAndFreedWithItsLast) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(1, 6144), 8);  // two tiles on three pages
  const auto pages = [&] { return port.counters().backed.value / 4096; };
  EXPECT_EQ(back(segment, 0, 1), Space::kOk);
  EXPECT_EQ(pages(), 2);
  EXPECT_EQ(segment.need({1, 2}), Bytes(4096)) << "the other page is shared with tile 0";
  EXPECT_EQ(back(segment, 1, 2), Space::kOk);
  EXPECT_EQ(pages(), 3);
  EXPECT_EQ(back(segment, 2, 3), Space::kOk);
  EXPECT_EQ(pages(), 5);
  segment.give_back({0, 1});  // the page that tiles 0 and 1 share stays
  EXPECT_EQ(pages(), 4);
  segment.give_back({0, 2});
  EXPECT_EQ(pages(), 2);
  segment.give_back({2, 3});
  EXPECT_EQ(pages(), 0);
  EXPECT_EQ(back(segment, 3, 4), Space::kOk);
  EXPECT_EQ(pages(), 2);
  EXPECT_EQ(segment.verify(), "");
  segment.give_back({0, 8});
  EXPECT_EQ(pages(), 0);
  EXPECT_EQ(budget.backed(Purpose::kLive), Bytes(0));
}

TEST(Segment, AGranuleIsChargedToTheFirstPurposeOfItsTiles) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(3, 1024), 12);  // four tiles on a page
  ASSERT_EQ(back(segment, 0, 12, Purpose::kCached), Space::kOk);
  const auto pages = [&](Purpose purpose) { return budget.backed(purpose).value / (3 * 4096); };
  segment.set_purpose({5, 6}, Purpose::kLive);
  EXPECT_EQ(pages(Purpose::kCached), 2);
  EXPECT_EQ(pages(Purpose::kLive), 1);
  segment.set_purpose({5, 6}, Purpose::kWarm);
  EXPECT_EQ(pages(Purpose::kCached), 3);
  segment.set_purpose({3, 9}, Purpose::kWarm);
  EXPECT_EQ(pages(Purpose::kCached), 2);
  EXPECT_EQ(pages(Purpose::kWarm), 1);
  segment.give_back({4, 8});
  EXPECT_EQ(pages(Purpose::kWarm), 0);
  EXPECT_EQ(segment.backed_bytes(), Bytes(2 * 3 * 4096));
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, StripesAreContiguousApartAndBeginOnGranules) {
  port::SimVm port({.real_memory = true});
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(4, 1536), 10);
  ASSERT_EQ(back(segment, 0, 10), Space::kOk);
  EXPECT_EQ(segment.stripes().tile_stride, 1536);
  for (int layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(record(segment, layer, 0)) % 4096, 0U);
    std::memset(record(segment, layer, 0), layer + 1, 10 * 1536);
  }
  for (int layer = 0; layer < 4; ++layer) {
    const std::byte* base = record(segment, layer, 0);
    EXPECT_TRUE(std::all_of(base, base + 10 * 1536, [&](std::byte b) { return b == static_cast<std::byte>(layer + 1); }));
  }
}

TEST(Segment, NoSpaceInTheBudgetChangesNothing) {
  port::SimVm port;
  const Bytes tables(4096);
  Budget budget(Bytes(2 * 3 * 4096) + tables);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 0, 2), Space::kOk);
  const std::string before = segment.dump() + budget.dump();
  const int64_t calls = port.counters().back_calls;
  EXPECT_EQ(back(segment, 1, 4), Space::kNoSpace);
  EXPECT_EQ(segment.dump() + budget.dump(), before);
  EXPECT_EQ(port.counters().back_calls, calls) << "the budget decides before the system is asked";
  EXPECT_EQ(back(segment, 1, 3), Space::kOk);
  EXPECT_EQ(budget.available(), Bytes(0));
}

TEST(Segment, NoMemoryInTheSystemChangesNothing) {
  port::SimVm port({.physical_limit = Bytes(7 * 4096)});
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 3, 5), Space::kOk);
  const std::string before = segment.dump() + budget.dump();
  EXPECT_EQ(back(segment, 2, 6), Space::kNoSpace);
  EXPECT_EQ(segment.dump() + budget.dump(), before);
  EXPECT_EQ(port.counters().backed, Bytes(4 * 4096));
  EXPECT_EQ(segment.verify(), "");
}

// A segment's life over a port that fails at the planned call: after each failure everything is as it was, and at the end nothing
// is left. Answers whether the plan came to pass.
bool live_with_a_fault(const port::FaultPlan& plan, int64_t tile_record) {
  port::SimVm inner;
  Budget budget(kPlenty);
  port::FaultyVm port(inner, plan);
  {
    Result<Segment> segment = Segment::reserve(port, budget, group_of(3, tile_record), TileCount(20));
    EXPECT_EQ(segment.ok(), plan.nth_call != 0);
    for (const TileRun run : {TileRun{4, 6}, TileRun{1, 9}, TileRun{12, 13}}) {
      if (!segment.ok()) break;
      const std::string before = segment->dump() + budget.dump();
      const bool must_fail = plan.forever && port.calls() > plan.nth_call;
      const Result<Space> space = segment->back(run, Purpose::kLive);
      if (space.ok() && *space == Space::kOk) {
        EXPECT_FALSE(must_fail);
        EXPECT_EQ(segment->need(run), Bytes(0));
      } else {
        EXPECT_EQ(space.ok(), plan.kind == port::FaultKind::kNoMemory);
        EXPECT_EQ(segment->dump() + budget.dump(), before);
      }
      EXPECT_EQ(segment->verify(), "");
      EXPECT_EQ(budget.promised(), Bytes(0));
    }
  }
  EXPECT_EQ(inner.counters().backed, Bytes(0));
  EXPECT_EQ(inner.counters().reservations, 0);
  EXPECT_EQ(budget.backed(), Bytes(0));
  return port.calls() > plan.nth_call;
}

TEST(Segment, AnyCallOfThePortMayFail) {
  for (const port::FaultKind kind : {port::FaultKind::kNoMemory, port::FaultKind::kError}) {
    for (const bool forever : {false, true}) {
      for (const int64_t tile_record : {4096, 1024}) {
        int64_t calls = 0;
        while (live_with_a_fault({.nth_call = calls, .forever = forever, .kind = kind}, tile_record) && !HasFailure()) ++calls;
        EXPECT_FALSE(HasFailure()) << "call " << calls << " forever " << forever << " record " << tile_record;
        EXPECT_GT(calls, 6);
      }
    }
  }
}

// The steps apart, as a step of the engine takes them: promised first, backed by somebody else, committed or undone at the end.
TEST(Segment, NeedRangesCommitAndUndo) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 3072), 20);  // four tiles on three pages
  ASSERT_EQ(back(segment, 4, 5), Space::kOk);
  ASSERT_EQ(back(segment, 9, 10, Purpose::kWarm), Space::kOk);
  const std::string before = segment.dump() + budget.dump();
  const TileRun run{3, 12};
  const Bytes need = segment.need(run);
  std::vector<port::VmRange> ranges;
  segment.ranges(run, ranges);
  const auto back_all = [&] {
    for (const port::VmRange& range : ranges) ASSERT_EQ(*port.back(segment.reservation(), range), port::Backing::kBacked);
  };
  back_all();
  segment.undo(run);
  EXPECT_EQ(segment.dump() + budget.dump(), before);
  EXPECT_EQ(segment.verify(), "");

  back_all();
  EXPECT_THAT(segment.verify(), ::testing::StartsWith("K7: layer 0")) << "backed, and nobody is charged";
  Promise promise(budget);
  ASSERT_EQ(promise.take(need), Space::kOk);
  segment.commit(run, Purpose::kShared, promise);
  EXPECT_EQ(promise.bytes(), Bytes(0)) << "as much as was needed";
  EXPECT_EQ(segment.need(run), Bytes(0));
  EXPECT_EQ(segment.backed_bytes(Purpose::kShared), segment.backed_bytes());
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, PageTablesAreChargedOnceAndUntilTheEnd) {
  // A table reaches 2 MiB; stripes of 5 MiB do not begin at one.
  port::SimVm port;
  Budget budget(kPlenty);
  {
    Segment segment = reserve(port, budget, group_of(2, 1 << 20), 5);
    ASSERT_EQ(back(segment, 0, 1), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(2 * 4096)) << "1 MiB at 0 and at 5 MiB: one table each";
    ASSERT_EQ(back(segment, 4, 5), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(5 * 4096)) << "10 MiB without a gap: the two stripes share the third";
    ASSERT_EQ(back(segment, 2, 3), Space::kOk);
    EXPECT_EQ(segment.page_table_bytes(), Bytes(5 * 4096)) << "what was reached once stays";
    segment.give_back({0, 5});
    EXPECT_EQ(segment.backed_bytes(), Bytes(0));
    EXPECT_EQ(budget.backed(Purpose::kPageTables), Bytes(5 * 4096)) << "giving back does not free them";
  }
  EXPECT_EQ(budget.backed(), Bytes(0));
}

TEST(Segment, GivesWarmTilesBackFromTheEndUntilThereIsEnough) {
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  ASSERT_EQ(back(segment, 0, 50), Space::kOk);
  segment.set_purpose({0, 10}, Purpose::kWarm);
  segment.set_purpose({20, 30}, Purpose::kWarm);
  const int64_t calls = port.counters().give_back_calls;
  EXPECT_EQ(segment.give_back_warm(Bytes(0)), Bytes(0));
  EXPECT_EQ(segment.give_back_warm(Bytes(2 * 4096 + 1)), Bytes(2 * 2 * 4096));
  EXPECT_EQ(port.counters().give_back_calls, calls + 2) << "one for each layer";
  EXPECT_EQ(segment.purpose(TileIndex(27)), Purpose::kWarm);
  EXPECT_EQ(segment.purpose(TileIndex(28)), std::nullopt);
  EXPECT_EQ(segment.give_back_warm(Bytes(10 * 2 * 4096)), Bytes(10 * 2 * 4096)) << "over the border of two runs";
  EXPECT_EQ(segment.purpose(TileIndex(7)), Purpose::kWarm);
  EXPECT_EQ(segment.give_back_warm(kPlenty), Bytes(8 * 2 * 4096));
  EXPECT_EQ(segment.backed_bytes(), Bytes(30 * 2 * 4096));
  EXPECT_EQ(segment.give_back_warm(kPlenty), Bytes(0));
  EXPECT_EQ(segment.verify(), "");
}

TEST(Segment, TellsWhoListensWhenItBecomesWarm) {
  struct Listener final : WarmListener {
    void became_warm() override { ++times; }
    int times = 0;
  } listener;
  port::SimVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(2, 4096), 100);
  segment.set_warm_listener(&listener);
  ASSERT_EQ(back(segment, 0, 50), Space::kOk);
  EXPECT_EQ(listener.times, 0);
  segment.set_purpose({0, 10}, Purpose::kWarm);
  segment.set_purpose({10, 20}, Purpose::kWarm);
  EXPECT_EQ(listener.times, 1);
  segment.give_back({0, 20});
  segment.set_purpose({20, 21}, Purpose::kWarm);
  EXPECT_EQ(listener.times, 2);
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
    ASSERT_EQ(back(first, 0, 3), Space::kOk);
    ASSERT_EQ(back(second, 0, 4), Space::kOk);
    Segment moved = std::move(first);
    EXPECT_EQ(moved.verify(), "");
    moved = std::move(second);
    EXPECT_EQ(moved.backed_bytes(), Bytes(4 * 2 * 4096));
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
  ASSERT_EQ(back(segment, 0, 1), Space::kOk);
  std::memset(record(segment, 1, 0), 0, 1536);
  ASSERT_EQ(back(segment, 0, 3, Purpose::kShared), Space::kOk);
  const std::byte* base = record(segment, 1, 0);
  EXPECT_TRUE(std::all_of(base, base + 1536, [](std::byte b) { return b == std::byte{0}; })) << "a written tile is left alone";
  EXPECT_TRUE(std::all_of(base + 1536, base + 3 * 1536, [](std::byte b) { return b == std::byte{0xFF}; }));
  segment.set_purpose({0, 1}, Purpose::kWarm);
  ASSERT_EQ(back(segment, 0, 1), Space::kOk);
  EXPECT_TRUE(std::all_of(base, base + 1536, [](std::byte b) { return b == std::byte{0xFF}; })) << "what was warm holds nothing";
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
  ASSERT_EQ(back(segment, 0, 2), Space::kOk);
  ASSERT_EQ(segment.verify(), "");
  *record(segment, 1, 50) = std::byte{1};
  EXPECT_THAT(segment.verify(), ::testing::StartsWith("K7: layer 1: 4096 bytes"));
}

TEST(Segment, OnTheHostMemoryReallyComesAndGoes) {
  if (kProcessHasOtherMemory) GTEST_SKIP() << "a sanitizer's own memory hides the segment's";
  port::PosixVm port;
  Budget budget(kPlenty);
  Segment segment = reserve(port, budget, group_of(30, 24576), 1000);
  const Bytes before = port::process_memory().resident;
  ASSERT_EQ(back(segment, 0, 100), Space::kOk);
  const Bytes grown = port::process_memory().resident - before;
  EXPECT_GE(grown.value, segment.backed_bytes().value * 9 / 10);
  EXPECT_EQ(segment.verify(), "");
  segment.give_back({0, 90});
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
  ASSERT_EQ(back(segment, 0, 200), Space::kOk);
  const Bytes grown = port::process_memory().page_tables - before;
  // The upper levels (a page for each GiB) and what else the process maps meanwhile are slack.
  EXPECT_GE(grown.value, segment.page_table_bytes().value);
  EXPECT_LE(grown.value, segment.page_table_bytes().value + 16 * 4096);
}

}  // namespace
}  // namespace quire::kv
