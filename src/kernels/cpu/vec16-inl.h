// Sixteen f32 lanes, whatever the registers' width: one __m512, two __m256, or four vectors of the compiler's own. Kernels are
// written once over these, so every instruction set performs the same operations in the same order. Only multiply_add differs: the
// portable set rounds twice (Arithmetic::kSeparate), the others once (kFused).
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
#include <type_traits>
#include <utility>

#include "kernels/half.h"

#undef QUIRE_PLAIN_LOOPS
#define QUIRE_PLAIN_LOOPS (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)

// A lambda that is compiled for the target around it and always inlined: QUIRE_LAMBDA(int i) { ... }.
#undef QUIRE_LAMBDA
#define QUIRE_LAMBDA(...) [&](__VA_ARGS__) HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

inline constexpr int kLanes = 16;

// f(0), f(1), ..., f(kCount - 1) with constant arguments. Arrays of vectors that are indexed by nothing but such constants live in
// registers; behind the index of a loop they would live in memory.
template <typename F, int... kIndex>
HWY_INLINE void repeat_sequence(F f, std::integer_sequence<int, kIndex...>) {
  (f(std::integral_constant<int, kIndex>()), ...);
}
template <int kCount, typename F>
HWY_INLINE void repeat(F f) {
  repeat_sequence(f, std::make_integer_sequence<int, kCount>());
}

#if QUIRE_PLAIN_LOOPS

// Vectors of four, which GCC and clang lower to what the processor has.
inline constexpr int kPartLanes = 4;
using Part = float __attribute__((vector_size(16)));
using IntPart = int32_t __attribute__((vector_size(16)));

#else

namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_AVX2
using FloatTag = hn::FixedTag<float, 8>;
#else
using FloatTag = hn::FixedTag<float, 16>;
#endif
using IntTag = hn::RebindToSigned<FloatTag>;
using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
inline constexpr int kPartLanes = HWY_TARGET == HWY_AVX2 ? 8 : 16;
using Part = hn::Vec<FloatTag>;

#endif

inline constexpr int kParts = kLanes / kPartLanes;

struct Vec16 {
  Part part[kParts];
};

// The vector whose parts are f(0), f(1), ...
template <typename F>
HWY_INLINE Vec16 each_part(F f) {
  Vec16 out;
  repeat<kParts>(QUIRE_LAMBDA(auto i) { out.part[i] = f(i); });
  return out;
}

#if QUIRE_PLAIN_LOOPS

// Applies f to each lane.
template <typename F>
HWY_INLINE Vec16 each_lane(F f) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = f(i);
  Vec16 out;
  std::memcpy(out.part, lanes, sizeof(lanes));
  return out;
}

HWY_INLINE Part load_part(const float* p) {
  Part v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
HWY_INLINE void store_part(Part v, float* p) { std::memcpy(p, &v, sizeof(v)); }
HWY_INLINE Part set_part(float x) { return Part{x, x, x, x}; }
HWY_INLINE IntPart bits_of(Part v) { return std::bit_cast<IntPart>(v); }
HWY_INLINE Part from_bits(IntPart v) { return std::bit_cast<Part>(v); }
HWY_INLINE Part add_part(Part a, Part b) { return a + b; }
HWY_INLINE Part sub_part(Part a, Part b) { return a - b; }
HWY_INLINE Part mul_part(Part a, Part b) { return a * b; }
HWY_INLINE Part div_part(Part a, Part b) { return a / b; }
HWY_INLINE Part multiply_add_part(Part a, Part b, Part c) { return a * b + c; }
// Lanes of a where the mask is all ones, of b where it is zero.
HWY_INLINE Part select_part(IntPart mask, Part a, Part b) { return from_bits((mask & bits_of(a)) | (~mask & bits_of(b))); }
HWY_INLINE Part max_part(Part a, Part b) { return select_part(a > b, a, b); }
HWY_INLINE Part min_part(Part a, Part b) { return select_part(a < b, a, b); }
HWY_INLINE auto less_part(Part a, Part b) { return a < b; }
HWY_INLINE auto inside_part(int first_lane, int begin, int end) {
  const IntPart lane = IntPart{0, 1, 2, 3} + first_lane;
  return (lane >= begin) & (lane < end);
}
HWY_INLINE Part add_to_exponent_part(Part v, Part shifted) {
  using Bits = uint32_t __attribute__((vector_size(16)));
  return std::bit_cast<Part>(std::bit_cast<Bits>(v) + (std::bit_cast<Bits>(shifted) << 23));
}
HWY_INLINE Part power_of_two_part(Part n) { return from_bits((__builtin_convertvector(n, IntPart) + 127) << 23); }
HWY_INLINE Part load_f16_part(const uint16_t* p) {
  using Halves = uint16_t __attribute__((vector_size(8)));
  Halves halves;
  std::memcpy(&halves, p, sizeof(halves));
  const IntPart wide = __builtin_convertvector(halves, IntPart);
  const IntPart rest = wide & 0x7fff;
  const Part finite = from_bits(rest << 13) * set_part(0x1p112f);
  const IntPart quiet = (rest > 0x7c00) & 0x400000;
  const Part special = from_bits((rest << 13) | 0x7f800000 | quiet);
  return from_bits(bits_of(select_part(rest >= 0x7c00, special, finite)) | ((wide & 0x8000) << 16));
}
HWY_INLINE void store_f16_part(Part v, uint16_t* p) {
  for (int i = 0; i < kPartLanes; ++i) p[i] = float_to_half(v[i]);
}
HWY_INLINE void load_pairs_part(const float* p, Part& even, Part& odd) {
  even = Part{p[0], p[2], p[4], p[6]};
  odd = Part{p[1], p[3], p[5], p[7]};
}
HWY_INLINE void store_pairs_part(Part even, Part odd, float* p) {
  for (int i = 0; i < kPartLanes; ++i) {
    p[2 * i] = even[i];
    p[2 * i + 1] = odd[i];
  }
}
// a * b + c
HWY_INLINE float multiply_add(float a, float b, float c) { return a * b + c; }

// Horizontal reductions in the fixed order of docs/arithmetic.md: lanes i and i + 8, then i and i + 4, i + 2, i + 1.
HWY_INLINE float reduce_add(Vec16 v) {
  const Part four = (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
HWY_INLINE float reduce_max(Vec16 v) {
  const Part four = max_part(max_part(v.part[0], v.part[2]), max_part(v.part[1], v.part[3]));
  const float a = four[0] > four[2] ? four[0] : four[2];
  const float b = four[1] > four[3] ? four[1] : four[3];
  return a > b ? a : b;
}

#else  // vectors of Highway

HWY_INLINE Part load_part(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE void store_part(Part v, float* p) { hn::StoreU(v, FloatTag(), p); }
HWY_INLINE Part set_part(float x) { return hn::Set(FloatTag(), x); }
HWY_INLINE Part add_part(Part a, Part b) { return hn::Add(a, b); }
HWY_INLINE Part sub_part(Part a, Part b) { return hn::Sub(a, b); }
HWY_INLINE Part mul_part(Part a, Part b) { return hn::Mul(a, b); }
HWY_INLINE Part div_part(Part a, Part b) { return hn::Div(a, b); }
HWY_INLINE Part multiply_add_part(Part a, Part b, Part c) { return hn::MulAdd(a, b, c); }
HWY_INLINE Part max_part(Part a, Part b) { return hn::Max(a, b); }
HWY_INLINE Part min_part(Part a, Part b) { return hn::Min(a, b); }
HWY_INLINE auto less_part(Part a, Part b) { return hn::Lt(a, b); }
template <typename Mask>
HWY_INLINE Part select_part(Mask mask, Part a, Part b) {
  return hn::IfThenElse(mask, a, b);
}
HWY_INLINE auto inside_part(int first_lane, int begin, int end) {
  const auto lane = hn::Iota(IntTag(), first_lane);
  const auto inside = hn::And(hn::Gt(lane, hn::Set(IntTag(), begin - 1)), hn::Lt(lane, hn::Set(IntTag(), end)));
  return hn::RebindMask(FloatTag(), inside);
}
HWY_INLINE Part add_to_exponent_part(Part v, Part shifted) {
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(IntTag(), shifted));
  return hn::BitCast(FloatTag(), hn::Add(hn::BitCast(IntTag(), v), exponent));
}
HWY_INLINE Part power_of_two_part(Part n) {
  const auto exponent = hn::Add(hn::ConvertTo(IntTag(), n), hn::Set(IntTag(), 127));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(exponent));
}
HWY_INLINE Part load_f16_part(const uint16_t* p) {
  return hn::PromoteTo(FloatTag(), hn::LoadU(HalfTag(), reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void store_f16_part(Part v, uint16_t* p) {
  hn::StoreU(hn::DemoteTo(HalfTag(), v), HalfTag(), reinterpret_cast<hwy::float16_t*>(p));
}
HWY_INLINE void load_pairs_part(const float* p, Part& even, Part& odd) { hn::LoadInterleaved2(FloatTag(), p, even, odd); }
HWY_INLINE void store_pairs_part(Part even, Part odd, float* p) { hn::StoreInterleaved2(even, odd, FloatTag(), p); }
// a * b + c
HWY_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Horizontal reductions in the fixed order of docs/arithmetic.md: lanes i and i + 8, then i and i + 4, i + 2, i + 1.
using EightTag = hn::FixedTag<float, 8>;
using FourTag = hn::FixedTag<float, 4>;
HWY_INLINE float reduce_add(Vec16 v) {
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Add(v.part[0], v.part[1]);
#else
  const auto eight = hn::Add(hn::LowerHalf(EightTag(), v.part[0]), hn::UpperHalf(EightTag(), v.part[0]));
#endif
  auto four = hn::Add(hn::LowerHalf(FourTag(), eight), hn::UpperHalf(FourTag(), eight));
  four = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(four, hn::Shuffle2301(four)));
}
HWY_INLINE float reduce_max(Vec16 v) {
#if HWY_TARGET == HWY_AVX2
  const auto eight = hn::Max(v.part[0], v.part[1]);
#else
  const auto eight = hn::Max(hn::LowerHalf(EightTag(), v.part[0]), hn::UpperHalf(EightTag(), v.part[0]));
#endif
  auto four = hn::Max(hn::LowerHalf(FourTag(), eight), hn::UpperHalf(FourTag(), eight));
  four = hn::Max(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Max(four, hn::Shuffle2301(four)));
}

#endif  // QUIRE_PLAIN_LOOPS

HWY_INLINE Vec16 set1(float x) {
  return each_part(QUIRE_LAMBDA(int) { return set_part(x); });
}
HWY_INLINE Vec16 zero() { return set1(0.0f); }
HWY_INLINE Vec16 load(const float* p) {
  return each_part(QUIRE_LAMBDA(int i) { return load_part(p + i * kPartLanes); });
}
HWY_INLINE void store(Vec16 v, float* p) {
  repeat<kParts>(QUIRE_LAMBDA(auto i) { store_part(v.part[i], p + i * kPartLanes); });
}
HWY_INLINE Vec16 add(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return add_part(a.part[i], b.part[i]); });
}
HWY_INLINE Vec16 sub(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return sub_part(a.part[i], b.part[i]); });
}
HWY_INLINE Vec16 mul(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return mul_part(a.part[i], b.part[i]); });
}
HWY_INLINE Vec16 div(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return div_part(a.part[i], b.part[i]); });
}
// a * b + c
HWY_INLINE Vec16 multiply_add(Vec16 a, Vec16 b, Vec16 c) {
  return each_part(QUIRE_LAMBDA(int i) { return multiply_add_part(a.part[i], b.part[i], c.part[i]); });
}
// The larger lane; when either is NaN, b's.
HWY_INLINE Vec16 max(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return max_part(a.part[i], b.part[i]); });
}
HWY_INLINE Vec16 min(Vec16 a, Vec16 b) {
  return each_part(QUIRE_LAMBDA(int i) { return min_part(a.part[i], b.part[i]); });
}
// Lane i where begin <= i < end, else other's lane i; whatever v holds there, NaN too.
HWY_INLINE Vec16 keep_lanes(Vec16 v, int begin, int end, Vec16 other) {
  return each_part(QUIRE_LAMBDA(int i) { return select_part(inside_part(i * kPartLanes, begin, end), v.part[i], other.part[i]); });
}
// Lane i of v where x < bound does not hold, else +0.
HWY_INLINE Vec16 zero_below(Vec16 v, Vec16 x, float bound) {
  return each_part(QUIRE_LAMBDA(int i) { return select_part(less_part(x.part[i], set_part(bound)), set_part(0.0f), v.part[i]); });
}
// Lane i of v where x > bound does not hold, else other.
HWY_INLINE Vec16 replace_above(Vec16 v, Vec16 x, float bound, float other) {
  return each_part(QUIRE_LAMBDA(int i) { return select_part(less_part(set_part(bound), x.part[i]), set_part(other), v.part[i]); });
}
// To the nearest integer, ties to even; |x| < 2^22.
HWY_INLINE Vec16 round_nearest(Vec16 v) {
  const Vec16 shift = set1(12582912.0f);
  return sub(add(v, shift), shift);
}
// v * 2^n by adding n to the exponent bits, where n is held in the low bits of `shifted` (see kRoundingShift).
HWY_INLINE Vec16 add_to_exponent(Vec16 v, Vec16 shifted) {
  return each_part(QUIRE_LAMBDA(int i) { return add_to_exponent_part(v.part[i], shifted.part[i]); });
}
// 2^n for integral n in [-126, 127].
HWY_INLINE Vec16 power_of_two(Vec16 n) {
  return each_part(QUIRE_LAMBDA(int i) { return power_of_two_part(n.part[i]); });
}
// f16 <-> f32 of 16 values: conversions are exact or round to nearest even, on every set.
HWY_INLINE Vec16 load_f16(const void* p) {
  const auto* halves = static_cast<const uint16_t*>(p);
  return each_part(QUIRE_LAMBDA(int i) { return load_f16_part(halves + i * kPartLanes); });
}
HWY_INLINE void store_f16(Vec16 v, void* p) {
  auto* halves = static_cast<uint16_t*>(p);
  repeat<kParts>(QUIRE_LAMBDA(auto i) { store_f16_part(v.part[i], halves + i * kPartLanes); });
}
// even.lane[i] = p[2i], odd.lane[i] = p[2i + 1].
HWY_INLINE void load_pairs(const float* p, Vec16& even, Vec16& odd) {
  repeat<kParts>(QUIRE_LAMBDA(auto i) { load_pairs_part(p + 2 * i * kPartLanes, even.part[i], odd.part[i]); });
}
HWY_INLINE void store_pairs(Vec16 even, Vec16 odd, float* p) {
  repeat<kParts>(QUIRE_LAMBDA(auto i) { store_pairs_part(even.part[i], odd.part[i], p + 2 * i * kPartLanes); });
}

// A hint that the line at p is read soon: fetches it into the second-level cache, which may wait for more lines than the first.
HWY_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
