// The small steps between products and attention for every instruction set: docs/arithmetic.md, "Elementwise".
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "kernels/cpu/targets.h"
// targets.h before foreach_target.h
#include <hwy/foreach_target.h>

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/tables.h"
#include "kernels/cpu/vec16-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {
namespace {

// The last, shorter vector of a row: lanes from `count` on are +0 and are not stored.
HWY_INLINE Vec16 load_first(const float* p, int count) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
HWY_INLINE void store_first(Vec16 v, float* p, int count) {
  float lanes[kLanes];
  store(v, lanes);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}

// out[i] = f(a[i]) and out[i] = f(a[i], b[i]), lane by lane.
template <typename F>
HWY_INLINE void map_row(const float* a, int n, float* out, F f) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(f(load(a + i)), out + i);
  if (i < n) store_first(f(load_first(a + i, n - i)), out + i, n - i);
}
template <typename F>
HWY_INLINE void map_rows(const float* a, const float* b, int n, float* out, F f) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(f(load(a + i), load(b + i)), out + i);
  if (i < n) store_first(f(load_first(a + i, n - i), load_first(b + i, n - i)), out + i, n - i);
}

void rms_norm(const float* x, const float* weight, int n, float epsilon, float* out) {
  Vec16 squares = zero();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) squares = multiply_add(load(x + i), load(x + i), squares);
  if (i < n) {
    const Vec16 rest = load_first(x + i, n - i);
    squares = multiply_add(rest, rest, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const Vec16 factor = set1(1.0f / std::sqrt(mean + epsilon));
  map_rows(x, weight, n, out, [&](Vec16 value, Vec16 w) HWY_ATTR { return mul(mul(value, factor), w); });
}

// Rotates pairs (a, b): (a cos - b sin, b cos + a sin).
HWY_INLINE void rotate(Vec16& a, Vec16& b, Vec16 cos, Vec16 sin) {
  const Vec16 rotated = multiply_add(a, cos, sub(set1(-0.0f), mul(b, sin)));
  b = multiply_add(b, cos, mul(a, sin));
  a = rotated;
}
HWY_INLINE void rotate(float& a, float& b, float cos, float sin) {
  const float rotated = multiply_add(a, cos, -(b * sin));
  b = multiply_add(b, cos, a * sin);
  a = rotated;
}

void rope(float* head, const float* cos, const float* sin, int pairs, RopePairs layout) {
  const bool adjacent = layout == RopePairs::kAdjacent;
  int i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    Vec16 a;
    Vec16 b;
    if (adjacent) {
      load_pairs(head + 2 * i, a, b);
    } else {
      a = load(head + i);
      b = load(head + pairs + i);
    }
    rotate(a, b, load(cos + i), load(sin + i));
    if (adjacent) {
      store_pairs(a, b, head + 2 * i);
    } else {
      store(a, head + i);
      store(b, head + pairs + i);
    }
  }
  for (; i < pairs; ++i) {
    rotate(head[adjacent ? 2 * i : i], head[adjacent ? 2 * i + 1 : pairs + i], cos[i], sin[i]);
  }
}

// x / (1 + exp(-x))
HWY_INLINE Vec16 silu(Vec16 x) { return div(x, add(set1(1.0f), exp(sub(set1(-0.0f), x)))); }
HWY_INLINE Vec16 gelu_tanh(Vec16 x) {
  const Vec16 factor = multiply_add(mul(x, x), set1(kGeluCubic), set1(kGeluLinear));
  return div(x, add(set1(1.0f), exp(mul(x, factor))));
}

void gated(Gate gate, const float* gate_row, const float* up_row, int n, float* out) {
  if (gate == Gate::kSilu) {
    map_rows(gate_row, up_row, n, out, [](Vec16 g, Vec16 up) HWY_ATTR { return mul(silu(g), up); });
  } else {
    map_rows(gate_row, up_row, n, out, [](Vec16 g, Vec16 up) HWY_ATTR { return mul(gelu_tanh(g), up); });
  }
}

void add_rows(const float* a, const float* b, int n, float* out) {
  map_rows(a, b, n, out, [](Vec16 x, Vec16 y) HWY_ATTR { return add(x, y); });
}

void scale(float* x, float factor, int n) {
  const Vec16 factors = set1(factor);
  map_row(x, n, x, [&](Vec16 value) HWY_ATTR { return mul(value, factors); });
}

}  // namespace

ElementwiseKernels elementwise_kernels() { return {rms_norm, rope, gated, add_rows, scale}; }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
