#include "engine/memory_ceiling.h"

#include <gtest/gtest.h>

#include "port/sim_vm.h"

namespace quire::engine {
namespace {

constexpr Bytes mib(int64_t count) { return Bytes(count << 20); }

struct Machine {
  std::optional<Bytes> left = mib(1000);
  Bytes resident = mib(100);
  double pressure = 0;

  [[nodiscard]] MemorySource source() {
    return {.left = [this] { return left; }, .resident = [this] { return resident; }, .pressure = [this] { return pressure; }};
  }
  // The process takes memory from what is left.
  void take(Bytes bytes) {
    *left -= bytes;
    resident += bytes;
  }
};

TEST(MemoryCeiling, LeavesWorkingMemoryAndAMargin) {
  Machine machine;
  const MemoryCeiling ceiling(machine.source(), mib(50), Bytes(0), std::nullopt);
  EXPECT_EQ(ceiling.now(Bytes(0)), mib(950) - automatic_margin(mib(950)) - kRunningMargin);
  EXPECT_EQ(ceiling.at_start(), mib(950) - automatic_margin(mib(950)) - kMemoryMargin);
}

TEST(MemoryCeiling, StaysWhenTheCacheGrowsAndWhenWorkingMemoryIsTouched) {
  Machine machine;
  const MemoryCeiling ceiling(machine.source(), mib(50), Bytes(0), std::nullopt);
  const Bytes before = ceiling.now(Bytes(0));
  machine.take(mib(300));  // the cache
  EXPECT_EQ(ceiling.now(mib(300)), before);
  machine.take(mib(20));
  EXPECT_EQ(ceiling.now(mib(300)), before);
  machine.take(mib(30));
  EXPECT_EQ(ceiling.now(mib(300)), before);
}

TEST(MemoryCeiling, FallsWhenTheProcessTakesMoreThanItSaid) {
  Machine machine;
  const MemoryCeiling ceiling(machine.source(), mib(50), Bytes(0), mib(2000));
  const Bytes before = ceiling.now(Bytes(0));
  machine.take(mib(60));
  EXPECT_EQ(ceiling.now(Bytes(0)), before - mib(10));
}

TEST(MemoryCeiling, FollowsOthersDownAndUp) {
  Machine machine;
  const MemoryCeiling ceiling(machine.source(), mib(50), Bytes(0), mib(800));
  EXPECT_EQ(ceiling.now(Bytes(0)), mib(800));
  machine.left = mib(500);
  EXPECT_EQ(ceiling.now(Bytes(0)), mib(450) - kRunningMargin);
  EXPECT_EQ(ceiling.now(mib(100)), mib(550) - kRunningMargin);
  machine.left = mib(10);
  EXPECT_EQ(ceiling.now(Bytes(0)), Bytes(0));
  machine.left = mib(5000);
  EXPECT_EQ(ceiling.now(Bytes(0)), mib(800));
}

TEST(MemoryCeiling, UnderPressureNothingGrows) {
  Machine machine;
  const MemoryCeiling ceiling(machine.source(), mib(50), Bytes(0), mib(500));
  machine.take(mib(200));
  EXPECT_EQ(ceiling.now(mib(200)), mib(500));
  machine.pressure = kHighPressure;
  EXPECT_EQ(ceiling.now(mib(200)), mib(200));
  *machine.left = mib(100);
  EXPECT_LT(ceiling.now(mib(200)), mib(300));
  machine.pressure = kHighPressure / 2;
  EXPECT_GT(ceiling.now(mib(200)), mib(200));
}

TEST(MemoryCeiling, WithoutABoundOnlyWhatWasAskedFor) {
  Machine machine;
  machine.left.reset();
  EXPECT_EQ(MemoryCeiling(machine.source(), mib(50), Bytes(0), mib(64)).now(Bytes(0)), mib(64));
  EXPECT_EQ(MemoryCeiling(machine.source(), mib(50), Bytes(0), std::nullopt).now(Bytes(0)), Bytes(INT64_MAX));
}

TEST(Reservable, IsWhatThePortHandsOut) {
  port::SimVm vm({.virtual_limit = mib(777)});
  EXPECT_EQ(reservable(vm, mib(500)), mib(500));
  const Bytes most = reservable(vm, mib(5000));
  EXPECT_LE(most, mib(777));
  EXPECT_GE(most, mib(775));
  EXPECT_EQ(vm.counters().reserved, Bytes(0));
}

TEST(MemoryCeiling, OfThisProcessIsPositive) {
  const MemoryCeiling ceiling(this_process(), Bytes(0), Bytes(0), mib(1));
  EXPECT_EQ(ceiling.now(Bytes(0)), mib(1));
}

}  // namespace
}  // namespace quire::engine
