#include "sched/order.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire::sched {
namespace {

constexpr int64_t kAgeing = 10;

Urgency of(int priority, int64_t arrival, double service, int64_t now, int64_t most_urgent = -100, int64_t id = 1) {
  return urgency({.aged_arrival_ns = aged_arrival(priority, arrival, kAgeing), .id = JobId(id)}, service,
                 {.now_ns = now, .ageing_ns = kAgeing, .most_urgent = most_urgent});
}

TEST(Order, PriorityGoesBeforeServiceBeforeAgeBeforeId) {
  EXPECT_LT(of(0, 5, 100, 5), of(1, 5, 0, 5));
  EXPECT_LT(of(0, 5, 1, 5), of(0, 3, 2, 5));
  EXPECT_LT(of(0, 3, 1, 5), of(0, 4, 1, 5));
  EXPECT_LT(of(0, 3, 1, 5, -100, 1), of(0, 3, 1, 5, -100, 2));
  EXPECT_FALSE(of(0, 3, 1, 5) < of(0, 3, 1, 5));
}

TEST(Order, WaitingAgeingNsIsWorthOneLevel) {
  EXPECT_EQ(of(3, 0, 0, 0).level, 3);
  EXPECT_EQ(of(3, 0, 0, 9).level, 3);
  EXPECT_EQ(of(3, 0, 0, 10).level, 2);
  EXPECT_EQ(of(3, 0, 0, 29).level, 1);
  EXPECT_EQ(of(3, 0, 0, 30).level, 0);
  EXPECT_EQ(of(-2, 0, 0, 10).level, -3);
  // An arrival that the clock has not reached yet.
  EXPECT_EQ(of(0, 25, 0, 0).level, 3);
}

TEST(Order, AgeingLiftsNobodyAboveTheMostUrgentPriority) {
  // So a long queue of one tenant that has waited long does not pass the first job of another.
  EXPECT_EQ(of(0, 0, 0, 1000, 0).level, 0);
  EXPECT_LT(of(0, 999, 1, 1000, 0), of(0, 0, 2, 1000, 0));
  EXPECT_EQ(of(5, 0, 0, 1000, 2).level, 2);
}

TEST(Order, ExtremePrioritiesAndTimesKeepTheirOrder) {
  constexpr int64_t kDay = 86'400'000'000'000;
  const int least = std::numeric_limits<int>::min();
  const int most = std::numeric_limits<int>::max();
  EXPECT_LT(aged_arrival(least, kDay, kDay), aged_arrival(0, kDay, kDay));
  EXPECT_LT(aged_arrival(0, kDay, kDay), aged_arrival(most, kDay, kDay));
  for (const int priority : {least, 0, most}) {
    for (const int64_t time : {INT64_MIN, int64_t{0}, INT64_MAX}) {
      const Age age{.aged_arrival_ns = aged_arrival(priority, time, INT64_MAX), .id = JobId(1)};
      for (const int64_t now : {INT64_MIN, int64_t{0}, INT64_MAX}) {
        EXPECT_GE(urgency(age, 0, {.now_ns = now, .ageing_ns = 1, .most_urgent = least}).level, least);
      }
    }
  }
}

}  // namespace
}  // namespace quire::sched
