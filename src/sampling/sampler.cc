#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "sampling/random.h"

namespace quire::sampling {
namespace {

// Tokens so far below the largest logit have less than 5e-18 of its probability: fewer than the random number's 53 bits can tell.
constexpr double kNegligibleBelow = 40.0;

Status check_range(bool in_range, const char* name, double value, const char* range) {
  if (in_range) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is {}: it must be {}", name, value, range));
}

}  // namespace

Status validate(const SamplingParameters& p) {
  QUIRE_TRY_STATUS(check_range(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", p.temperature, "0 or more"));
  QUIRE_TRY_STATUS(check_range(p.top_k >= 0, "top_k", p.top_k, "0 (off) or more"));
  QUIRE_TRY_STATUS(check_range(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0 and at most 1 (off)"));
  QUIRE_TRY_STATUS(check_range(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "between 0 (off) and 1"));
  QUIRE_TRY_STATUS(check_range(std::isfinite(p.repeat_penalty) && p.repeat_penalty > 0, "repeat_penalty", p.repeat_penalty,
                               "above 0 (1 is off)"));
  return check_range(p.repeat_last_n >= -1, "repeat_last_n", p.repeat_last_n, "-1 (all), 0 (off) or more");
}

Sampler::Sampler(const SamplingParameters& parameters, uint32_t choice) : parameters_(parameters), choice_(choice) {
  QUIRE_CHECK(validate(parameters).ok(), "sampling parameters were not validated");
}

TokenId Sampler::sample(std::span<const float> logits, TokenPos position, std::span<const TokenId> history) {
  QUIRE_CHECK(!logits.empty());
  const std::span<const float> row = penalized(logits, history);
  if (parameters_.temperature == 0) return largest_logit(row);
  gather_candidates(row);
  if (candidates_.empty()) return 0;
  if (parameters_.top_p < 1) keep_top_p();
  if (parameters_.min_p > 0) keep_min_p();
  return draw(position);
}

std::span<const float> Sampler::penalized(std::span<const float> logits, std::span<const TokenId> history) {
  if (parameters_.repeat_last_n >= 0) {
    history = history.last(std::min(history.size(), static_cast<size_t>(parameters_.repeat_last_n)));
  }
  if (parameters_.repeat_penalty == 1 || history.empty()) return logits;
  recent_.assign(history.begin(), history.end());
  std::sort(recent_.begin(), recent_.end());
  recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
  penalized_.assign(logits.begin(), logits.end());
  for (const TokenId token : recent_) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    float& logit = penalized_[static_cast<size_t>(token)];
    const auto penalty = static_cast<float>(parameters_.repeat_penalty);
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
  return penalized_;
}

// Leaves the candidates of the row in order after top-k, else by id.
void Sampler::gather_candidates(std::span<const float> logits) {
  const auto top_k = static_cast<size_t>(parameters_.top_k);
  if (top_k > 0 && top_k < logits.size()) return select_top(logits, top_k, candidates_);
  candidates_.clear();
  const double largest = usable_logit(logits[static_cast<size_t>(largest_logit(logits))]);
  const double floor = largest - kNegligibleBelow * std::max(1.0, parameters_.temperature);
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = usable_logit(logits[i]);
    if (logit >= floor && logit > -std::numeric_limits<float>::infinity()) {
      candidates_.push_back({logit, static_cast<TokenId>(i)});
    }
  }
}

// Orders the candidates only as far as the sum needs: blocks that grow fourfold are selected from the rest and sorted.
void Sampler::keep_top_p() {
  const auto begin = candidates_.begin();
  const double largest = std::max_element(begin, candidates_.end(), [](auto a, auto b) { return a.logit < b.logit; })->logit;
  double total = 0;
  for (const Candidate& candidate : candidates_) total += math::exp(candidate.logit - largest);
  const double wanted = parameters_.top_p * total;
  double sum = 0;
  size_t sorted = 0;
  size_t block = 128;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(candidates_.size(), sorted + block);
      block *= 4;
      const auto end_of_block = begin + static_cast<ptrdiff_t>(sorted);
      const auto start = begin + static_cast<ptrdiff_t>(i);
      if (end_of_block != candidates_.end()) std::nth_element(start, end_of_block, candidates_.end(), comes_before);
      std::sort(start, end_of_block, comes_before);
    }
    sum += math::exp(candidates_[i].logit - largest);
    if (sum >= wanted) return candidates_.resize(i + 1);
  }
}

void Sampler::keep_min_p() {
  double largest = candidates_.front().logit;
  for (const Candidate& candidate : candidates_) largest = std::max<double>(largest, candidate.logit);
  const double floor = largest + math::log(parameters_.min_p);
  std::erase_if(candidates_, [floor](const Candidate& candidate) { return candidate.logit < floor; });
}

TokenId Sampler::draw(TokenPos position) {
  double largest = candidates_.front().logit;
  for (const Candidate& candidate : candidates_) largest = std::max<double>(largest, candidate.logit);
  weights_.clear();
  double total = 0;
  for (const Candidate& candidate : candidates_) {
    total += math::exp((candidate.logit - largest) / parameters_.temperature);
    weights_.push_back(total);
  }
  const double target = uniform_at(parameters_.seed, choice_, position) * total;
  // The first whose running sum exceeds the target; rounding may put the target on the total itself, which is the last token's.
  const auto found = std::upper_bound(weights_.begin(), weights_.end(), target);
  const size_t index = std::min(static_cast<size_t>(found - weights_.begin()), candidates_.size() - 1);
  return candidates_[index].token;
}

}  // namespace quire::sampling
