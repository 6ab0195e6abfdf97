// The tokens with the largest logits of a row, without sorting the row.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"

namespace quire::sampling {

struct Candidate {
  float logit;
  TokenId token;
};

// The order of candidates everywhere: larger logits first, equal ones by the smaller id.
[[nodiscard]] inline bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// A logit that can be computed with: NaN counts as -infinity, +infinity as the largest float.
[[nodiscard]] inline float usable_logit(float logit) {
  if (logit != logit) return -std::numeric_limits<float>::infinity();
  return logit > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : logit;
}

// The token of the largest logit, the smallest id among equal ones; 0 when every logit is -infinity or NaN. `logits` is not empty.
[[nodiscard]] TokenId largest_logit(std::span<const float> logits);

// Puts the `count` first candidates of the row (all that there are, if fewer) into `top`, in order. Tokens whose logit is -infinity
// or NaN are no candidates. One pass over the row; `top` is also the working space and keeps its capacity, so that a vector used
// again and again is allocated once.
void select_top(std::span<const float> logits, size_t count, std::vector<Candidate>& top);

}  // namespace quire::sampling
