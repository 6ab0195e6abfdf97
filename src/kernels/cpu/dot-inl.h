// Exact integer dot products of unsigned codes with signed bytes, sixteen outputs at a time.
//
// A Bytes64 holds 16 outputs x 4 inputs, an Ints16 16 sums of 32 bits. The sums are exact on every instruction set, so how they
// are formed does not show: VNNI adds four products a lane in one instruction; without it pairs of products are added in 16 bits,
// as many as cannot overflow for the largest code of the format.
//
// Compiled once for each target by hwy/foreach_target.h, hence the unusual include guard.
#if defined(QUIRE_KERNELS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_DOT_INL_H_
#undef QUIRE_KERNELS_CPU_DOT_INL_H_
#else
#define QUIRE_KERNELS_CPU_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <utility>

#include "kernels/cpu/vec16-inl.h"

#define QUIRE_AVX512 (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL)
#define QUIRE_VNNI (HWY_TARGET == HWY_AVX3_DL)

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

#if QUIRE_PLAIN_LOOPS

struct Bytes64 {
  uint8_t byte[64];
};
struct Ints16 {
  int32_t lane[kLanes];
};

HWY_INLINE Bytes64 load_bytes(const std::byte* p) {
  Bytes64 v;
  std::memcpy(v.byte, p, sizeof(v.byte));
  return v;
}
HWY_INLINE Bytes64 low_nibbles(Bytes64 v) {
  for (uint8_t& b : v.byte) b &= 15;
  return v;
}
HWY_INLINE Bytes64 high_nibbles(Bytes64 v) {
  for (uint8_t& b : v.byte) b >>= 4;
  return v;
}
// The codes with their bits 4 and up taken from `kBits` bits of the plane, which begin there at bit kPosition.
template <int kPosition, int kBits>
HWY_INLINE Bytes64 join(Bytes64 codes, Bytes64 plane) {
  for (int i = 0; i < 64; ++i) {
    const int high = (plane.byte[i] >> kPosition) & ((1 << kBits) - 1);
    codes.byte[i] = static_cast<uint8_t>(codes.byte[i] | (high << 4));
  }
  return codes;
}
HWY_INLINE Ints16 set1_int(int32_t x) {
  Ints16 v;
  for (int32_t& lane : v.lane) lane = x;
  return v;
}
HWY_INLINE Vec16 to_float(Ints16 v) {
  return each_lane([&](int i) { return static_cast<float>(v.lane[i]); });
}
HWY_INLINE Vec16 load_u8(const std::byte* p) {
  return each_lane([&](int i) { return static_cast<float>(std::to_integer<uint8_t>(p[i])); });
}
HWY_INLINE Vec16 load_i8(const std::byte* p) {
  return each_lane([&](int i) { return static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(p[i]))); });
}
HWY_INLINE Vec16 load_bf16(const std::byte* p) {
  uint16_t bits[kLanes];
  std::memcpy(bits, p, sizeof(bits));
  return each_lane([&](int i) { return std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16); });
}

// Eight products in 16 bits; the compiler's own vectors, whatever the processor has.
using Shorts = int16_t __attribute__((vector_size(16)));
inline constexpr int kShortsOfQuad = 64 / 8;

HWY_INLINE Shorts codes_at(const Bytes64& quad, int i) {
  using Codes = uint8_t __attribute__((vector_size(8)));
  Codes codes;
  std::memcpy(&codes, quad.byte + 8 * i, sizeof(codes));
  return __builtin_convertvector(codes, Shorts);
}

// start + the sum over the quads of codes * x; codes are at most kMaxCode, x is in [-127, 127]. Products of several quads are added
// in 16 bits, as many as cannot overflow; codes up to 255 have their offset of 128 taken out for that, which leaves the start,
// whose work it is, nothing to do.
template <int kMaxCode, int kQuadCount>
HWY_INLINE Ints16 dot(const Bytes64* quads, const int8_t* x, int32_t start) {
  constexpr int kOffset = kMaxCode == 255 ? 128 : 0;
  constexpr int kFitting = 32767 / ((kMaxCode == 255 ? 128 : kMaxCode) * 127);
  constexpr int kAtOnce = kFitting < kQuadCount ? kFitting : kQuadCount;
  static_assert(kAtOnce > 0 && kQuadCount % kAtOnce == 0);
  Ints16 sum = set1_int(kOffset == 0 ? start : 0);
  for (int first = 0; first < kQuadCount; first += kAtOnce) {
    Shorts products[kShortsOfQuad] = {};
    for (int j = first; j < first + kAtOnce; ++j) {
      const int8_t* q = x + 4 * j;
      const Shorts twice = {q[0], q[1], q[2], q[3], q[0], q[1], q[2], q[3]};
      for (int i = 0; i < kShortsOfQuad; ++i) products[i] += (codes_at(quads[j], i) - static_cast<int16_t>(kOffset)) * twice;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < 4; ++i) sum.lane[lane] += products[lane / 2][lane % 2 * 4 + i];
    }
  }
  return sum;
}

#else  // vectors

using ByteTag = hn::FixedTag<uint8_t, 4 * kPartLanes>;
using WordTag = hn::FixedTag<uint16_t, 2 * kPartLanes>;

struct Bytes64 {
  hn::Vec<ByteTag> part[kParts];
};
struct Ints16 {
  hn::Vec<IntTag> part[kParts];
};

HWY_INLINE Bytes64 load_bytes(const std::byte* p) {
  Bytes64 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::LoadU(ByteTag(), reinterpret_cast<const uint8_t*>(p) + i * 4 * kPartLanes);
  return v;
}
HWY_INLINE Bytes64 low_nibbles(Bytes64 v) {
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::And(v.part[i], hn::Set(ByteTag(), 15));
  return v;
}
HWY_INLINE Bytes64 high_nibbles(Bytes64 v) {
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::BitCast(ByteTag(), hn::ShiftRight<4>(hn::BitCast(WordTag(), v.part[i])));
  return low_nibbles(v);
}
// The codes with their bits 4 and up taken from `kBits` bits of the plane, which begin there at bit kPosition.
template <int kPosition, int kBits>
HWY_INLINE Bytes64 join(Bytes64 codes, Bytes64 plane) {
  const auto mask = hn::Set(ByteTag(), ((1 << kBits) - 1) << 4);
  for (int i = 0; i < kParts; ++i) {
    auto words = hn::BitCast(WordTag(), plane.part[i]);
    if constexpr (kPosition < 4) words = hn::ShiftLeft<4 - kPosition>(words);
    if constexpr (kPosition > 4) words = hn::ShiftRight<kPosition - 4>(words);
    const auto high = hn::BitCast(ByteTag(), words);
#if QUIRE_AVX512
    constexpr int kFirstOrSecondAndThird = 0xf8;
    codes.part[i].raw = _mm512_ternarylogic_epi32(codes.part[i].raw, high.raw, mask.raw, kFirstOrSecondAndThird);
#else
    codes.part[i] = hn::Or(codes.part[i], hn::And(high, mask));
#endif
  }
  return codes;
}
HWY_INLINE Ints16 set1_int(int32_t x) {
  Ints16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = hn::Set(IntTag(), x);
  return v;
}
HWY_INLINE Vec16 to_float(Ints16 v) {
  Vec16 out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::ConvertTo(FloatTag(), v.part[i]);
  return out;
}
HWY_INLINE Vec16 load_u8(const std::byte* p) {
  const hn::Rebind<uint8_t, IntTag> bytes;
  Ints16 v;
  for (int i = 0; i < kParts; ++i)
    v.part[i] = hn::PromoteTo(IntTag(), hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(p) + i * kPartLanes));
  return to_float(v);
}
HWY_INLINE Vec16 load_i8(const std::byte* p) {
  const hn::Rebind<int8_t, IntTag> bytes;
  Ints16 v;
  for (int i = 0; i < kParts; ++i)
    v.part[i] = hn::PromoteTo(IntTag(), hn::LoadU(bytes, reinterpret_cast<const int8_t*>(p) + i * kPartLanes));
  return to_float(v);
}
HWY_INLINE Vec16 load_bf16(const std::byte* p) {
  const hn::RebindToUnsigned<FloatTag> bits;
  const hn::Rebind<uint16_t, FloatTag> halves;
  Vec16 out;
  for (int i = 0; i < kParts; ++i) {
    const auto half = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(p) + i * kPartLanes);
    out.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
  }
  return out;
}

HWY_INLINE int32_t quad_of(const int8_t* x) {
  int32_t value;
  std::memcpy(&value, x, sizeof(value));
  return value;
}

#if QUIRE_VNNI

// Adds the products of one quad. Assembly, because Highway's target lacks the compiler flag for the intrinsic, and because the
// compiler would spend an instruction on the broadcast.
HWY_INLINE void add_quad(__m512i codes, const int8_t* x, __m512i& sum) {
  using Quad [[gnu::may_alias]] = int32_t;
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const Quad*>(x)));
}

// start + the sum over the quads of codes * x; codes are at most kMaxCode, x is in [-127, 127].
template <int kMaxCode, int kQuadCount>
HWY_INLINE Ints16 dot(const Bytes64* quads, const int8_t* x, int32_t start) {
  Ints16 sum = set1_int(start);
  repeat<kQuadCount>(QUIRE_LAMBDA(auto j) { add_quad(quads[j].part[0].raw, x + 4 * j, sum.part[0].raw); });
  return sum;
}

#else

#if QUIRE_AVX512
using Register = __m512i;
HWY_INLINE Register broadcast(int32_t quad) { return _mm512_set1_epi32(quad); }
HWY_INLINE Register multiply_pairs(Register u, Register s) { return _mm512_maddubs_epi16(u, s); }
HWY_INLINE Register add_16(Register a, Register b) { return _mm512_add_epi16(a, b); }
HWY_INLINE Register add_32(Register a, Register b) { return _mm512_add_epi32(a, b); }
HWY_INLINE Register widen_pairs(Register v) { return _mm512_madd_epi16(v, _mm512_set1_epi16(1)); }
HWY_INLINE Register flip_top_bits(Register v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
HWY_INLINE Register magnitude(Register s) { return _mm512_abs_epi8(s); }
HWY_INLINE Register negate_where_negative(Register x, Register s) {
  return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(s), _mm512_setzero_si512(), x);
}
#else
using Register = __m256i;
HWY_INLINE Register broadcast(int32_t quad) { return _mm256_set1_epi32(quad); }
HWY_INLINE Register multiply_pairs(Register u, Register s) { return _mm256_maddubs_epi16(u, s); }
HWY_INLINE Register add_16(Register a, Register b) { return _mm256_add_epi16(a, b); }
HWY_INLINE Register add_32(Register a, Register b) { return _mm256_add_epi32(a, b); }
HWY_INLINE Register widen_pairs(Register v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
HWY_INLINE Register flip_top_bits(Register v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }
HWY_INLINE Register magnitude(Register s) { return _mm256_abs_epi8(s); }
HWY_INLINE Register negate_where_negative(Register x, Register s) { return _mm256_sign_epi8(x, s); }
#endif

// Codes up to 255 would overflow a pair's 16 bits. With the offset of 128 taken out they are signed, and |code| * (x with the
// code's sign) fits: 2 * 128 * 127 < 32768. The start, which is there to take the offset out, then has no work left.
template <int kQuadCount>
HWY_INLINE Ints16 dot_signed(const Bytes64* quads, const int8_t* x) {
  Ints16 sum = set1_int(0);
  repeat<kQuadCount>(QUIRE_LAMBDA(auto j) {
    const Register xs = broadcast(quad_of(x + 4 * j));
    repeat<kParts>(QUIRE_LAMBDA(auto p) {
      const Register code = flip_top_bits(quads[j].part[p].raw);
      const Register pairs = multiply_pairs(magnitude(code), negate_where_negative(xs, code));
      sum.part[p].raw = add_32(sum.part[p].raw, widen_pairs(pairs));
    });
  });
  return sum;
}

// start + the sum over the quads of codes * x; codes are at most kMaxCode, x is in [-127, 127].
template <int kMaxCode, int kQuadCount>
HWY_INLINE Ints16 dot(const Bytes64* quads, const int8_t* x, int32_t start) {
  if constexpr (kMaxCode == 255) {
    return dot_signed<kQuadCount>(quads, x);
  } else {
    constexpr int kFitting = 32767 / (2 * kMaxCode * 127);  // quads whose pairs add up in 16 bits
    constexpr int kAtOnce = kFitting < kQuadCount ? (kFitting >= 4 ? 4 : kFitting) : kQuadCount;
    static_assert(kAtOnce > 0 && kQuadCount % kAtOnce == 0);
    Ints16 sum = set1_int(start);
    repeat<kQuadCount / kAtOnce>(QUIRE_LAMBDA(auto run) {
      Register pairs[kParts];
      repeat<kAtOnce>(QUIRE_LAMBDA(auto i) {
        const int j = run * kAtOnce + i;
        const Register xs = broadcast(quad_of(x + 4 * j));
        repeat<kParts>(QUIRE_LAMBDA(auto p) {
          const Register product = multiply_pairs(quads[j].part[p].raw, xs);
          pairs[p] = i == 0 ? product : add_16(pairs[p], product);
        });
      });
      repeat<kParts>(QUIRE_LAMBDA(auto p) { sum.part[p].raw = add_32(sum.part[p].raw, widen_pairs(pairs[p])); });
    });
    return sum;
  }
}

#endif  // QUIRE_VNNI
#endif  // QUIRE_PLAIN_LOOPS

// The quads of a block whose codes are nibbles.
HWY_INLINE void load_nibble_quads(const std::byte* nibbles, Bytes64* quads) {
  repeat<4>(QUIRE_LAMBDA(auto v) {
    const Bytes64 both = load_bytes(nibbles + 64 * v);
    quads[v] = low_nibbles(both);
    quads[v + 4] = high_nibbles(both);
  });
}

// Adds bit 4 from the plane of one bit.
HWY_INLINE void join_plane_1(const std::byte* plane, Bytes64* quads) {
  const Bytes64 bits = load_bytes(plane);
  repeat<8>(QUIRE_LAMBDA(auto j) { quads[j] = join<j, 1>(quads[j], bits); });
}

// Adds bits 4 and 5 from the planes of two bits.
HWY_INLINE void join_plane_2(const std::byte* planes, Bytes64* quads) {
  const Bytes64 bits[2] = {load_bytes(planes), load_bytes(planes + 64)};
  repeat<8>(QUIRE_LAMBDA(auto j) { quads[j] = join<2 * (j % 4), 2>(quads[j], bits[j / 4]); });
}

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
