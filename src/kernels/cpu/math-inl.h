// exp in f32 by the order of operations of docs/arithmetic.md ("Functions"), sixteen at a time and one at a time, with equal bits.
#if defined(QUIRE_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_MATH_INL_H_
#undef QUIRE_KERNELS_CPU_MATH_INL_H_
#else
#define QUIRE_KERNELS_CPU_MATH_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/vec16-inl.h"
#include "kernels/functions.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

// e^x for x <= kExpHighest (and -infinity); exactly 1 for 0, +0 below kExpLowest.
HWY_INLINE Vec16 exp_bounded(Vec16 x) {
  const Vec16 shift = set1(kRoundingShift);
  const Vec16 shifted = multiply_add(x, set1(kLog2E), shift);
  const Vec16 n = sub(shifted, shift);
  Vec16 r = multiply_add(n, set1(-kLn2High), x);
  r = multiply_add(n, set1(-kLn2Low), r);
  Vec16 p = multiply_add(set1(kExp6), r, set1(kExp5));
  p = multiply_add(p, r, set1(kExp4));
  p = multiply_add(p, r, set1(kExp3));
  p = multiply_add(p, r, set1(kExp2));
  p = multiply_add(p, r, set1(1.0f));
  p = multiply_add(p, r, set1(1.0f));
  return zero_below(add_to_exponent(p, shifted), x, kExpLowest);
}
HWY_INLINE float exp_bounded(float x) {
  const float shifted = multiply_add(x, kLog2E, kRoundingShift);
  const float n = shifted - kRoundingShift;
  float r = multiply_add(n, -kLn2High, x);
  r = multiply_add(n, -kLn2Low, r);
  float p = multiply_add(kExp6, r, kExp5);
  p = multiply_add(p, r, kExp4);
  p = multiply_add(p, r, kExp3);
  p = multiply_add(p, r, kExp2);
  p = multiply_add(p, r, 1.0f);
  p = multiply_add(p, r, 1.0f);
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
  return x < kExpLowest ? 0.0f : scaled;
}

// e^x; infinity above kExpHighest.
HWY_INLINE Vec16 exp(Vec16 x) { return replace_above(exp_bounded(x), x, kExpHighest, std::numeric_limits<float>::infinity()); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
