#include "engine/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_engines.h"

namespace quire::engine {
namespace {

struct Position {
  TokenId token;
  std::optional<double> next_logprob;
  std::vector<std::pair<TokenId, double>> top;
  bool operator==(const Position&) const = default;
};

std::vector<Position> positions_of(Engine& engine, std::span<const TokenId> tokens, double* perplexity = nullptr) {
  std::vector<Position> positions;
  const Result<Score> result = score(engine, tokens, 5, [&](const ScoredPosition& p) {
    EXPECT_EQ(p.position.value, static_cast<int64_t>(positions.size()));
    Position position{.token = p.token, .next_logprob = p.next_logprob, .top = {}};
    for (const sampling::TokenLogprob& entry : p.top) position.top.emplace_back(entry.token, entry.logprob);
    positions.push_back(position);
  });
  EXPECT_TRUE(result.ok());
  if (perplexity != nullptr) *perplexity = result->perplexity;
  return positions;
}

TEST(Score, IsTheSameInAnyChunksOnAnyThreads) {
  const auto whole_engine = tiny_gemma3({.threads = 1});
  const std::vector<TokenId> tokens = some_tokens(*whole_engine, 150);
  const std::vector<Position> whole = positions_of(*whole_engine, tokens);
  ASSERT_EQ(whole.size(), tokens.size());
  for (const int chunk : {1, 7, 32, 100}) {
    for (const int threads : {1, 3}) {
      EXPECT_EQ(positions_of(*tiny_gemma3({.threads = threads, .chunk = chunk}), tokens), whole) << chunk << ", " << threads;
    }
  }
}

TEST(Score, IsWhatTheLogitsSay) {
  const auto engine = tiny_llama();
  const std::vector<TokenId> tokens = some_tokens(*engine, 40);
  double perplexity = 0;
  const std::vector<Position> positions = positions_of(*engine, tokens, &perplexity);
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(positions[i].token, tokens[i]);
    const std::vector<float> logits = logits_from_nothing(*engine, std::span(tokens).first(i + 1));
    const float best = *std::max_element(logits.begin(), logits.end());
    double exponentials = 0;
    for (const float logit : logits) exponentials += std::exp(static_cast<double>(logit) - best);
    EXPECT_NEAR(positions[i].top.front().second, -std::log(exponentials), 1e-6);
    EXPECT_EQ(logits[static_cast<size_t>(positions[i].top.front().first)], best);
    ASSERT_EQ(positions[i].next_logprob.has_value(), i + 1 < tokens.size());
    if (i + 1 == tokens.size()) continue;
    const double next = logits[static_cast<size_t>(tokens[i + 1])] - best - std::log(exponentials);
    EXPECT_NEAR(*positions[i].next_logprob, next, 1e-6);
    sum += next;
  }
  EXPECT_NEAR(perplexity, std::exp(-sum / 39), 1e-3);
}

TEST(Score, OneTokenHasNoPerplexity) {
  const auto engine = tiny_llama();
  double perplexity = 1;
  EXPECT_EQ(positions_of(*engine, some_tokens(*engine, 1), &perplexity).size(), 1u);
  EXPECT_EQ(perplexity, 0);
}

TEST(Score, MoreThanTheContextIsRefused) {
  const auto engine = tiny_llama();
  EXPECT_TRUE(score(*engine, some_tokens(*engine, 512), 1, [](const ScoredPosition&) {}).ok());
  const Result<Score> refused = score(*engine, some_tokens(*engine, 513), 1, [](const ScoredPosition&) {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace quire::engine
