#include "tests/support/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "gguf/half.h"

namespace quire::test_support {
namespace {

using gguf::TensorType;

void store_half(float value, std::byte* at) {
  const uint16_t half = gguf::float_to_half(value);
  std::memcpy(at, &half, 2);
}

// The value as it will be read back.
float as_half(float value) { return gguf::half_to_float(gguf::float_to_half(value)); }

int rounded(float value, float step, int least, int most) {
  if (step == 0.0f) return std::clamp(0, least, most);
  return static_cast<int>(std::clamp(std::nearbyint(value / step), static_cast<float>(least), static_cast<float>(most)));
}

// The value of largest magnitude, with its sign.
float extreme(const float* x, int count) {
  return *std::max_element(x, x + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

// Weight i of 32 into 16 bytes: low nibbles first.
void store_nibble(int q, int i, std::byte* nibbles) { nibbles[i % 16] |= static_cast<std::byte>(q << (i < 16 ? 0 : 4)); }

// The functions below each write one block, whose bytes are zero before.

void write_f32(const float* x, std::byte* block) { std::memcpy(block, x, 4); }

void write_f16(const float* x, std::byte* block) { store_half(*x, block); }

void write_bf16(const float* x, std::byte* block) {
  const uint16_t bits = gguf::float_to_bfloat16(*x);
  std::memcpy(block, &bits, 2);
}

void write_q4_0(const float* x, std::byte* block) {
  const float d = as_half(extreme(x, 32) / -8.0f);
  store_half(d, block);
  for (int i = 0; i < 32; ++i) store_nibble(rounded(x[i], d, -8, 7) + 8, i, block + 2);
}

void write_q4_1(const float* x, std::byte* block) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float d = as_half((*most - *least) / 15.0f);
  const float m = as_half(*least);
  store_half(d, block);
  store_half(m, block + 2);
  for (int i = 0; i < 32; ++i) store_nibble(rounded(x[i] - m, d, 0, 15), i, block + 4);
}

void write_q5_0(const float* x, std::byte* block) {
  const float d = as_half(extreme(x, 32) / -16.0f);
  store_half(d, block);
  uint32_t fifth_bits = 0;
  for (int i = 0; i < 32; ++i) {
    const int q = rounded(x[i], d, -16, 15) + 16;
    store_nibble(q & 15, i, block + 6);
    fifth_bits |= static_cast<uint32_t>(q >> 4) << i;
  }
  std::memcpy(block + 2, &fifth_bits, 4);
}

void write_q8_0(const float* x, std::byte* block) {
  const float d = as_half(std::fabs(extreme(x, 32)) / 127.0f);
  store_half(d, block);
  for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(rounded(x[i], d, -127, 127));
}

// Q4_K (largest = 15) and Q5_K (largest = 31); fifth_bits is null for the former.
void write_k_block(const float* x, int largest, std::byte* block, std::byte* fifth_bits, std::byte* nibbles) {
  std::array<float, 8> steps{};
  std::array<float, 8> depths{};  // how far below zero each sub-block begins
  for (int i = 0; i < 8; ++i) {
    const auto [least, most] = std::minmax_element(x + i * 32, x + i * 32 + 32);
    depths[i] = std::max(0.0f, -*least);
    steps[i] = (std::max(*most, -depths[i]) + depths[i]) / static_cast<float>(largest);
  }
  const float d = as_half(*std::max_element(steps.begin(), steps.end()) / 63.0f);
  const float dmin = as_half(*std::max_element(depths.begin(), depths.end()) / 63.0f);
  store_half(d, block);
  store_half(dmin, block + 2);
  std::array<int, 8> scales{};
  std::array<int, 8> mins{};
  for (int i = 0; i < 8; ++i) {
    scales[i] = rounded(steps[i], d, 0, 63);
    mins[i] = rounded(depths[i], dmin, 0, 63);
    for (int l = 0; l < 32; ++l) {
      const float above = x[i * 32 + l] + dmin * static_cast<float>(mins[i]);
      const int q = rounded(above, d * static_cast<float>(scales[i]), 0, largest);
      nibbles[i / 2 * 32 + l] |= static_cast<std::byte>((q & 15) << (i % 2 * 4));
      if (fifth_bits) fifth_bits[l] |= static_cast<std::byte>(q >> 4 << i);
    }
  }
  pack_scales_and_mins(scales, mins, block + 4);
}

void write_q4_k(const float* x, std::byte* block) { write_k_block(x, 15, block, nullptr, block + 16); }

void write_q5_k(const float* x, std::byte* block) { write_k_block(x, 31, block, block + 16, block + 48); }

void write_q6_k(const float* x, std::byte* block) {
  std::array<float, 16> steps{};
  for (int i = 0; i < 16; ++i) steps[i] = extreme(x + i * 16, 16) / -32.0f;
  const float d = as_half(std::fabs(extreme(steps.data(), 16)) / 127.0f);
  store_half(d, block + 208);
  for (int i = 0; i < 256; ++i) {
    const int scale = rounded(steps[i / 16], d, -127, 127);
    block[192 + i / 16] = static_cast<std::byte>(scale);
    const int q = rounded(x[i], d * static_cast<float>(scale), -32, 31) + 32;
    const int half = i / 128;
    const int group = i % 128 / 32;
    block[half * 64 + group % 2 * 32 + i % 32] |= static_cast<std::byte>((q & 15) << (group / 2 * 4));
    block[128 + half * 32 + i % 32] |= static_cast<std::byte>(q >> 4 << (group * 2));
  }
}

using WriteBlock = void (*)(const float* x, std::byte* block);

WriteBlock writer_of(TensorType type) {
  switch (type) {
    case TensorType::kF32: return write_f32;
    case TensorType::kF16: return write_f16;
    case TensorType::kBF16: return write_bf16;
    case TensorType::kQ4_0: return write_q4_0;
    case TensorType::kQ4_1: return write_q4_1;
    case TensorType::kQ5_0: return write_q5_0;
    case TensorType::kQ8_0: return write_q8_0;
    case TensorType::kQ4_K: return write_q4_k;
    case TensorType::kQ5_K: return write_q5_k;
    case TensorType::kQ6_K: return write_q6_k;
  }
  check_failed(__FILE__, __LINE__, "a TensorType holds one of its enumerators");
}

}  // namespace

std::vector<std::byte> quantize(TensorType type, std::span<const float> weights) {
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<std::byte> out(static_cast<size_t>(gguf::row_bytes(type, count)));
  const WriteBlock write_block = writer_of(type);
  for (int64_t i = 0; i < count / gguf::block_elements(type); ++i) {
    write_block(weights.data() + i * gguf::block_elements(type), out.data() + i * gguf::block_bytes(type));
  }
  return out;
}

void pack_scales_and_mins(std::span<const int, 8> scales, std::span<const int, 8> mins, std::byte* packed) {
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<std::byte>(scales[i] | scales[i + 4] >> 4 << 6);
    packed[i + 4] = static_cast<std::byte>(mins[i] | mins[i + 4] >> 4 << 6);
    packed[i + 8] = static_cast<std::byte>((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4);
  }
}

}  // namespace quire::test_support
