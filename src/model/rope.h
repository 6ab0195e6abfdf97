// RoPE's angles: cosines and sines of a position for every pair of a head's values.
#pragma once

#include <vector>

#include "base/units.h"
#include "model/config.h"

namespace quire::model {

// The frequencies of one RopeConfig.
class RopeFrequencies {
 public:
  // `factors` holds dims / 2 divisors, or is empty.
  RopeFrequencies(const RopeConfig& rope, int dims, std::span<const float> factors);

  [[nodiscard]] int pairs() const { return static_cast<int>(frequency_.size()); }

  // Writes pairs() cosines and sines of the position, each rounded once from double.
  void angles(TokenPos position, float* cos, float* sin) const;

 private:
  std::vector<double> frequency_;  // radians a position
};

}  // namespace quire::model
