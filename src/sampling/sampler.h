// From a row of logits to the next token.
//
// The order of what happens (llama.cpp's default order where it has the step, so that settings carry over):
//   1. logit bias      each named token's value is added to its logit. The ends of the range do more, as OpenAI has it: -100 bans
//   the
//                      token, +100 forces: while a forced token has a logit, only forced tokens are candidates
//   2. repeat penalty  every distinct token among the last `repeat_last_n` of the history, prompt included: a positive logit is
//                      divided by the penalty, another one multiplied (Keskar et al., "CTRL", 2019, section 4.1)
//   3. frequency and   of a token that this reply, without the prompt, has c > 0 times: c x frequency penalty + presence penalty
//   are
//      presence        taken from its logit (OpenAI's API reference)
//   4. top-k           the k largest logits stay
//   5. typical         tokens whose surprise -log p is nearest to the row's entropy, the nearest first and equally near ones by id,
//                      stay until their probabilities sum to at least typical_p (Meister et al., "Locally typical sampling", 2022);
//                      distances are rounded to float
//   6. top-p           the fewest most probable tokens whose probabilities sum to at least p stay, at least one (Holtzman et al.,
//                      "The curious case of neural text degeneration", 2020)
//   7. min-p           tokens at least `min_p` times as probable as the most probable one stay (Nguyen et al., "Min-p sampling",
//   2024)
//   8. temperature     the logits left are divided by it, and one token is drawn from their softmax; 0 takes the largest logit
//   after
//                      1 to 3 instead, and 4 to 7 make no difference but typical, which is passed over
// Probabilities in 5, 6 and 7 are those among the tokens left by the step before. Tokens without e^-40 of the largest one's weight
// are no candidates: the random number has too few bits to draw them.
//
// Equal logits are ordered by id, the smaller first, everywhere. The order of operations is fixed (sums run in the order of ids),
// exp and log are base/math.h's, and the random number is a function of (seed, choice, position): the same row at the same position
// gives the same token, on every machine and whatever else runs. No step sorts the vocabulary: the time is linear in it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "sampling/adjusted_row.h"
#include "sampling/token_counts.h"

namespace quire::sampling {

struct LogitBias {
  TokenId token;
  double bias;  // in [-100, 100]; -100: never, 100: only forced ones
};
inline constexpr double kBanned = -100;
inline constexpr double kForced = 100;

struct SamplingParameters {
  double temperature = 0.8;                // 0: the largest logit is taken, nothing is drawn
  int32_t top_k = 40;                      // 0: off
  double typical_p = 1.0;                  // in (0, 1]; 1: off
  double top_p = 0.95;                     // in (0, 1]; 1: off
  double min_p = 0.05;                     // in [0, 1]; 0: off
  double repeat_penalty = 1.0;             // above 0; 1: off
  int32_t repeat_last_n = 64;              // tokens of the history that the penalty looks at; 0: none, -1: all
  double frequency_penalty = 0.0;          // in [-2, 2]; 0: off
  double presence_penalty = 0.0;           // in [-2, 2]; 0: off
  std::vector<LogitBias> logit_bias = {};  // each token at most once
  uint64_t seed = 0;
};

// Says which parameter is out of its range, and the range. `vocabulary` is the number of ids that a bias may name.
[[nodiscard]] Status validate(const SamplingParameters& parameters, int64_t vocabulary = int64_t{1} << 31);

// For one sequence. A call allocates nothing but what grows with the history; the working space of a row is one for all samplers of
// a thread. Not to be used by two threads at once.
class Sampler {
 public:
  // `parameters` are valid. `choice` tells several replies to one prompt apart.
  explicit Sampler(const SamplingParameters& parameters, uint32_t choice = 0);

  // `logits` [vocabulary], not empty; `position` is the one that the new token will have; `history` holds the tokens before it, the
  // newest last, and its first `prompt` ones are the prompt (ids outside the vocabulary are ignored, also in biases).
  // NaN counts as -infinity, +infinity as the largest float; a finite logit stays finite whatever is added. When no logit is left
  // the answer is the smallest id that is not banned, 0 if all are.
  [[nodiscard]] TokenId sample(std::span<const float> logits, TokenPos position, std::span<const TokenId> history,
                               TokenCount prompt = TokenCount(0));

  [[nodiscard]] const SamplingParameters& parameters() const { return parameters_; }

 private:
  void count_history(std::span<const TokenId> history, TokenCount prompt);
  void adjust(std::span<const float> logits);
  [[nodiscard]] std::optional<TokenId> choose(const AdjustedRow& row, TokenPos position) const;
  [[nodiscard]] TokenId first_allowed(size_t vocabulary) const;

  SamplingParameters parameters_;
  uint32_t choice_;
  std::vector<LogitBias> biases_;  // by id
  TokenCounts recent_;             // what the repeat penalty looks at
  TokenCounts reply_;              // what the frequency and presence penalties look at
  std::vector<Candidate> adjusted_;
  std::vector<Candidate> forced_;  // of them
};

}  // namespace quire::sampling
