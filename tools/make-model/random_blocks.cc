#include "random_blocks.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "gguf/half.h"
#include "tests/support/quantize.h"

namespace quire::make_model {
namespace {

using gguf::TensorType;

// How the quants of a format are spread when all their bits are random.
struct Spread {
  float deviation;  // of a weight when the block's scale is 1
  float centre;     // the minimum that goes with scale 1, where a format has one, else 0
  bool signed_scale;
};

// The deviation of n equally likely numbers in steps of 1.
float uniform_deviation(float n) { return std::sqrt((n * n - 1) / 12); }

// The sub-scales of the K formats are uniform in [32, 63], those of Q6_K in +-[64, 127]: their root mean squares.
constexpr float kSubScale = 48.4f;
constexpr float kSubScaleQ6 = 97.2f;

Spread spread_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16: return {1, 0, false};
    case TensorType::kQ4_0: return {uniform_deviation(16), 0, true};
    case TensorType::kQ4_1: return {uniform_deviation(16), -7.5f, false};
    case TensorType::kQ5_0: return {uniform_deviation(32), 0, true};
    case TensorType::kQ8_0: return {uniform_deviation(255), 0, false};
    case TensorType::kQ4_K: return {uniform_deviation(16) * kSubScale, 7.5f, false};
    case TensorType::kQ5_K: return {uniform_deviation(32) * kSubScale, 15.5f, false};
    case TensorType::kQ6_K: return {uniform_deviation(64) * kSubScaleQ6, 0, false};
  }
  check_failed(__FILE__, __LINE__, "a TensorType holds one of its enumerators");
}

void fill_bytes(test_support::Random& random, std::byte* out, size_t count) {
  for (; count >= 8; count -= 8, out += 8) {
    const uint64_t bits = random.next();
    std::memcpy(out, &bits, 8);
  }
  const uint64_t bits = random.next();
  std::memcpy(out, &bits, count);
}

}  // namespace

RandomBlocks::RandomBlocks(TensorType type, float deviation, uint64_t seed) : type_(type), deviation_(deviation), random_(seed) {
  const Spread spread = spread_of(type);
  for (size_t i = 0; i < scales_.size(); ++i) {
    const float jitter = 0.75f + 0.5f * static_cast<float>(i / 2) / static_cast<float>(scales_.size() / 2 - 1);
    const float scale = deviation / spread.deviation * jitter;
    scales_[i] = gguf::float_to_half(spread.signed_scale && i % 2 == 1 ? -scale : scale);
    mins_[i] = gguf::float_to_half(gguf::half_to_float(scales_[i]) * spread.centre);
  }
}

void RandomBlocks::fill(std::span<std::byte> bytes) {
  const auto size = static_cast<size_t>(gguf::block_bytes(type_));
  QUIRE_CHECK(bytes.size() % size == 0, "whole blocks");
  for (size_t at = 0; at < bytes.size(); at += size) fill_block(bytes.data() + at);
}

void RandomBlocks::fill_block(std::byte* block) {
  if (gguf::block_elements(type_) == 1) return fill_float(block);
  const auto size = static_cast<size_t>(gguf::block_bytes(type_));
  fill_bytes(random_, block, size);
  const uint32_t draw = random_.below(static_cast<uint32_t>(scales_.size()));
  if (type_ == TensorType::kQ6_K) {
    std::memcpy(block + 208, &scales_[draw], 2);
    return fill_q6_k(block);
  }
  std::memcpy(block, &scales_[draw], 2);
  if (type_ == TensorType::kQ4_1 || type_ == TensorType::kQ4_K || type_ == TensorType::kQ5_K) {
    std::memcpy(block + 2, &mins_[draw], 2);
  }
  if (type_ == TensorType::kQ4_K || type_ == TensorType::kQ5_K) return fill_k_block(block);
  if (type_ == TensorType::kQ8_0) {
    // Quantizers never write -128, and kernels may rely on it.
    for (size_t i = 2; i < size; ++i) block[i] = block[i] == std::byte{0x80} ? std::byte{0} : block[i];
  }
}

void RandomBlocks::fill_float(std::byte* block) {
  const float weight = random_.normal() * deviation_;
  if (type_ == TensorType::kF32) {
    std::memcpy(block, &weight, 4);
    return;
  }
  const uint16_t bits = type_ == TensorType::kF16 ? gguf::float_to_half(weight) : gguf::float_to_bfloat16(weight);
  std::memcpy(block, &bits, 2);
}

// A sub-block's min equals its scale: times the block's centred minimum it centres the sub-block.
void RandomBlocks::fill_k_block(std::byte* block) {
  std::array<int, 8> scales;
  const uint64_t bits = random_.next();
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 32 + static_cast<int>(bits >> 5 * i & 31);
  test_support::pack_scales_and_mins(scales, scales, block + 4);
}

// Scales far from 0, of either sign.
void RandomBlocks::fill_q6_k(std::byte* block) {
  for (int i = 192; i < 208; ++i) {
    const int scale = 64 | (static_cast<int>(block[i]) & 63);
    block[i] = static_cast<std::byte>((block[i] & std::byte{64}) == std::byte{0} ? scale : -scale);
  }
}

}  // namespace quire::make_model
