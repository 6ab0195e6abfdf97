// The scalar twins: docs/arithmetic.md in plain code, one number at a time, which every fast instruction set equals to the bit.
//
// Arithmetic::kFused for the sets with fused multiply-add, Arithmetic::kSeparate for the portable set.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/functions.h"
#include "kernels/kernels.h"

namespace quire::kernels::twin {

// a * b + c
template <Arithmetic kArithmetic>
float multiply_add(float a, float b, float c) {
  static_assert(kArithmetic != Arithmetic::kReference);
  if constexpr (kArithmetic == Arithmetic::kFused) {
    return std::fma(a, b, c);
  } else {
    return a * b + c;
  }
}

// The sum of 16 lanes.
inline float reduce_add(std::array<float, 16> lane) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

template <Arithmetic kArithmetic>
float exp(float x) {
  if (x < kExpLowest) return 0.0f;
  if (x > kExpHighest) return std::numeric_limits<float>::infinity();
  const float n = multiply_add<kArithmetic>(x, kLog2E, kRoundingShift) - kRoundingShift;
  const float r = multiply_add<kArithmetic>(n, -kLn2Low, multiply_add<kArithmetic>(n, -kLn2High, x));
  float p = kExp6;
  for (const float coefficient : {kExp5, kExp4, kExp3, kExp2, 1.0f, 1.0f}) p = multiply_add<kArithmetic>(p, r, coefficient);
  return std::ldexp(p, static_cast<int>(n));
}

template <Arithmetic kArithmetic>
float silu(float x) {
  return x / (1.0f + exp<kArithmetic>(-x));
}

template <Arithmetic kArithmetic>
float gelu_tanh(float x) {
  const float factor = multiply_add<kArithmetic>(x * x, kGeluCubic, kGeluLinear);
  return x / (1.0f + exp<kArithmetic>(x * factor));
}

}  // namespace quire::kernels::twin
