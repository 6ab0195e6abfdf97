// How many more tokens a reply will have, from the lengths of those that have ended.
//
// The estimate is the mean of the observed lengths above what the reply already has, each cut at its own limit; besides them counts
// one reply that nobody observed, which goes on for as long as it has gone on, and at least for kUnknownTokens. So it is sensible
// before anything was observed and beyond the longest observed reply. Old observations fade: each kMemory new ones halve them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace quire::sched {

class LengthPredictor {
 public:
  static constexpr int64_t kUnknownTokens = 256;
  static constexpr int kMemory = 1024;

  // A reply has ended with so many tokens; one without tokens teaches nothing.
  void observe(TokenCount length);

  // Expected further tokens of a reply that has `produced` and may get `left` more: at least 1 and at most `left`, if that is not
  // 0.
  [[nodiscard]] TokenCount remaining(TokenCount produced, TokenCount left) const;

 private:
  // Lengths fall into bins: one each below 8, then four to an octave.
  static constexpr size_t kBins = 256;
  [[nodiscard]] static size_t bin_of(int64_t length);
  void sum_up();

  struct Bin {
    double count = 0;
    double tokens = 0;  // summed lengths
  };
  std::array<Bin, kBins> bins_ = {};
  std::array<Bin, kBins + 1> above_ = {};  // [i]: the sum of the bins from i on
  int observed_ = 0;
};

}  // namespace quire::sched
