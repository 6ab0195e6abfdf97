#include "sampling/top_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace quire::sampling {
namespace {

// So many logits are compared at once, without a branch for each.
constexpr size_t kBlock = 64;

bool any_above(const float* logits, float threshold) {
  uint32_t above = 0;
  for (size_t i = 0; i < kBlock; ++i) above |= static_cast<uint32_t>(logits[i] > threshold);
  return above != 0;
}

// Calls visit(logit, id) for every logit of the row above a threshold that visit may raise, in the order of ids.
template <typename Visit>
void visit_above(const AdjustedRow& row, const float& threshold, Visit visit) {
  const auto visit_run = [&](size_t id, size_t end) {
    while (id < end) {
      const size_t block_end = std::min(id + kBlock, end);
      if (block_end - id < kBlock || any_above(&row.logits[id], threshold)) {
        for (size_t i = id; i < block_end; ++i) {
          if (row.logits[i] > threshold) visit(row.logits[i], static_cast<TokenId>(i));
        }
      }
      id = block_end;
    }
  };
  size_t id = 0;
  for (const Candidate& other : row.adjusted) {
    visit_run(id, static_cast<size_t>(other.token));
    if (other.logit > threshold) visit(other.logit, other.token);
    id = static_cast<size_t>(other.token) + 1;
  }
  visit_run(id, row.size());
}

}  // namespace

std::optional<Candidate> first_candidate(const AdjustedRow& row) {
  Candidate first = {-std::numeric_limits<float>::infinity(), 0};
  bool found = false;
  // NaN is above nothing; +infinity and the largest float are the same.
  visit_above(row, first.logit, [&](float logit, TokenId token) {
    if (usable_logit(logit) <= first.logit) return;
    first = {usable_logit(logit), token};
    found = true;
  });
  return found ? std::optional(first) : std::nullopt;
}

TokenId largest_logit(std::span<const float> logits) {
  QUIRE_CHECK(!logits.empty());
  const std::optional<Candidate> first = first_candidate(AdjustedRow{logits});
  return first ? first->token : 0;
}

void select_top(const AdjustedRow& row, size_t count, std::vector<Candidate>& top) {
  top.clear();
  count = std::min(count, row.size());
  if (count == 0) return;
  // Candidates gather until there are twice as many as wanted; then the better half stays and its worst is the new threshold. Later
  // tokens have larger ids, so that one equal to the threshold comes after `count` others.
  const size_t capacity = std::min(2 * count + 64, row.size());
  top.reserve(capacity);
  float threshold = -std::numeric_limits<float>::infinity();
  const auto keep_best = [&] {
    std::nth_element(top.begin(), top.begin() + static_cast<ptrdiff_t>(count - 1), top.end(), comes_before);
    top.resize(count);
    threshold = top.back().logit;
  };
  visit_above(row, threshold, [&](float logit, TokenId token) {
    top.push_back({usable_logit(logit), token});
    if (top.size() == capacity && capacity > count) keep_best();
  });
  if (top.size() > count) keep_best();
  std::sort(top.begin(), top.end(), comes_before);
}

}  // namespace quire::sampling
