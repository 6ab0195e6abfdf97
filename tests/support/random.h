// Random numbers for test data: the same on every machine, fast, not for anything that must be hard to guess.
#pragma once

#include <cstdint>

namespace quire::test_support {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), bound > 0; the bias is below bound / 2^32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

  // Uniform in [-1, 1).
  float uniform() { return static_cast<float>(static_cast<int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23f; }

  // Mean 0, variance 1, near normal: the sum of three uniform numbers.
  float normal() {
    const float a = uniform();
    const float b = uniform();
    return a + b + uniform();
  }

 private:
  uint64_t state_;
};

}  // namespace quire::test_support
