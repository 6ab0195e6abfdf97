#include "sampling/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/math.h"
#include "sampling/top_tokens.h"

namespace quire::sampling {
namespace {

// Tokens so far below the largest logit have less than 5e-18 of its probability: fewer than the random number's 53 bits can tell.
constexpr double kNegligibleBelow = 40.0;

// Up to so many tokens one pass over the row that keeps the best is the fastest.
constexpr size_t kSmallTopK = 1024;

double negligible_floor(double largest, double temperature) { return largest - kNegligibleBelow * std::max(1.0, temperature); }

}  // namespace

void Filters::read(const AdjustedRow& row, size_t top_k, double temperature) {
  if (top_k > 0 && top_k <= kSmallTopK) {
    select_top(row, top_k, candidates_);
    if (candidates_.empty()) return;
    const double floor = negligible_floor(candidates_.front().logit, temperature);
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
    return drop_below(floor);
  }
  candidates_.clear();
  const std::optional<Candidate> first = first_candidate(row);
  if (!first) return;
  const double floor = negligible_floor(first->logit, temperature);
  row.for_each([&](float logit, TokenId token) {
    const float usable = usable_logit(logit);
    if (usable >= floor && usable > -std::numeric_limits<float>::infinity()) candidates_.push_back({usable, token});
  });
  keep_top_k(top_k);
}

void Filters::read(std::span<const Candidate> candidates, size_t top_k, double temperature) {
  candidates_.assign(candidates.begin(), candidates.end());
  drop_below(negligible_floor(largest(), temperature));
  keep_top_k(top_k);
}

double Filters::largest() const {
  QUIRE_CHECK(!candidates_.empty());
  float largest = candidates_.front().logit;
  for (const Candidate& candidate : candidates_) largest = std::max(largest, candidate.logit);
  return largest;
}

void Filters::drop_below(double floor) {
  std::erase_if(candidates_, [floor](const Candidate& candidate) { return candidate.logit < floor; });
}

// weights_: e^((logit - largest) / temperature); their sum, which is at least 1.
double Filters::weigh(double temperature) {
  const double highest = largest();
  weights_.clear();
  double total = 0;
  for (const Candidate& candidate : candidates_) {
    const double weight = math::exp((candidate.logit - highest) / temperature);
    weights_.push_back(weight);
    total += weight;
  }
  return total;
}

void Filters::key_by_logit() {
  keys_.clear();
  for (const Candidate& candidate : candidates_) keys_.push_back(ascending_key(candidate.logit));
}

void Filters::keep(MassSelection selection) {
  size_t kept = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (selection.take(keys_[i])) candidates_[kept++] = candidates_[i];
  }
  candidates_.resize(kept);
}

void Filters::keep_top_k(size_t top_k) {
  if (top_k == 0 || top_k >= candidates_.size()) return;
  key_by_logit();
  weights_.assign(candidates_.size(), 1);
  keep(selector_.select(keys_, weights_, static_cast<double>(top_k)));
}

void Filters::keep_typical(double typical_p) {
  const double total = weigh(1);
  const double log_total = math::log(total);
  const double highest = largest();
  const auto surprise = [&](const Candidate& candidate) { return log_total - (candidate.logit - highest); };
  double entropy = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) entropy += weights_[i] / total * surprise(candidates_[i]);
  keys_.clear();
  for (const Candidate& candidate : candidates_) {
    keys_.push_back(~ascending_key(static_cast<float>(std::abs(surprise(candidate) - entropy))));
  }
  keep(selector_.select(keys_, weights_, typical_p * total));
}

void Filters::keep_top_p(double top_p) {
  const double total = weigh(1);
  key_by_logit();
  keep(selector_.select(keys_, weights_, top_p * total));
}

void Filters::keep_min_p(double min_p) { drop_below(largest() + math::log(min_p)); }

TokenId Filters::draw(double temperature, double uniform) {
  const double target = uniform * weigh(temperature);
  // The first whose running sum exceeds the target; rounding may put the target on the total itself, which is the last token's.
  double sum = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    sum += weights_[i];
    if (sum > target) return candidates_[i].token;
  }
  return candidates_.back().token;
}

}  // namespace quire::sampling
