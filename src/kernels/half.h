// IEEE half precision <-> f32, one value at a time, as F16C and AVX-512 convert: to f32 exactly, to f16 by rounding to nearest
// even. Beyond 65504 (after rounding) the result is infinity; the NaNs stay NaNs and become quiet.
#pragma once

#include <bit>
#include <cstdint>

namespace quire::kernels {

[[nodiscard]] inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  if (rest >= 0x7c00u) {
    const uint32_t quiet = rest > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13) | quiet);
  }
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

[[nodiscard]] inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: the f32 addition rounds
    const float shifted = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace quire::kernels
