// Scalar twin of the elementwise kernels: docs/arithmetic.md, "Elementwise".
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "kernels/elementwise.h"
#include "kernels/twin/functions_twin.h"

namespace quire::kernels::twin {

template <Arithmetic kArithmetic>
void rms_norm(const float* x, const float* weight, int n, float epsilon, float* out) {
  std::array<float, 16> squares{};
  for (int i = 0; i < n; ++i) {
    float& sum = squares[static_cast<size_t>(i % 16)];
    sum = multiply_add<kArithmetic>(x[i], x[i], sum);
  }
  const float factor = 1.0f / std::sqrt(reduce_add(squares) / static_cast<float>(n) + epsilon);
  for (int i = 0; i < n; ++i) out[i] = (x[i] * factor) * weight[i];
}

template <Arithmetic kArithmetic>
void rope(float* head, const float* cos, const float* sin, int pairs, RopePairs layout) {
  for (int i = 0; i < pairs; ++i) {
    float& a = layout == RopePairs::kAdjacent ? head[2 * i] : head[i];
    float& b = layout == RopePairs::kAdjacent ? head[2 * i + 1] : head[i + pairs];
    const float rotated = multiply_add<kArithmetic>(a, cos[i], -(b * sin[i]));
    b = multiply_add<kArithmetic>(b, cos[i], a * sin[i]);
    a = rotated;
  }
}

template <Arithmetic kArithmetic>
void gated(Gate gate, const float* gate_row, const float* up_row, int n, float* out) {
  for (int i = 0; i < n; ++i) {
    const float g = gate_row[i];
    out[i] = (gate == Gate::kSilu ? silu<kArithmetic>(g) : gelu_tanh<kArithmetic>(g)) * up_row[i];
  }
}

inline void add(const float* a, const float* b, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

inline void scale(float* x, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

template <Arithmetic kArithmetic>
ElementwiseKernels elementwise_twin() {
  return {rms_norm<kArithmetic>, rope<kArithmetic>, gated<kArithmetic>, add, scale};
}

}  // namespace quire::kernels::twin
