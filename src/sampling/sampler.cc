#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "sampling/filters.h"
#include "sampling/random.h"
#include "sampling/top_tokens.h"

namespace quire::sampling {
namespace {

Status check_range(bool in_range, const char* name, double value, const char* range) {
  if (in_range) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is {}: it must be {}", name, value, range));
}

bool id_below(const LogitBias& a, const LogitBias& b) { return a.token < b.token; }

std::vector<LogitBias> in_order_of_ids(std::vector<LogitBias> biases) {
  std::sort(biases.begin(), biases.end(), id_below);
  return biases;
}

Status validate_biases(const std::vector<LogitBias>& biases, int64_t vocabulary) {
  for (const auto& [token, bias] : biases) {
    if (token < 0 || token >= vocabulary) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("logit_bias names token {}: ids go from 0 to {}", token, vocabulary - 1));
    }
    if (!(bias >= kBanned && bias <= kForced)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("logit_bias of token {} is {}: it must be between -100 (never) and 100 (only it)", token, bias));
    }
  }
  const std::vector<LogitBias> ordered = in_order_of_ids(biases);
  const auto twice = std::adjacent_find(ordered.begin(), ordered.end(), [](auto a, auto b) { return a.token == b.token; });
  if (twice == ordered.end()) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("logit_bias names token {} more than once", twice->token));
}

// The working space of a row: one for all samplers of a thread, because it is as large as a vocabulary.
Filters& shared_filters() {
  thread_local Filters filters;
  return filters;
}

// A usable logit never becomes infinite: a token that is penalized is still there.
float finite(double logit) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kLargest, kLargest));
}

// Walks a list in the order of ids beside others.
template <typename Entry>
class Walk {
 public:
  explicit Walk(std::span<const Entry> entries) : entries_(entries) {}
  [[nodiscard]] int64_t id() const { return entries_.empty() ? INT64_MAX : entries_.front().token; }
  // The entry of that id, if it has one; the walk then goes on to the next.
  const Entry* take(int64_t id) {
    if (this->id() != id) return nullptr;
    const Entry* entry = &entries_.front();
    entries_ = entries_.subspan(1);
    return entry;
  }

 private:
  std::span<const Entry> entries_;
};

}  // namespace

Status validate(const SamplingParameters& p, int64_t vocabulary) {
  QUIRE_TRY_STATUS(check_range(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", p.temperature, "0 or more"));
  QUIRE_TRY_STATUS(check_range(p.top_k >= 0, "top_k", p.top_k, "0 (off) or more"));
  QUIRE_TRY_STATUS(check_range(p.typical_p > 0 && p.typical_p <= 1, "typical_p", p.typical_p, "above 0 and at most 1 (off)"));
  QUIRE_TRY_STATUS(check_range(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0 and at most 1 (off)"));
  QUIRE_TRY_STATUS(check_range(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "between 0 (off) and 1"));
  QUIRE_TRY_STATUS(check_range(std::isfinite(p.repeat_penalty) && p.repeat_penalty > 0, "repeat_penalty", p.repeat_penalty,
                               "above 0 (1 is off)"));
  QUIRE_TRY_STATUS(check_range(p.repeat_last_n >= -1, "repeat_last_n", p.repeat_last_n, "-1 (all), 0 (off) or more"));
  QUIRE_TRY_STATUS(check_range(p.frequency_penalty >= -2 && p.frequency_penalty <= 2, "frequency_penalty", p.frequency_penalty,
                               "between -2 and 2 (0 is off)"));
  QUIRE_TRY_STATUS(check_range(p.presence_penalty >= -2 && p.presence_penalty <= 2, "presence_penalty", p.presence_penalty,
                               "between -2 and 2 (0 is off)"));
  return validate_biases(p.logit_bias, vocabulary);
}

Sampler::Sampler(const SamplingParameters& parameters, uint32_t choice)
    : parameters_(parameters), choice_(choice), biases_(in_order_of_ids(parameters.logit_bias)) {
  QUIRE_CHECK(validate(parameters).ok(), "sampling parameters were not validated");
}

TokenId Sampler::sample(std::span<const float> logits, TokenPos position, std::span<const TokenId> history, TokenCount prompt) {
  QUIRE_CHECK(!logits.empty());
  count_history(history, prompt);
  adjust(logits);
  return choose({logits, adjusted_}, position).value_or(first_allowed(logits.size()));
}

void Sampler::count_history(std::span<const TokenId> history, TokenCount prompt) {
  const SamplingParameters& p = parameters_;
  if (p.repeat_penalty != 1) {
    const size_t last = p.repeat_last_n < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(p.repeat_last_n));
    recent_.update(history.last(last));
  }
  if (p.frequency_penalty != 0 || p.presence_penalty != 0) {
    const auto first = static_cast<size_t>(std::max<int64_t>(prompt.value, 0));
    reply_.update(history.subspan(std::min(history.size(), first)));
  }
}

// Fills adjusted_ and forced_ from the three lists of tokens, which are all in the order of ids.
void Sampler::adjust(std::span<const float> logits) {
  adjusted_.clear();
  forced_.clear();
  Walk biases{std::span<const LogitBias>(biases_)};
  Walk recent{recent_.counts()};
  Walk reply{reply_.counts()};
  while (true) {
    const int64_t id = std::min({biases.id(), recent.id(), reply.id()});
    if (id >= static_cast<int64_t>(logits.size())) return;
    const LogitBias* bias = biases.take(id);
    const TokenCountEntry* repeated = recent.take(id);
    const TokenCountEntry* replied = reply.take(id);
    if (id < 0) continue;
    const auto token = static_cast<TokenId>(id);
    double logit = usable_logit(logits[static_cast<size_t>(id)]);
    const bool usable = logit > -std::numeric_limits<double>::infinity();
    if (bias != nullptr) logit += bias->bias;
    if (repeated != nullptr) logit = logit > 0 ? logit / parameters_.repeat_penalty : logit * parameters_.repeat_penalty;
    if (replied != nullptr) logit -= replied->count * parameters_.frequency_penalty + parameters_.presence_penalty;
    const bool candidate = usable && (bias == nullptr || bias->bias > kBanned);
    adjusted_.push_back({candidate ? finite(logit) : -std::numeric_limits<float>::infinity(), token});
    if (candidate && bias != nullptr && bias->bias >= kForced) forced_.push_back(adjusted_.back());
  }
}

std::optional<TokenId> Sampler::choose(const AdjustedRow& row, TokenPos position) const {
  const SamplingParameters& p = parameters_;
  if (p.temperature == 0) {
    const auto first =
        forced_.empty() ? first_candidate(row) : std::optional(*std::min_element(forced_.begin(), forced_.end(), comes_before));
    return first ? std::optional(first->token) : std::nullopt;
  }
  Filters& filters = shared_filters();
  if (forced_.empty()) {
    filters.read(row, static_cast<size_t>(p.top_k), p.temperature);
  } else {
    filters.read(forced_, static_cast<size_t>(p.top_k), p.temperature);
  }
  if (filters.candidates().empty()) return std::nullopt;
  if (p.typical_p < 1) filters.keep_typical(p.typical_p);
  if (p.top_p < 1) filters.keep_top_p(p.top_p);
  if (p.min_p > 0) filters.keep_min_p(p.min_p);
  return filters.draw(p.temperature, uniform_at(p.seed, choice_, position));
}

TokenId Sampler::first_allowed(size_t vocabulary) const {
  TokenId token = 0;
  for (const LogitBias& bias : biases_) {
    if (bias.bias <= kBanned && bias.token == token) ++token;
  }
  return static_cast<size_t>(token) < vocabulary ? token : 0;
}

}  // namespace quire::sampling
