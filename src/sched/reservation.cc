#include "sched/reservation.h"

#include <algorithm>
#include <cmath>

namespace quire::sched {

Reservation::Part Reservation::part(const Job& job) const {
  const auto growth = [&](TokenCount from, TokenCount to) {
    return to > from ? static_cast<double>(memory_->growth(from, to).value) : 0.0;
  };
  switch (policy_) {
    case Reserve::kGuaranteed: return {.now = growth(job.held, job.end)};
    case Reserve::kOptimistic: return {.now = growth(job.held, job.known)};
    case Reserve::kExpected: break;
  }
  Part part;
  part.steps = std::max<int64_t>(1, (job.predicted - job.known).value);
  part.now = growth(job.held, job.known);
  part.slope = (growth(job.held, job.predicted) - part.now) / static_cast<double>(part.steps);
  part.gives = job.holds ? growth(job.own, job.held) : 0;
  return part;
}

void Reservation::add(const Job& job) {
  const Part added = part(job);
  sum_ += added.now;
  if (policy_ != Reserve::kExpected) return;
  const auto place = std::upper_bound(parts_.begin(), parts_.end(), added.steps,
                                      [](int64_t steps, const Part& other) { return steps < other.steps; });
  parts_.insert(place, added);
}

Bytes Reservation::with(const Job& candidate) const {
  const Part extra = part(candidate);
  if (policy_ == Reserve::kExpected) return peak(&extra);
  return Bytes(std::llround(sum_ + extra.now));
}

Bytes Reservation::total() const { return policy_ == Reserve::kExpected ? peak(nullptr) : Bytes(std::llround(sum_)); }

Bytes Reservation::peak(const Part* extra) const {
  // From the last end to the first: those after it are alive. What ended jobs give back is what all give back less the living's.
  double now = 0;
  double slope = 0;
  double kept = 0;
  double gives = 0;
  for (const Part& part : parts_) gives += part.gives;
  double most = -1e300;
  const auto live = [&](const Part& part) {
    now += part.now;
    slope += part.slope;
    kept += part.gives;
    most = std::max(most, now + slope * static_cast<double>(part.steps) - (gives - kept));
  };
  if (extra != nullptr) gives += extra->gives;
  for (size_t i = parts_.size(); i-- > 0;) {
    if (extra != nullptr && extra->steps >= parts_[i].steps) {
      live(*extra);
      extra = nullptr;
    }
    live(parts_[i]);
  }
  if (extra != nullptr) live(*extra);
  return Bytes(std::llround(std::max(most, now)));
}

}  // namespace quire::sched
