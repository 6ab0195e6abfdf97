// The tokens with the largest logits of a row, without sorting the row.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "sampling/adjusted_row.h"

namespace quire::sampling {

// The first candidate of the row: the largest logit, the smallest id among equal ones. Nothing when every logit is -infinity or
// NaN.
[[nodiscard]] std::optional<Candidate> first_candidate(const AdjustedRow& row);

// Its token; 0 when there is none. `logits` is not empty.
[[nodiscard]] TokenId largest_logit(std::span<const float> logits);

// Puts the `count` first candidates of the row (all that there are, if fewer) into `top`, in order. Tokens whose logit is -infinity
// or NaN are no candidates. One pass over the row; `top` is also the working space and keeps its capacity, so that a vector used
// again and again is allocated once. What it keeps is sorted: `count` is to be small.
void select_top(const AdjustedRow& row, size_t count, std::vector<Candidate>& top);
inline void select_top(std::span<const float> logits, size_t count, std::vector<Candidate>& top) {
  select_top(AdjustedRow{logits}, count, top);
}

}  // namespace quire::sampling
