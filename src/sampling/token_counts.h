// How often each token is among the last ones of a history, kept from step to step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace quire::sampling {

struct TokenCountEntry {
  TokenId token;
  int32_t count;
};

// The answer depends on the window of the last call alone. When the window has grown at its end since the call before, or has moved
// on by one token, the time is that of comparing it; otherwise it is counted anew.
class TokenCounts {
 public:
  void update(std::span<const TokenId> window);

  // Of the distinct tokens of the window, in the order of ids.
  [[nodiscard]] std::span<const TokenCountEntry> counts() const { return counts_; }

 private:
  void count_anew(std::span<const TokenId> window);
  void add(TokenId token);
  void remove(TokenId token);

  std::vector<TokenId> window_;
  std::vector<TokenCountEntry> counts_;
};

}  // namespace quire::sampling
