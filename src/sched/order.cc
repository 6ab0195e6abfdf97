#include "sched/order.h"

#include <algorithm>

namespace quire::sched {

namespace {

// A quarter of the range: differences of two of them have a value.
constexpr int64_t kFarthest = INT64_MAX / 4;

}  // namespace

int64_t aged_arrival(int priority, int64_t arrival_ns, int64_t ageing_ns) {
  int64_t lift = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(priority), ageing_ns, &lift)) lift = priority < 0 ? -kFarthest : kFarthest;
  lift = std::clamp(lift, -kFarthest, kFarthest);
  return std::clamp(std::clamp(arrival_ns, -kFarthest, kFarthest) + lift, -kFarthest, kFarthest);
}

Urgency urgency(const Age& age, double service, const OrderClock& clock) {
  // priority - floor(waited / ageing), from priority x ageing - waited. Rounded up: a level is gained after a whole ageing_ns.
  const int64_t distance = age.aged_arrival_ns - std::clamp(clock.now_ns, -kFarthest, kFarthest);
  const int64_t level = distance / clock.ageing_ns + (distance % clock.ageing_ns > 0 ? 1 : 0);
  return {.level = std::max(level, clock.most_urgent), .service = service, .age = age};
}

}  // namespace quire::sched
