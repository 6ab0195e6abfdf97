#include "kv/sequence_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "port/fault_vm.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

constexpr Bytes kPlenty{INT64_C(1) << 40};

// Two layers see everything, four a window; their records share granules.
std::vector<LayerGroupSpec> mixed_groups(int64_t window = 100) {
  return {{.name = "window", .layers = {0, 1, 3, 4}, .tile_record = Bytes(6144), .window = window},
          {.name = "full", .layers = {2, 5}, .tile_record = Bytes(8192), .window = {}}};
}

SequenceMemory make(port::Vm& port, Budget& budget, const std::vector<LayerGroupSpec>& groups, int64_t tokens,
                    int64_t quantum = 1) {
  Result<SequenceMemory> memory = SequenceMemory::create(port, budget, groups, TokenCount(tokens), TileCount(quantum));
  QUIRE_CHECK(memory.ok());
  return std::move(memory).value();
}

Space prepare(SequenceMemory& memory, int64_t length) {
  const Result<Space> space = memory.prepare(TokenCount(length));
  QUIRE_CHECK(space.ok());
  return *space;
}

TEST(SequenceMemory, HoldsExactlyWhatThePlannerSays) {
  for (const int64_t window : {1, 31, 32, 33, 100, 1000}) {
    port::SimVm port;
    Budget budget(kPlenty);
    const std::vector<LayerGroupSpec> groups = mixed_groups(window);
    SequenceMemory memory = make(port, budget, groups, 600);
    for (int64_t length = 0; length <= 600; ++length) {
      ASSERT_EQ(prepare(memory, length), Space::kOk);
      memory.trim(TokenCount(length));
      ASSERT_EQ(memory.backed_bytes(), bytes_needed(groups, TokenCount(length), port.granule()))
          << "window " << window << " at " << length;
      ASSERT_EQ(budget.backed(Purpose::kLive), memory.backed_bytes());
      ASSERT_EQ(memory.verify(), "");
    }
  }
}

TEST(SequenceMemory, WhatALaterQuerySeesIsNeverGivenBack) {
  constexpr int64_t kWindow = 70;
  port::SimVm port({.real_memory = true});
  Budget budget(kPlenty);
  SequenceMemory memory = make(port, budget, mixed_groups(kWindow), 500);
  const auto record = [&](int layer, int64_t position) {
    const Stripe stripe = memory.stripe(layer);
    return stripe.base + position / 32 * stripe.tile_stride + position % 32;
  };
  std::mt19937 random(7);
  for (int64_t length = 0; length < 500;) {
    const int64_t chunk = std::min<int64_t>(500 - length, 1 + static_cast<int64_t>(random() % 60));
    ASSERT_EQ(prepare(memory, length + chunk), Space::kOk);
    for (int64_t position = length; position < length + chunk; ++position) {
      for (int layer = 0; layer < 6; ++layer) *record(layer, position) = static_cast<std::byte>(position % 251);
      for (int64_t seen = std::max<int64_t>(0, position - kWindow + 1); seen <= position; ++seen) {
        ASSERT_LE(memory.first_tile(0).value, seen / 32);
        ASSERT_EQ(*record(0, seen), static_cast<std::byte>(seen % 251)) << "query " << position << " sees " << seen;
      }
      for (int64_t seen = 0; seen <= position; ++seen) ASSERT_EQ(*record(5, seen), static_cast<std::byte>(seen % 251));
    }
    length += chunk;
    memory.trim(TokenCount(length));
  }
}

TEST(SequenceMemory, AWindowKeepsLongSequencesSmall) {
  port::PosixVm port;
  Budget budget(kPlenty);
  const std::vector<LayerGroupSpec> groups = {
      {.name = "window", .layers = {0, 1, 2, 3, 4}, .tile_record = Bytes(32768), .window = 512}};
  SequenceMemory memory = make(port, budget, groups, 20'000);
  Bytes most;
  for (int64_t length = 0; length < 20'000; length += 128) {
    ASSERT_EQ(prepare(memory, std::min<int64_t>(length + 128, 20'000)), Space::kOk);
    most = std::max(most, memory.backed_bytes());
    memory.trim(TokenCount(length + 128));
  }
  EXPECT_LE(most, Bytes((512 + 128 + 32) / 32 * 5 * 32768));
  EXPECT_EQ(memory.verify(), "");
}

TEST(SequenceMemory, CountsUsedBytesByTokens) {
  port::SimVm port;
  Budget budget(kPlenty);
  SequenceMemory memory = make(port, budget, mixed_groups(100), 500);
  ASSERT_EQ(prepare(memory, 200), Space::kOk);
  EXPECT_EQ(memory.used_bytes(TokenCount(33)), Bytes(33 * (4 * 192 + 2 * 256)));
  memory.trim(TokenCount(200));  // a query at 200 sees from 101 on: tile 3, position 96
  EXPECT_EQ(memory.used_bytes(TokenCount(200)), Bytes((200 - 96) * 4 * 192 + 200 * 2 * 256));
  EXPECT_LE(memory.used_bytes(TokenCount(200)), memory.backed_bytes());
}

TEST(SequenceMemory, AQuantumBacksAheadWhereThereIsRoom) {
  port::SimVm port;
  const std::vector<LayerGroupSpec> groups = {{.name = "full", .layers = {0, 1}, .tile_record = Bytes(4096), .window = {}}};
  const Bytes tables(4096);
  Budget budget(Bytes(2 * 6 * 4096) + tables);
  SequenceMemory memory = make(port, budget, groups, 10 * 32, 4);
  ASSERT_EQ(prepare(memory, 1), Space::kOk);
  EXPECT_EQ(memory.backed_bytes(), Bytes(2 * 4 * 4096));
  const int64_t calls = port.counters().back_calls;
  ASSERT_EQ(prepare(memory, 4 * 32), Space::kOk);
  EXPECT_EQ(port.counters().back_calls, calls);
  ASSERT_EQ(prepare(memory, 4 * 32 + 1), Space::kOk) << "eight tiles do not fit the budget, five do";
  EXPECT_EQ(memory.backed_bytes(), Bytes(2 * 5 * 4096));
}

TEST(SequenceMemory, ARefusedGroupUndoesTheOthers) {
  port::SimVm port;
  const std::vector<LayerGroupSpec> groups = mixed_groups();
  const Bytes tables(2 * 4096);
  Budget budget(bytes_needed(groups, TokenCount(64), port.granule()) + Bytes(4 * 4096 * 2) + tables);
  SequenceMemory memory = make(port, budget, groups, 1000);
  ASSERT_EQ(prepare(memory, 64), Space::kOk);
  const int64_t calls = port.counters().back_calls;
  EXPECT_EQ(prepare(memory, 65), Space::kNoSpace) << "the windowed group fits, the full one does not";
  EXPECT_EQ(port.counters().back_calls, calls + 4) << "the four windowed layers were backed";
  EXPECT_EQ(memory.backed_bytes(), bytes_needed(groups, TokenCount(64), port.granule()));
  EXPECT_EQ(memory.verify(), "");
}

TEST(SequenceMemory, AnErrorNamesTheGroupAndReturnsTheRest) {
  port::SimVm port({.virtual_limit = Bytes(4 * 6144 * 40)});
  Budget budget(kPlenty);
  const Result<SequenceMemory> memory = SequenceMemory::create(port, budget, mixed_groups(), TokenCount(1000));
  ASSERT_FALSE(memory.ok());
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr("group full"));
  EXPECT_EQ(port.counters().reservations, 0);
}

// --- The port's Nth call fails, for every N, once and from then on ---

// A life of two sequences. Returns how often something was refused.
int live(port::Vm& port, Budget& budget) {
  int refused = 0;
  std::vector<SequenceMemory> sequences;
  for (int which = 0; which < 2; ++which) {
    Result<SequenceMemory> memory = SequenceMemory::create(port, budget, mixed_groups(), TokenCount(400), TileCount(2));
    if (memory.ok()) {
      sequences.push_back(std::move(*memory));
    } else {
      ++refused;
    }
  }
  for (SequenceMemory& memory : sequences) {
    int64_t length = 0;
    for (const int64_t chunk : {10, 50, 100, 1, 31, 200}) {
      const Bytes before = memory.backed_bytes();
      const Result<Space> space = memory.prepare(TokenCount(length + chunk));
      if (space.ok() && *space == Space::kOk) {
        length += chunk;
        memory.trim(TokenCount(length));
      } else {
        ++refused;
        EXPECT_EQ(memory.backed_bytes(), before) << "a refused step leaves the memory as it was";
      }
      EXPECT_EQ(memory.verify(), "");
    }
  }
  return refused;
}

class SequenceMemoryFaultTest : public ::testing::TestWithParam<port::FaultKind> {};

TEST_P(SequenceMemoryFaultTest, EveryCallMayFail) {
  for (const bool forever : {false, true}) {
    for (int64_t nth = 0;; ++nth) {
      SCOPED_TRACE("call " + std::to_string(nth) + (forever ? " and all later ones" : ""));
      port::SimVm inner({.real_memory = true});
      port::FaultyVm port(inner, port::FaultPlan{.nth_call = nth, .forever = forever, .kind = GetParam()});
      Budget budget(kPlenty);
      const int refused = live(port, budget);
      EXPECT_EQ(inner.counters().backed, Bytes(0)) << "leaked";
      EXPECT_EQ(inner.counters().reserved, Bytes(0)) << "leaked";
      EXPECT_EQ(budget.backed() + budget.promised(), Bytes(0)) << "leaked";
      if (port.calls() <= nth) {
        EXPECT_EQ(refused, 0);
        EXPECT_GT(nth, 20) << "the life is too short to show anything";
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SequenceMemoryFaultTest, ::testing::Values(port::FaultKind::kNoMemory, port::FaultKind::kError));

}  // namespace
}  // namespace quire::kv
