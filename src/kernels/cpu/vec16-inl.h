// Sixteen f32 lanes, whatever the registers' width: one __m512, two __m256, or an array of 16. Kernels are written once over
// these, so every instruction set performs the same operations in the same order. Only multiply_add differs: the portable set
// rounds twice (Arithmetic::kSeparate), the others once (kFused).
//
// Compiled once for each target by hwy/foreach_target.h, hence the unusual include guard.
#if defined(QUIRE_KERNELS_CPU_VEC16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_VEC16_INL_H_
#undef QUIRE_KERNELS_CPU_VEC16_INL_H_
#else
#define QUIRE_KERNELS_CPU_VEC16_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

#define QUIRE_PLAIN_LOOPS (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

inline constexpr int kLanes = 16;

#if QUIRE_PLAIN_LOOPS

struct alignas(64) Vec16 {
  float lane[kLanes];
};

// Applies f to each lane.
template <typename F>
HWY_INLINE Vec16 each_lane(F f) {
  Vec16 out;
  for (int i = 0; i < kLanes; ++i) out.lane[i] = f(i);
  return out;
}

HWY_INLINE Vec16 set1(float x) {
  return each_lane([=](int) { return x; });
}
HWY_INLINE Vec16 load(const float* p) {
  Vec16 v;
  std::memcpy(v.lane, p, sizeof(v.lane));
  return v;
}
HWY_INLINE void store(Vec16 v, float* p) { std::memcpy(p, v.lane, sizeof(v.lane)); }
HWY_INLINE Vec16 add(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] + b.lane[i]; });
}
HWY_INLINE Vec16 sub(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] - b.lane[i]; });
}
HWY_INLINE Vec16 mul(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] * b.lane[i]; });
}
HWY_INLINE Vec16 div(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] / b.lane[i]; });
}
// a * b + c
HWY_INLINE Vec16 multiply_add(Vec16 a, Vec16 b, Vec16 c) {
  return each_lane([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
}
HWY_INLINE float multiply_add(float a, float b, float c) { return a * b + c; }
// The larger lane; when either is NaN, b's.
HWY_INLINE Vec16 max(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
HWY_INLINE Vec16 min(Vec16 a, Vec16 b) {
  return each_lane([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
// Lane i where begin <= i < end, else other's lane i; whatever v holds there, NaN too.
HWY_INLINE Vec16 keep_lanes(Vec16 v, int begin, int end, Vec16 other) {
  return each_lane([&](int i) { return i >= begin && i < end ? v.lane[i] : other.lane[i]; });
}
// To the nearest integer, ties to even; |x| < 2^22.
HWY_INLINE Vec16 round_nearest(Vec16 v) {
  return each_lane([&](int i) { return (v.lane[i] + 12582912.0f) - 12582912.0f; });
}
// Lane i of v where x < bound does not hold, else +0.
HWY_INLINE Vec16 zero_below(Vec16 v, Vec16 x, float bound) {
  return each_lane([&](int i) { return x.lane[i] < bound ? 0.0f : v.lane[i]; });
}
// Lane i of v where x > bound does not hold, else other.
HWY_INLINE Vec16 replace_above(Vec16 v, Vec16 x, float bound, float other) {
  return each_lane([&](int i) { return x.lane[i] > bound ? other : v.lane[i]; });
}
// v * 2^n by adding n to the exponent bits, where n is held in the low bits of `shifted` (see kRoundingShift).
HWY_INLINE Vec16 add_to_exponent(Vec16 v, Vec16 shifted) {
  return each_lane([&](int i) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(v.lane[i]) + (std::bit_cast<uint32_t>(shifted.lane[i]) << 23));
  });
}
// 2^n for integral n in [-126, 127].
HWY_INLINE Vec16 power_of_two(Vec16 n) {
  return each_lane([&](int i) { return std::bit_cast<float>((static_cast<int32_t>(n.lane[i]) + 127) << 23); });
}

// f16 <-> f32 of 16 values: conversions are exact or round to nearest even, on every set.
HWY_INLINE Vec16 load_f16(const void* p) {
  uint16_t halves[kLanes];
  std::memcpy(halves, p, sizeof(halves));
  return each_lane([&](int i) { return half_to_float(halves[i]); });
}
HWY_INLINE void store_f16(Vec16 v, void* p) {
  uint16_t halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = float_to_half(v.lane[i]);
  std::memcpy(p, halves, sizeof(halves));
}

// even.lane[i] = p[2i], odd.lane[i] = p[2i + 1].
HWY_INLINE void load_pairs(const float* p, Vec16& even, Vec16& odd) {
  even = each_lane([&](int i) { return p[2 * i]; });
  odd = each_lane([&](int i) { return p[2 * i + 1]; });
}
HWY_INLINE void store_pairs(Vec16 even, Vec16 odd, float* p) {
  for (int i = 0; i < kLanes; ++i) {
    p[2 * i] = even.lane[i];
    p[2 * i + 1] = odd.lane[i];
  }
}

// Horizontal reductions in the fixed order of docs/arithmetic.md: lanes i and i + 8, then i and i + 4, i + 2, i + 1.
HWY_INLINE float reduce_add(Vec16 v) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.lane[i] += v.lane[i + half];
  }
  return v.lane[0];
}
HWY_INLINE float reduce_max(Vec16 v) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
  }
  return v.lane[0];
}

#else  // vectors

namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_AVX2
using FloatTag = hn::FixedTag<float, 8>;
#else
using FloatTag = hn::FixedTag<float, 16>;
#endif
using IntTag = hn::RebindToSigned<FloatTag>;
using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
inline constexpr int kPartLanes = HWY_TARGET == HWY_AVX2 ? 8 : 16;
inline constexpr int kParts = kLanes / kPartLanes;

struct Vec16 {
  hn::Vec<FloatTag> part[kParts];
};

HWY_INLINE Vec16 set1(float x) {
  Vec16 out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Set(FloatTag(), x);
  return out;
}
HWY_INLINE Vec16 load(const float* p) {
  Vec16 out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::LoadU(FloatTag(), p + i * kPartLanes);
  return out;
}
HWY_INLINE void store(Vec16 v, float* p) {
  for (int i = 0; i < kParts; ++i) hn::StoreU(v.part[i], FloatTag(), p + i * kPartLanes);
}
HWY_INLINE Vec16 add(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE Vec16 sub(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE Vec16 mul(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE Vec16 div(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Div(a.part[i], b.part[i]);
  return a;
}
// a * b + c
HWY_INLINE Vec16 multiply_add(Vec16 a, Vec16 b, Vec16 c) {
  for (int i = 0; i < kParts; ++i) c.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  return c;
}
HWY_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// The larger lane; when either is NaN, b's.
HWY_INLINE Vec16 max(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Max(a.part[i], b.part[i]);
  return a;
}
HWY_INLINE Vec16 min(Vec16 a, Vec16 b) {
  for (int i = 0; i < kParts; ++i) a.part[i] = hn::Min(a.part[i], b.part[i]);
  return a;
}
// Lane i where begin <= i < end, else other's lane i; whatever v holds there, NaN too.
HWY_INLINE Vec16 keep_lanes(Vec16 v, int begin, int end, Vec16 other) {
  const FloatTag d;
  for (int i = 0; i < kParts; ++i) {
    const auto index = hn::Iota(IntTag(), i * kPartLanes);
    const auto inside = hn::And(hn::Gt(index, hn::Set(IntTag(), begin - 1)), hn::Lt(index, hn::Set(IntTag(), end)));
    v.part[i] = hn::IfThenElse(hn::RebindMask(d, inside), v.part[i], other.part[i]);
  }
  return v;
}
// To the nearest integer, ties to even; |x| < 2^22.
HWY_INLINE Vec16 round_nearest(Vec16 v) {
  const auto magic = hn::Set(FloatTag(), 12582912.0f);
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Sub(hn::Add(v.part[i], magic), magic);
  return v;
}
// Lane i of v where x < bound does not hold, else +0.
HWY_INLINE Vec16 zero_below(Vec16 v, Vec16 x, float bound) {
  const auto limit = hn::Set(FloatTag(), bound);
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::IfThenZeroElse(hn::Lt(x.part[i], limit), v.part[i]);
  return v;
}
// Lane i of v where x > bound does not hold, else other.
HWY_INLINE Vec16 replace_above(Vec16 v, Vec16 x, float bound, float other) {
  const auto limit = hn::Set(FloatTag(), bound);
  const auto replacement = hn::Set(FloatTag(), other);
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::IfThenElse(hn::Gt(x.part[i], limit), replacement, v.part[i]);
  return v;
}
// v * 2^n by adding n to the exponent bits, where n is held in the low bits of `shifted` (see kRoundingShift).
HWY_INLINE Vec16 add_to_exponent(Vec16 v, Vec16 shifted) {
  for (int i = 0; i < kParts; ++i) {
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(IntTag(), shifted.part[i]));
    v.part[i] = hn::BitCast(FloatTag(), hn::Add(hn::BitCast(IntTag(), v.part[i]), exponent));
  }
  return v;
}
// 2^n for integral n in [-126, 127].
HWY_INLINE Vec16 power_of_two(Vec16 n) {
  for (int i = 0; i < kParts; ++i) {
    const auto exponent = hn::Add(hn::ConvertTo(IntTag(), n.part[i]), hn::Set(IntTag(), 127));
    n.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<23>(exponent));
  }
  return n;
}

// f16 <-> f32 of 16 values: conversions are exact or round to nearest even, on every set.
HWY_INLINE Vec16 load_f16(const void* p) {
  Vec16 out;
  const auto* halves = static_cast<const hwy::float16_t*>(p);
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::PromoteTo(FloatTag(), hn::LoadU(HalfTag(), halves + i * kPartLanes));
  return out;
}
HWY_INLINE void store_f16(Vec16 v, void* p) {
  auto* halves = static_cast<hwy::float16_t*>(p);
  for (int i = 0; i < kParts; ++i) hn::StoreU(hn::DemoteTo(HalfTag(), v.part[i]), HalfTag(), halves + i * kPartLanes);
}

// even.lane[i] = p[2i], odd.lane[i] = p[2i + 1].
HWY_INLINE void load_pairs(const float* p, Vec16& even, Vec16& odd) {
  for (int i = 0; i < kParts; ++i) hn::LoadInterleaved2(FloatTag(), p + 2 * i * kPartLanes, even.part[i], odd.part[i]);
}
HWY_INLINE void store_pairs(Vec16 even, Vec16 odd, float* p) {
  for (int i = 0; i < kParts; ++i) hn::StoreInterleaved2(even.part[i], odd.part[i], FloatTag(), p + 2 * i * kPartLanes);
}

// Horizontal reductions in the fixed order of docs/arithmetic.md: lanes i and i + 8, then i and i + 4, i + 2, i + 1.
using HalfVecTag = hn::FixedTag<float, 8>;
using QuarterVecTag = hn::FixedTag<float, 4>;
HWY_INLINE float reduce_add(Vec16 v) {
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Add(v.part[0], v.part[1]);
#else
  const auto eight = hn::Add(hn::LowerHalf(HalfVecTag(), v.part[0]), hn::UpperHalf(HalfVecTag(), v.part[0]));
#endif
  auto four = hn::Add(hn::LowerHalf(QuarterVecTag(), eight), hn::UpperHalf(QuarterVecTag(), eight));
  four = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(four, hn::Shuffle2301(four)));
}
HWY_INLINE float reduce_max(Vec16 v) {
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Max(v.part[0], v.part[1]);
#else
  const auto eight = hn::Max(hn::LowerHalf(HalfVecTag(), v.part[0]), hn::UpperHalf(HalfVecTag(), v.part[0]));
#endif
  auto four = hn::Max(hn::LowerHalf(QuarterVecTag(), eight), hn::UpperHalf(QuarterVecTag(), eight));
  four = hn::Max(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Max(four, hn::Shuffle2301(four)));
}

#endif  // QUIRE_PLAIN_LOOPS

HWY_INLINE Vec16 zero() { return set1(0.0f); }

// A hint that the line at p is read soon, once.
HWY_INLINE void prefetch_once(const void* p) { __builtin_prefetch(p, 0, 0); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
