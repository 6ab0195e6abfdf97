#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace quire::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// All filters off, temperature 1.
SamplingParameters plain() {
  SamplingParameters parameters;
  parameters.temperature = 1;
  parameters.top_k = 0;
  parameters.top_p = 1;
  parameters.min_p = 0;
  parameters.seed = 1234;
  return parameters;
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::map<TokenId, int> draw_many(const SamplingParameters& parameters, const std::vector<float>& logits, int count,
                                 const std::vector<TokenId>& history = {}) {
  Sampler sampler(parameters);
  std::map<TokenId, int> counts;
  for (int i = 0; i < count; ++i) ++counts[sampler.sample(logits, TokenPos(i), history)];
  return counts;
}

std::set<TokenId> drawn(const SamplingParameters& parameters, const std::vector<float>& logits,
                        const std::vector<TokenId>& history = {}) {
  std::set<TokenId> tokens;
  for (const auto& [token, count] : draw_many(parameters, logits, 4000, history)) tokens.insert(token);
  return tokens;
}

TEST(SamplerTest, FrequenciesMatchProbabilities) {
  const std::vector<double> probabilities = {0.5, 0.25, 0.15, 0.06, 0.04};
  constexpr int kDraws = 200000;
  auto counts = draw_many(plain(), logits_of(probabilities), kDraws);
  double chi_squared = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const double expected = probabilities[i] * kDraws;
    const double difference = counts[static_cast<TokenId>(i)] - expected;
    chi_squared += difference * difference / expected;
  }
  EXPECT_LT(chi_squared, 18.5);  // 4 degrees of freedom: exceeded once in a thousand seeds
}

TEST(SamplerTest, TemperatureSharpensAndFlattens) {
  const auto logits = logits_of({0.8, 0.2});
  auto parameters = plain();
  parameters.temperature = 0.5;  // 0.64 : 0.04
  EXPECT_NEAR(draw_many(parameters, logits, 50000)[1], 50000 * 0.04 / 0.68, 300);
  parameters.temperature = 2;  // sqrt: 0.894 : 0.447
  EXPECT_NEAR(draw_many(parameters, logits, 50000)[1], 50000 / 3.0, 500);
  parameters.temperature = 1e-300;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0}));
  parameters.temperature = 1e300;
  EXPECT_NEAR(draw_many(parameters, logits, 50000)[1], 25000, 500);
}

TEST(SamplerTest, ZeroTemperatureTakesTheLargestAndTheSmallestIdAmongEqual) {
  auto parameters = plain();
  parameters.temperature = 0;
  EXPECT_EQ(drawn(parameters, {1, 3, 3, 2}), (std::set<TokenId>{1}));
}

TEST(SamplerTest, TheSameCoordinatesGiveTheSameTokenWhateverRanBefore) {
  std::vector<float> logits(1000, 0.0F);
  Sampler fresh(plain());
  Sampler used(plain());
  for (int i = 0; i < 50; ++i) (void)used.sample(logits, TokenPos(1000 + i), {});
  EXPECT_EQ(fresh.sample(logits, TokenPos(7), {}), used.sample(logits, TokenPos(7), {}));
  auto other_seed = plain();
  other_seed.seed = 99;
  Sampler reseeded(other_seed);
  Sampler other_choice(plain(), 1);
  int same_seed = 0;
  int same_choice = 0;
  for (int i = 0; i < 200; ++i) {
    const TokenId token = fresh.sample(logits, TokenPos(i), {});
    same_seed += token == reseeded.sample(logits, TokenPos(i), {});
    same_choice += token == other_choice.sample(logits, TokenPos(i), {});
  }
  EXPECT_LT(same_seed, 5);
  EXPECT_LT(same_choice, 5);
}

TEST(SamplerTest, TopKKeepsTheSmallerIdsAmongTies) {
  auto parameters = plain();
  parameters.top_k = 3;
  EXPECT_EQ(drawn(parameters, {1, 2, 1, 1, 2, 1}), (std::set<TokenId>{0, 1, 4}));
  parameters.top_k = 1;
  EXPECT_EQ(drawn(parameters, {1, 2, 1, 1, 2, 1}), (std::set<TokenId>{1}));
  parameters.top_k = 1000;
  EXPECT_EQ(drawn(parameters, {1, 1}), (std::set<TokenId>{0, 1}));
}

TEST(SamplerTest, TopPKeepsTheTokenThatReachesTheSum) {
  auto parameters = plain();
  // Exact powers of two, so that the boundary itself is met: 1/2, 1/4, 1/8, 1/8.
  const auto logits = std::vector<float>{0, -0.6931472F, -1.3862944F, -1.3862944F};
  parameters.top_p = 0.49;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0}));
  parameters.top_p = 0.51;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1}));
  parameters.top_p = 0.76;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1, 2}));
  parameters.top_p = 0.9;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1, 2, 3}));
  // Equal logits: half the sum is reached exactly by half the tokens.
  parameters.top_p = 0.5;
  EXPECT_EQ(drawn(parameters, {1, 1, 1, 1}), (std::set<TokenId>{0, 1}));
  parameters.top_p = 1e-9;
  EXPECT_EQ(drawn(parameters, {1, 1, 1, 1}), (std::set<TokenId>{0}));
}

TEST(SamplerTest, TopPOverALargeFlatVocabulary) {
  auto parameters = plain();
  parameters.top_p = 0.25;
  std::vector<float> logits(20000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 2);  // e : 1
  const double probability_of_odd = std::exp(1.0) / (10000 * (1 + std::exp(1.0)));
  const auto kept = static_cast<TokenId>(std::ceil(0.25 / probability_of_odd));
  Sampler sampler(parameters);
  for (int i = 0; i < 300; ++i) {
    const TokenId token = sampler.sample(logits, TokenPos(i), {});
    EXPECT_EQ(token % 2, 1);
    EXPECT_LT(token, 2 * kept);
  }
}

TEST(SamplerTest, MinPIsRelativeToTheMostProbable) {
  auto parameters = plain();
  const auto logits = logits_of({0.1, 0.5, 0.24, 0.16});
  parameters.min_p = 0.21;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{1, 2, 3}));
  parameters.min_p = 0.33;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{1, 2}));
  parameters.min_p = 1;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{1}));
}

TEST(SamplerTest, FiltersComeBeforeTheTemperature) {
  auto parameters = plain();
  const auto logits = logits_of({0.6, 0.3, 0.1});
  parameters.temperature = 100;  // nearly uniform, had it come first
  parameters.top_p = 0.85;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1}));
  parameters.top_p = 1;
  parameters.min_p = 0.4;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1}));
}

TEST(SamplerTest, TopPCountsOnlyWhatTopKLeft) {
  auto parameters = plain();
  parameters.top_k = 2;
  parameters.top_p = 0.6;  // 0.4 of 0.4 + 0.25 is 0.615
  EXPECT_EQ(drawn(parameters, logits_of({0.25, 0.4, 0.2, 0.15})), (std::set<TokenId>{1}));
}

TEST(SamplerTest, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  auto parameters = plain();
  parameters.temperature = 0;
  parameters.repeat_penalty = 2;
  Sampler sampler(parameters);
  const auto next = [&](const std::vector<float>& logits, const std::vector<TokenId>& history) {
    return sampler.sample(logits, TokenPos(0), history);
  };
  EXPECT_EQ(next({4, 3}, {}), 0);
  EXPECT_EQ(next({4, 3}, {0}), 1);        // 2 < 3
  EXPECT_EQ(next({4, 1.9F}, {0, 0}), 0);  // once however often it was there: 2 > 1.9
  EXPECT_EQ(next({-2, -3}, {0}), 1);      // -4 < -3
  EXPECT_EQ(next({-2, -3}, {1}), 0);
  EXPECT_EQ(next({4, 3}, {0, 1}), 0);
  EXPECT_EQ(next({4, 3}, {-1, 7}), 0);  // ids outside the vocabulary
}

TEST(SamplerTest, RepeatPenaltyLooksAtTheLastTokensOnly) {
  auto parameters = plain();
  parameters.temperature = 0;
  parameters.repeat_penalty = 2;
  const std::vector<float> logits = {4, 3};
  const std::vector<TokenId> history = {0, 5, 5};
  const auto next = [&](int last) {
    parameters.repeat_last_n = last;
    return Sampler(parameters).sample(logits, TokenPos(0), history);
  };
  EXPECT_EQ(next(0), 0);
  EXPECT_EQ(next(2), 0);
  EXPECT_EQ(next(3), 1);
  EXPECT_EQ(next(-1), 1);
}

TEST(SamplerTest, NanAndInfiniteLogitsHaveAnAnswer) {
  const float nan = std::nanf("");
  for (const int top_k : {0, 2, 40}) {
    for (const double top_p : {0.5, 1.0}) {
      auto parameters = plain();
      parameters.top_k = top_k;
      parameters.top_p = top_p;
      parameters.repeat_penalty = 1.3;
      EXPECT_EQ(drawn(parameters, {nan, -kInfinity, nan, nan}, {1, 2}), (std::set<TokenId>{0}));
      EXPECT_EQ(drawn(parameters, {nan, -kInfinity, -9, nan}, {1}), (std::set<TokenId>{2}));
      EXPECT_EQ(drawn(parameters, {5, kInfinity, nan, 3e38F}, {0}), (std::set<TokenId>{1}));
    }
  }
}

TEST(SamplerTest, TypicalKeepsWhatIsAsSurprisingAsTheEntropy) {
  auto parameters = plain();
  // Entropy of (0.5, 0.2, 0.2, 0.1) is 1.22: 0.2 is 0.39 from it, 0.5 0.53, 0.1 1.08.
  const auto logits = logits_of({0.5, 0.2, 0.1, 0.2});
  parameters.typical_p = 0.15;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{1}));
  parameters.typical_p = 0.3;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{1, 3}));
  parameters.typical_p = 0.8;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1, 3}));
  parameters.typical_p = 0.95;
  EXPECT_EQ(drawn(parameters, logits), (std::set<TokenId>{0, 1, 2, 3}));
}

TEST(SamplerTest, FrequencyCountsAndPresenceDoesNot) {
  auto parameters = plain();
  parameters.temperature = 0;
  const auto next = [&](const std::vector<float>& logits, const std::vector<TokenId>& history, int64_t prompt) {
    return Sampler(parameters).sample(logits, TokenPos(0), history, TokenCount(prompt));
  };
  parameters.frequency_penalty = 0.5;
  EXPECT_EQ(next({4, 3.2F}, {0}, 0), 0);            // 3.5
  EXPECT_EQ(next({4, 3.2F}, {0, 0}, 0), 1);         // 3
  EXPECT_EQ(next({4, 3.2F}, {0, 0}, 1), 0);         // one of them is the prompt's
  EXPECT_EQ(next({4, 3.2F}, {0, 0}, 9), 0);         // more prompt than history
  EXPECT_EQ(next({-1, -1.2F}, {0}, 0), 1);          // taken from negative logits too
  EXPECT_EQ(next({4, 3.2F}, {-1, 2, 0, 0}, 0), 1);  // ids outside the vocabulary
  parameters.frequency_penalty = 0;
  parameters.presence_penalty = 0.5;
  EXPECT_EQ(next({4, 3.2F}, {0, 0, 0}, 0), 0);
  EXPECT_EQ(next({4, 3.6F}, {0}, 0), 1);
  parameters.presence_penalty = -1;
  EXPECT_EQ(next({4, 3.6F}, {1}, 0), 1);
}

TEST(SamplerTest, BiasesAddBanAndForce) {
  auto parameters = plain();
  const auto logits = logits_of({0.6, 0.3, 0.1});
  const auto drawn_with = [&](std::vector<LogitBias> biases) {
    parameters.logit_bias = std::move(biases);
    return drawn(parameters, logits);
  };
  EXPECT_EQ(drawn_with({{0, -100}}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(drawn_with({{2, 100}, {1, 100}}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(drawn_with({{2, 100}, {0, -100}}), (std::set<TokenId>{2}));
  EXPECT_EQ(drawn_with({{2, 99}}), (std::set<TokenId>{2}));
  EXPECT_EQ(drawn_with({{0, -100}, {1, -100}, {2, -99}}), (std::set<TokenId>{2}));
  EXPECT_EQ(drawn_with({{7, 100}}), (std::set<TokenId>{0, 1, 2}));  // not in the vocabulary
  parameters.logit_bias = {{2, 1.7917594}};                         // log 6: 0.6 as the first
  EXPECT_NEAR(draw_many(parameters, logits, 50000)[2], 50000 * 0.4, 500);
  parameters.temperature = 0;
  EXPECT_EQ(drawn_with({{2, 2}}), (std::set<TokenId>{2}));
  EXPECT_EQ(drawn_with({{1, 100}, {2, 100}}), (std::set<TokenId>{1}));
  EXPECT_EQ(drawn_with({{0, -100}}), (std::set<TokenId>{1}));
}

TEST(SamplerTest, ABannedTokenIsTheLastResort) {
  for (const double temperature : {0.0, 1.0}) {
    auto parameters = plain();
    parameters.temperature = temperature;
    parameters.logit_bias = {{1, -100}, {0, -100}};
    EXPECT_EQ(drawn(parameters, {5, 5, -kInfinity, std::nanf("")}), (std::set<TokenId>{2}));
    EXPECT_EQ(drawn(parameters, {5, 5}), (std::set<TokenId>{0}));
    // A forced token that has no logit forces nothing.
    parameters.logit_bias = {{0, 100}};
    EXPECT_EQ(drawn(parameters, {std::nanf(""), 5}), (std::set<TokenId>{1}));
  }
}

TEST(SamplerTest, APenaltyHoweverLargeBansNothing) {
  auto parameters = plain();
  parameters.repeat_penalty = 1e308;
  EXPECT_EQ(drawn(parameters, {-3e38F, -kInfinity}, {0}), (std::set<TokenId>{0}));
}

TEST(SamplerTest, ParametersOutOfRangeAreNamed) {
  EXPECT_TRUE(validate(SamplingParameters{}).ok());
  const auto message = [](auto change) {
    SamplingParameters parameters;
    change(parameters);
    const Status status = validate(parameters, 1000);
    return status.ok() ? std::string("ok") : status.error().message;
  };
  EXPECT_EQ(message([](auto& p) { p.temperature = -1; }), "temperature is -1: it must be 0 or more");
  EXPECT_NE(message([](auto& p) { p.temperature = std::nan(""); }), "ok");
  EXPECT_NE(message([](auto& p) { p.top_k = -1; }), "ok");
  EXPECT_EQ(message([](auto& p) { p.typical_p = 0; }), "typical_p is 0: it must be above 0 and at most 1 (off)");
  EXPECT_NE(message([](auto& p) { p.typical_p = std::nan(""); }), "ok");
  EXPECT_NE(message([](auto& p) { p.top_p = 0; }), "ok");
  EXPECT_NE(message([](auto& p) { p.top_p = std::nan(""); }), "ok");
  EXPECT_NE(message([](auto& p) { p.min_p = 1.5; }), "ok");
  EXPECT_NE(message([](auto& p) { p.repeat_penalty = 0; }), "ok");
  EXPECT_NE(message([](auto& p) { p.repeat_last_n = -2; }), "ok");
  EXPECT_EQ(message([](auto& p) { p.frequency_penalty = 2.5; }),
            "frequency_penalty is 2.5: it must be between -2 and 2 (0 is off)");
  EXPECT_NE(message([](auto& p) { p.presence_penalty = std::nan(""); }), "ok");
  EXPECT_EQ(message([](auto& p) { p.logit_bias = {{0, -100}, {999, 100}}; }), "ok");
  EXPECT_EQ(message([](auto& p) { p.logit_bias = {{1000, 1}}; }), "logit_bias names token 1000: ids go from 0 to 999");
  EXPECT_NE(message([](auto& p) { p.logit_bias = {{-1, 1}}; }), "ok");
  EXPECT_EQ(message([](auto& p) {
              p.logit_bias = {{5, 101}};
            }),
            "logit_bias of token 5 is 101: it must be between -100 (never) and 100 (only it)");
  EXPECT_NE(message([](auto& p) { p.logit_bias = {{5, std::nan("")}}; }), "ok");
  EXPECT_EQ(message([](auto& p) { p.logit_bias = {{5, 1}, {6, 1}, {5, 1}}; }), "logit_bias names token 5 more than once");
}

// The tokens that this seed gives, the same on every machine.
TEST(SamplerTest, DrawnTokensAreTheCommittedOnes) {
  std::vector<float> logits(512);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 7919) % 512) / 64.0F;
  SamplingParameters parameters;
  parameters.seed = 20260102;
  Sampler sampler(parameters);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(sampler.sample(logits, TokenPos(i), {}));
  EXPECT_EQ(tokens, (std::vector<TokenId>{332, 347, 422, 107, 484, 437, 92, 407}));
}

}  // namespace
}  // namespace quire::sampling
