// The smallest best part of many things whose masses reach a sum, without sorting them: what top-k, typical and top-p sampling ask
// for, over a whole vocabulary.
//
// Method: radix selection. Three passes over the things, each a histogram of masses over the next bits of the keys: the bin in
// which the sum is reached is the next pass's range. The time is linear in the number of things whatever their keys are. Sums run
// in the order of the things, bin by bin, so that the answer is the same on every machine.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::sampling {

// A key whose order is that of the numbers: not for NaN.
[[nodiscard]] inline uint32_t ascending_key(float number) {
  // Adding 0 makes the two zeros equal.
  const auto bits = std::bit_cast<uint32_t>(number + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Things with keys above the threshold are selected, and the first `ties` of those that equal it.
struct MassSelection {
  uint32_t threshold = 0;
  size_t ties = SIZE_MAX;

  // Asked for all things in order.
  [[nodiscard]] bool take(uint32_t key) {
    if (key != threshold) return key > threshold;
    if (ties == 0) return false;
    --ties;
    return true;
  }
};

class MassSelector {
 public:
  // The fewest things, larger keys first and equal ones in their order, whose masses (>= 0) sum to at least `wanted` > 0; all of
  // them when no part does. At least one.
  [[nodiscard]] MassSelection select(std::span<const uint32_t> keys, std::span<const double> masses, double wanted);

 private:
  std::array<double, 2048> mass_of_bin_;
};

}  // namespace quire::sampling
