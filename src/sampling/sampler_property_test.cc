// The sampler against the plainest version of its header's text, on many small rows with ties and odd numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/math.h"
#include "sampling/random.h"
#include "sampling/sampler.h"

namespace quire::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The first `count` of what is in order whose probabilities sum to `wanted` of all, back in the order of ids.
void keep_mass(std::vector<Candidate>& ordered, double largest, double wanted) {
  double total = 0;
  for (const Candidate& candidate : ordered) total += math::exp(candidate.logit - largest);
  double sum = 0;
  size_t count = 0;
  while (count < ordered.size() && sum < wanted * total) sum += math::exp(ordered[count++].logit - largest);
  ordered.resize(count);
}

double largest_of(const std::vector<Candidate>& candidates) {
  return std::min_element(candidates.begin(), candidates.end(), comes_before)->logit;
}

void sort_by_id(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](auto a, auto b) { return a.token < b.token; });
}

void naive_typical(std::vector<Candidate>& candidates, double typical_p) {
  const double largest = largest_of(candidates);
  double total = 0;
  for (const Candidate& candidate : candidates) total += math::exp(candidate.logit - largest);
  double entropy = 0;
  const auto surprise = [&](const Candidate& candidate) { return math::log(total) - (candidate.logit - largest); };
  for (const Candidate& candidate : candidates) entropy += math::exp(candidate.logit - largest) / total * surprise(candidate);
  const auto distance = [&](const Candidate& candidate) { return static_cast<float>(std::abs(surprise(candidate) - entropy)); };
  std::stable_sort(candidates.begin(), candidates.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
  keep_mass(candidates, largest, typical_p);
  sort_by_id(candidates);
}

struct Row {
  std::vector<float> logits;
  std::vector<TokenId> history;
  size_t prompt = 0;
};

std::vector<Candidate> naive_adjusted(const SamplingParameters& p, const Row& row) {
  std::map<TokenId, double> bias;
  for (const auto& [token, value] : p.logit_bias) bias[token] = value;
  std::vector<Candidate> candidates;
  std::vector<Candidate> forced;
  const size_t last = p.repeat_last_n < 0 ? row.history.size() : std::min(row.history.size(), size_t(p.repeat_last_n));
  for (size_t i = 0; i < row.logits.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    double logit = usable_logit(row.logits[i]);
    if (std::isinf(logit) || (bias.contains(token) && bias[token] == kBanned)) continue;
    if (bias.contains(token)) logit += bias[token];
    if (std::count(row.history.end() - ptrdiff_t(last), row.history.end(), token) > 0) {
      logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    }
    const auto count = std::count(row.history.begin() + ptrdiff_t(row.prompt), row.history.end(), token);
    if (count > 0) logit -= static_cast<double>(count) * p.frequency_penalty + p.presence_penalty;
    constexpr double kLargest = std::numeric_limits<float>::max();
    candidates.push_back({static_cast<float>(std::clamp(logit, -kLargest, kLargest)), token});
    if (bias.contains(token) && bias[token] == kForced) forced.push_back(candidates.back());
  }
  return forced.empty() ? candidates : forced;
}

// Nothing: there is no candidate.
std::optional<TokenId> naive_sample(const SamplingParameters& p, const Row& row, TokenPos position) {
  std::vector<Candidate> candidates = naive_adjusted(p, row);
  if (candidates.empty()) return std::nullopt;
  std::sort(candidates.begin(), candidates.end(), comes_before);
  if (p.temperature == 0) return candidates.front().token;
  const double floor = candidates.front().logit - 40 * std::max(1.0, p.temperature);
  std::erase_if(candidates, [&](auto candidate) { return candidate.logit < floor; });
  if (p.top_k > 0 && size_t(p.top_k) < candidates.size()) candidates.resize(size_t(p.top_k));
  sort_by_id(candidates);
  if (p.typical_p < 1) naive_typical(candidates, p.typical_p);
  if (p.top_p < 1) {
    std::sort(candidates.begin(), candidates.end(), comes_before);
    keep_mass(candidates, candidates.front().logit, p.top_p);
    sort_by_id(candidates);
  }
  const double largest = largest_of(candidates);
  if (p.min_p > 0) std::erase_if(candidates, [&](auto candidate) { return candidate.logit < largest + math::log(p.min_p); });
  double total = 0;
  for (const Candidate& candidate : candidates) total += math::exp((candidate.logit - largest_of(candidates)) / p.temperature);
  const double target = uniform_at(p.seed, 0, position) * total;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += math::exp((candidate.logit - largest_of(candidates)) / p.temperature);
    if (sum > target) return candidate.token;
  }
  return candidates.back().token;
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t bound) { return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_); }
  bool one_in(int64_t count) { return below(count) == 0; }
  double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  SamplingParameters parameters(int64_t vocabulary) {
    SamplingParameters p;
    p.temperature = one_in(6) ? 0 : one_in(10) ? 1e6 : one_in(10) ? 1e-6 : between(0.1, 3);
    p.top_k = one_in(2) ? 0 : one_in(3) ? 1000000 : static_cast<int32_t>(1 + below(vocabulary + 2));
    p.typical_p = one_in(2) ? 1 : one_in(8) ? 5e-324 : between(0.01, 1);
    p.top_p = one_in(2) ? 1 : one_in(8) ? 5e-324 : between(0.01, 1);
    p.min_p = one_in(2) ? 0 : one_in(8) ? 1 : between(0, 0.5);
    p.repeat_penalty = one_in(2) ? 1 : one_in(8) ? 1e308 : between(0.5, 2);
    p.repeat_last_n = static_cast<int32_t>(below(12)) - 1;
    p.frequency_penalty = one_in(2) ? 0 : between(-2, 2);
    p.presence_penalty = one_in(2) ? 0 : between(-2, 2);
    if (one_in(2)) {
      for (TokenId token = 0; token < vocabulary + 2; ++token) {
        if (!one_in(4)) continue;
        p.logit_bias.push_back({token, one_in(3) ? kBanned : one_in(12) ? kForced : between(-10, 10)});
      }
      std::shuffle(p.logit_bias.begin(), p.logit_bias.end(), random_);
    }
    p.seed = random_();
    return p;
  }

  Row row(int64_t vocabulary) {
    Row row;
    const bool odd_numbers = one_in(4);
    const bool only_odd = one_in(12);
    const bool ties = one_in(2);
    for (int64_t i = 0; i < vocabulary; ++i) {
      row.logits.push_back(ties ? static_cast<float>(below(5)) - 2 : static_cast<float>(between(-8, 8)));
      if (only_odd || (odd_numbers && one_in(3))) row.logits.back() = odd();
    }
    for (int64_t i = below(20); i > 0; --i) row.history.push_back(static_cast<TokenId>(below(vocabulary + 2)) - 1);
    row.prompt = static_cast<size_t>(below(static_cast<int64_t>(row.history.size()) + 1));
    return row;
  }

 private:
  float odd() {
    const float numbers[] = {kInfinity, -kInfinity, std::nanf(""), 3e38F, -3e38F, -kInfinity, std::nanf("")};
    return numbers[below(std::size(numbers))];
  }

  std::mt19937_64 random_;
};

bool banned(const SamplingParameters& p, TokenId token) {
  return std::any_of(p.logit_bias.begin(), p.logit_bias.end(), [&](auto b) { return b.token == token && b.bias == kBanned; });
}

TEST(SamplerPropertyTest, EqualsThePlainVersion) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Generator generator(seed);
    const int64_t vocabulary = 1 + generator.below(generator.one_in(20) ? 2000 : 40);
    const SamplingParameters parameters = generator.parameters(vocabulary);
    ASSERT_TRUE(validate(parameters).ok()) << seed;
    Sampler sampler(parameters);
    for (int i = 0; i < 5; ++i) {
      const Row row = generator.row(vocabulary);
      const TokenId token = sampler.sample(row.logits, TokenPos(i), row.history, TokenCount(static_cast<int64_t>(row.prompt)));
      const std::optional<TokenId> expected = naive_sample(parameters, row, TokenPos(i));
      ASSERT_TRUE(token >= 0 && token < vocabulary) << "seed " << seed;
      if (expected) {
        ASSERT_EQ(token, *expected) << "seed " << seed << " row " << i;
        ASSERT_FALSE(banned(parameters, token)) << "seed " << seed;
      } else {
        const auto all_banned = [&](TokenId end) {
          for (TokenId id = 0; id < end; ++id) {
            if (!banned(parameters, id)) return false;
          }
          return true;
        };
        ASSERT_TRUE(all_banned(static_cast<TokenId>(vocabulary)) ? token == 0 : !banned(parameters, token) && all_banned(token))
            << "seed " << seed;
      }
    }
  }
}

TEST(SamplerPropertyTest, AReplyThatGrowsEqualsFreshSamplers) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Generator generator(seed);
    SamplingParameters parameters = generator.parameters(30);
    parameters.repeat_penalty = 1.5;
    parameters.frequency_penalty = 0.7;
    Sampler used(parameters);
    std::vector<TokenId> history = {3, 4, 4};
    for (int i = 0; i < 40; ++i) {
      const Row row = generator.row(30);
      const TokenPos position(static_cast<int64_t>(history.size()));
      const TokenId token = used.sample(row.logits, position, history, TokenCount(3));
      ASSERT_EQ(token, Sampler(parameters).sample(row.logits, position, history, TokenCount(3)))
          << "seed " << seed << " step " << i;
      history.push_back(token);
    }
  }
}

}  // namespace
}  // namespace quire::sampling
