// The small steps between products and attention. All rows are f32; a row is computed by itself, in the order of
// docs/arithmetic.md.
#pragma once

#include <cstdint>

namespace quire::kernels {

enum class RopePairs : uint8_t {
  kAdjacent,  // rotates (x[2i], x[2i+1]): llama's files
  kHalves,    // rotates (x[i], x[i + dim/2]): gemma3's files
};

enum class Gate : uint8_t { kSilu, kGeluTanh };

struct ElementwiseKernels {
  // out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float epsilon, float* out);

  // Rotates the first 2 * pairs values of one head in place; cos and sin hold one factor a pair.
  void (*rope)(float* head, const float* cos, const float* sin, int pairs, RopePairs layout);

  // out[i] = gate(gate_row[i]) * up_row[i]. out may be gate_row or up_row.
  void (*gated)(Gate gate, const float* gate_row, const float* up_row, int n, float* out);

  // out[i] = a[i] + b[i]. out may be a or b.
  void (*add)(const float* a, const float* b, int n, float* out);

  // x[i] *= factor.
  void (*scale)(float* x, float factor, int n);
};

}  // namespace quire::kernels
