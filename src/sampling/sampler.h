// From a row of logits to the next token.
//
// Filters act in this order (the default order of llama.cpp's samplers, so that settings carry over):
//   1. repeat penalty  every distinct token among the last `repeat_last_n` of the history: a positive logit is divided by the
//                      penalty, another one multiplied (Keskar et al., "CTRL", 2019, section 4.1)
//   2. top-k           the k largest logits stay
//   3. top-p           the fewest most probable tokens whose probabilities sum to at least p stay, at least one (Holtzman et al.,
//                      "The curious case of neural text degeneration", 2020); probabilities are those among the tokens left by 2
//   4. min-p           tokens at least `min_p` times as probable as the most probable one stay (Nguyen et al., "Min-p sampling",
//   2024)
//   5. temperature     the logits left are divided by it, and one token is drawn from their softmax
// Equal logits are ordered by id, the smaller first, everywhere. The order of operations is fixed, exp and log are base/math.h's,
// and the random number is a function of (seed, choice, position): the same row at the same position gives the same token, on every
// machine and whatever else runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "sampling/top_tokens.h"

namespace quire::sampling {

struct SamplingParameters {
  double temperature = 0.8;     // 0: the largest logit after the penalty is taken, nothing is drawn
  int32_t top_k = 40;           // 0: off
  double top_p = 0.95;          // in (0, 1]; 1: off
  double min_p = 0.05;          // in [0, 1]; 0: off
  double repeat_penalty = 1.0;  // above 0; 1: off
  int32_t repeat_last_n = 64;   // tokens of the history that the penalty looks at; 0: none, -1: all
  uint64_t seed = 0;
};

// Says which parameter is out of its range, and the range.
[[nodiscard]] Status validate(const SamplingParameters& parameters);

// For one sequence. Its buffers are allocated by the first calls; after them a call allocates nothing (unless a row has more
// candidates than any before). Not to be used by two threads at once.
class Sampler {
 public:
  // `parameters` are valid. `choice` tells several replies to one prompt apart.
  explicit Sampler(const SamplingParameters& parameters, uint32_t choice = 0);

  // `logits` [vocabulary], not empty; `position` is the one that the new token will have; `history` holds the tokens before it, the
  // newest last (ids outside the vocabulary are ignored).
  // NaN counts as -infinity, +infinity as the largest float; when no logit is left the answer is token 0.
  [[nodiscard]] TokenId sample(std::span<const float> logits, TokenPos position, std::span<const TokenId> history);

  [[nodiscard]] const SamplingParameters& parameters() const { return parameters_; }

 private:
  [[nodiscard]] std::span<const float> penalized(std::span<const float> logits, std::span<const TokenId> history);
  void gather_candidates(std::span<const float> logits);
  void keep_top_p();
  void keep_min_p();
  [[nodiscard]] TokenId draw(TokenPos position);

  SamplingParameters parameters_;
  uint32_t choice_;
  std::vector<float> penalized_;
  std::vector<TokenId> recent_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace quire::sampling
