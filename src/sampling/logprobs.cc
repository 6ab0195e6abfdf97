#include "sampling/logprobs.h"

#include <limits>

#include "base/check.h"
#include "base/math.h"

namespace quire::sampling {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double logprob(float logit, double normalizer) {
  const double usable = usable_logit(logit);
  return usable == kMinusInfinity ? kMinusInfinity : usable - normalizer;
}

}  // namespace

void LogprobRow::read(std::span<const float> logits, size_t top_count) {
  QUIRE_CHECK(!logits.empty());
  const double largest = usable_logit(logits[static_cast<size_t>(largest_logit(logits))]);
  double sum = 0;
  for (const float logit : logits) {
    const double below = usable_logit(logit) - largest;
    // False also for -infinity and for a row without a largest logit (NaN): such tokens add nothing.
    if (below > -745.0) sum += math::exp(below);
  }
  normalizer_ = largest + math::log(sum);
  select_top(logits, top_count, candidates_);
  top_.clear();
  for (const Candidate& candidate : candidates_) top_.push_back({candidate.token, logprob(candidate.logit, normalizer_)});
}

double LogprobRow::of(std::span<const float> logits, TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= logits.size()) return kMinusInfinity;
  return logprob(logits[static_cast<size_t>(token)], normalizer_);
}

}  // namespace quire::sampling
