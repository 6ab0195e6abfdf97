// A row of logits in which some are replaced, without a copy of the row: a row has up to a quarter million logits, a request
// changes some hundred of them.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

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

struct AdjustedRow {
  std::span<const float> logits;             // [vocabulary]
  std::span<const Candidate> adjusted = {};  // ascending ids of the vocabulary; their logits stand for the row's

  [[nodiscard]] size_t size() const { return logits.size(); }

  // Calls visit(logit, id) for every token, in the order of ids.
  template <typename Visit>
  void for_each(Visit visit) const {
    size_t id = 0;
    for (const Candidate& other : adjusted) {
      for (const auto end = static_cast<size_t>(other.token); id < end; ++id) visit(logits[id], static_cast<TokenId>(id));
      visit(other.logit, other.token);
      ++id;
    }
    for (; id < logits.size(); ++id) visit(logits[id], static_cast<TokenId>(id));
  }
};

}  // namespace quire::sampling
