#include "sampling/top_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace quire::sampling {

TokenId largest_logit(std::span<const float> logits) {
  QUIRE_CHECK(!logits.empty());
  size_t best = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    // False for NaN; +infinity and the largest float are the same.
    if (logits[i] > largest && usable_logit(logits[i]) > largest) {
      largest = usable_logit(logits[i]);
      best = i;
    }
  }
  return static_cast<TokenId>(best);
}

void select_top(std::span<const float> logits, size_t count, std::vector<Candidate>& top) {
  top.clear();
  if (count == 0) return;
  count = std::min(count, logits.size());
  // Candidates gather until there are twice as many as wanted; then the better half stays and its worst is the new threshold. Later
  // tokens have larger ids, so that one equal to the threshold comes after `count` others.
  const size_t capacity = std::min(2 * count + 64, logits.size());
  top.reserve(capacity);
  float threshold = -std::numeric_limits<float>::infinity();
  const auto keep_best = [&] {
    std::nth_element(top.begin(), top.begin() + static_cast<ptrdiff_t>(count - 1), top.end(), comes_before);
    top.resize(count);
    threshold = top.back().logit;
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > threshold)) continue;
    top.push_back({usable_logit(logits[i]), static_cast<TokenId>(i)});
    if (top.size() == capacity && capacity > count) keep_best();
  }
  if (top.size() > count) keep_best();
  std::sort(top.begin(), top.end(), comes_before);
}

}  // namespace quire::sampling
