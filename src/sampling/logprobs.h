// Log-probabilities of a row of logits, in double: what the model itself says. A reply's logprobs are those of the raw logits,
// before biases, penalties, filters and temperature, so that they do not depend on how the reply was sampled.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"
#include "sampling/top_tokens.h"

namespace quire::sampling {

struct TokenLogprob {
  TokenId token;
  double logprob;
};

// Reads one row after the other; its buffers are allocated by the first.
//
// logprob(t) = logit(t) - max - log(sum over u of e^(logit(u) - max)), summed in the order of ids, with base/math.h's exp and log.
// NaN counts as -infinity, +infinity as the largest float. In a row of nothing but -infinity every logprob is -infinity.
class LogprobRow {
 public:
  // `logits` [vocabulary], not empty, is read during the call only for the sum and the top; `of` takes it again.
  void read(std::span<const float> logits, size_t top_count);

  // Of a token of the row last read. A token outside the vocabulary has -infinity.
  [[nodiscard]] double of(std::span<const float> logits, TokenId token) const;

  // The `top_count` most probable tokens, in order (equal ones by id); fewer when fewer have a probability.
  [[nodiscard]] std::span<const TokenLogprob> top() const { return top_; }

 private:
  double normalizer_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<TokenLogprob> top_;
};

}  // namespace quire::sampling
