// The order among jobs: how priority, age and tenant combine. One function, here (docs/scheduling.md explains it).
//
//   1. level     the priority, lifted by one level for every `ageing_ns` of waiting, but never above the most urgent priority that
//                anybody has now: ageing ends starvation, it does not let a long queue of one tenant pass another tenant
//   2. service   the virtual time of the tenant: tokens computed for it / its weight; the one that has had least goes first
//   3. age       the arrival, earlier by `ageing_ns` for each level of priority
//   4. the id
//
// Inside a tenant only the age decides, which does not change with time; so a tenant's jobs can be kept sorted.
//
// Source of 2: weighted fair queueing by start times (Goyal, Vin, Cheng, "Start-time fair queuing", 1996).
#pragma once

#include <cstdint>
#include <tuple>

#include "sched/scheduler.h"

namespace quire::sched {

// arrival + priority x ageing, where that has a value, otherwise the nearest one that leaves room for arithmetic.
[[nodiscard]] int64_t aged_arrival(int priority, int64_t arrival_ns, int64_t ageing_ns);

// The order inside a tenant.
struct Age {
  int64_t aged_arrival_ns = 0;
  JobId id;

  friend auto operator<=>(const Age&, const Age&) = default;
};

// The order among all: the smallest is the most urgent.
struct Urgency {
  int64_t level = 0;
  double service = 0;
  Age age;

  friend bool operator<(const Urgency& a, const Urgency& b) {
    return std::tie(a.level, a.service, a.age) < std::tie(b.level, b.service, b.age);
  }
};

struct OrderClock {
  int64_t now_ns = 0;
  int64_t ageing_ns = 1;
  int64_t most_urgent = 0;  // the smallest priority of all jobs that there are
};

// The function. `service` is the virtual time of the job's tenant.
[[nodiscard]] Urgency urgency(const Age& age, double service, const OrderClock& clock);

}  // namespace quire::sched
