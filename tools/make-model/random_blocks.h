// Random weights directly in their encoded form: as fast as the random numbers, whatever the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/tensor_type.h"
#include "tests/support/random.h"

namespace quire::make_model {

// Writes blocks whose weights have mean 0 and about the given standard deviation (within 15 %), none of them infinite or NaN.
// The same seed gives the same bytes, however they are divided among calls of fill().
class RandomBlocks {
 public:
  RandomBlocks(gguf::TensorType type, float deviation, uint64_t seed);

  // `bytes` is a whole number of blocks.
  void fill(std::span<std::byte> bytes);

 private:
  void fill_block(std::byte* block);
  void fill_float(std::byte* block);
  void fill_k_block(std::byte* block);
  void fill_q6_k(std::byte* block);

  gguf::TensorType type_;
  float deviation_;
  test_support::Random random_;
  // Scales to draw from, as halves: positive, and with either sign where that keeps the mean of an odd range of quants at 0.
  std::array<uint16_t, 64> scales_;
  // For the formats with a minimum: the scale's partner that centres the range.
  std::array<uint16_t, 64> mins_;
};

}  // namespace quire::make_model
