// Scoring a text: what the model thought of each next token.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "engine/engine.h"
#include "sampling/logprobs.h"

namespace quire::engine {

struct ScoredPosition {
  TokenPos position;
  TokenId token;                                // the token at this position
  std::optional<double> next_logprob;           // natural log of the probability of the token that follows; none at the end
  std::span<const sampling::TokenLogprob> top;  // the most probable next tokens; valid during the call
};

struct Score {
  TokenCount tokens;
  double perplexity = 0;  // exp of the mean of -next_logprob; 0 when there is none
};

// Computes `tokens` (at least one) as one sequence and hands every position to `listener`, in order. kLimit: more tokens than the
// model's context.
[[nodiscard]] Result<Score> score(Engine& engine, std::span<const TokenId> tokens, size_t top_count,
                                  const std::function<void(const ScoredPosition&)>& listener);

}  // namespace quire::engine
