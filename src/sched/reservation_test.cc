#include "sched/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sched/naive_engine.h"
#include "tests/support/random.h"

namespace quire::sched {
namespace {

Reservation::Job job(int64_t held, int64_t known, int64_t end, int64_t predicted, int64_t own = 0) {
  return {.held = TokenCount(held),
          .known = TokenCount(known),
          .end = TokenCount(end),
          .predicted = TokenCount(predicted),
          .own = TokenCount(own)};
}

TEST(Reservation, GuaranteedAndOptimisticAreSums) {
  const NaiveMemory memory(0, 1);
  Reservation guaranteed(Reserve::kGuaranteed, memory);
  Reservation optimistic(Reserve::kOptimistic, memory);
  for (Reservation* each : {&guaranteed, &optimistic}) {
    each->add(job(10, 50, 200, 60));
    each->add(job(70, 71, 100, 90));
  }
  EXPECT_EQ(guaranteed.total(), Bytes(190 + 30));
  EXPECT_EQ(guaranteed.with(job(0, 5, 25, 9)), Bytes(190 + 30 + 25));
  EXPECT_EQ(optimistic.total(), Bytes(40 + 1));
  EXPECT_EQ(optimistic.with(job(0, 5, 25, 9)), Bytes(40 + 1 + 5));
}

TEST(Reservation, ExpectedIsThePeakOfTheFuture) {
  const NaiveMemory memory(0, 1);
  Reservation expected(Reserve::kExpected, memory);
  // Two that grow for 10 and for 100 steps: the peak is at the end of one of them.
  expected.add(job(100, 101, 1000, 111));
  EXPECT_EQ(expected.total(), Bytes(11));
  expected.add(job(50, 51, 1000, 151));
  // At step 10: 11 + 11. At step 100: 101, less the 100 that the first has given back.
  EXPECT_EQ(expected.total(), Bytes(22));
  // When it gives back nothing, as others share it, the second peak is the higher one.
  Reservation shared(Reserve::kExpected, memory);
  shared.add(job(100, 101, 1000, 111, 100));
  shared.add(job(50, 51, 1000, 151));
  EXPECT_EQ(shared.total(), Bytes(101));
}

// The peak step by step.
int64_t naive_peak(const std::vector<Reservation::Job>& jobs) {
  int64_t most = 0;
  for (int64_t step = 0; step <= 300; ++step) {
    int64_t sum = 0;
    for (const Reservation::Job& each : jobs) {
      const int64_t steps = std::max<int64_t>(1, (each.predicted - each.known).value);
      const bool alive = steps >= step;
      if (alive) sum += (each.known - each.held).value + step;
      if (!alive && each.holds) sum -= (each.held - each.own).value;
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(Reservation, ExpectedEqualsAWalkThroughAllSteps) {
  const NaiveMemory memory(0, 1);
  test_support::Random random(3);
  for (int round = 0; round < 300; ++round) {
    Reservation reservation(Reserve::kExpected, memory);
    std::vector<Reservation::Job> jobs;
    for (uint32_t count = random.below(12); count > 0; --count) {
      const int64_t held = random.below(500);
      const int64_t known = held + 1 + random.below(300);
      Reservation::Job added =
          job(held, known, known + 300, known + 1 + random.below(299), random.below(static_cast<uint32_t>(held) + 1));
      added.holds = random.below(4) > 0;
      ASSERT_EQ(jobs.empty() ? 0 : reservation.total().value, naive_peak(jobs)) << "round " << round;
      jobs.push_back(added);
      ASSERT_EQ(reservation.with(added).value, naive_peak(jobs)) << "round " << round;
      reservation.add(added);
    }
  }
}

}  // namespace
}  // namespace quire::sched
