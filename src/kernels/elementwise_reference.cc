// The reference set's small steps: the formulas as written, in f32 with sums in double.
#include <cmath>

#include "kernels/cpu/tables.h"
#include "kernels/elementwise.h"

namespace quire::kernels::reference {
namespace {

void rms_norm(const float* x, const float* weight, int n, float epsilon, float* out) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const auto factor = static_cast<float>(1.0 / std::sqrt(squares / n + static_cast<double>(epsilon)));
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void rope(float* head, const float* cos, const float* sin, int pairs, RopePairs layout) {
  for (int i = 0; i < pairs; ++i) {
    float& a = layout == RopePairs::kAdjacent ? head[2 * i] : head[i];
    float& b = layout == RopePairs::kAdjacent ? head[2 * i + 1] : head[i + pairs];
    const float rotated = a * cos[i] - b * sin[i];
    b = b * cos[i] + a * sin[i];
    a = rotated;
  }
}

float silu(float x) { return x / (1.0f + std::exp(-x)); }

float gelu_tanh(float x) {
  constexpr float kSqrtTwoOverPi = 0.797884561f;
  return 0.5f * x * (1.0f + std::tanh(kSqrtTwoOverPi * (x + 0.044715f * x * x * x)));
}

void gated(Gate gate, const float* gate_row, const float* up_row, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = (gate == Gate::kSilu ? silu(gate_row[i]) : gelu_tanh(gate_row[i])) * up_row[i];
}

void add(const float* a, const float* b, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void scale(float* x, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

ElementwiseKernels elementwise_kernels() { return {rms_norm, rope, gated, add, scale}; }

}  // namespace quire::kernels::reference
