#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products.cc"
#include "kernels/cpu/targets.h"
// Order matters: targets.h says what foreach_target.h compiles.
#include <hwy/foreach_target.h>

#include "kernels/cpu/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

// Quantizes 32 values: docs/arithmetic.md, "Activations".
HWY_INLINE void quantize_block(const float* x, ActivationBlock& block) {
  block = ActivationBlock{};
  uint32_t largest = 0;  // the bits of |x| order like the numbers, NaN above infinity
  for (int i = 0; i < layout::kBlockInputs; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  const float amax = std::bit_cast<float>(largest);
  if (amax < layout::kSmallestAmax) return;
  if (largest >= 0x7f800000u) {
    block.scale = block.scaled_sum = std::bit_cast<float>(0x7fc00000u);
    return;
  }
  block.scale = amax / 127.0f;
  const Vec16 inverse = set1(127.0f / amax);
  int32_t sums[2] = {0, 0};
  for (int half = 0; half < 2; ++half) {
    float rounded[kLanes];
    store(round_nearest(mul(load(x + half * kLanes), inverse)), rounded);
    for (int i = 0; i < kLanes; ++i) {
      const int32_t q = static_cast<int32_t>(rounded[i]);
      block.q[half * kLanes + i] = static_cast<int8_t>(q);
      sums[half] += q;
    }
  }
  const int32_t sum = sums[0] + sums[1];
  block.scaled_sum = block.scale * static_cast<float>(sum);
  block.start_8 = -8 * sum;
  block.start_16 = -16 * sum;
  block.start_128 = -128 * sum;
  block.start_32[0] = -32 * sums[0];
  block.start_32[1] = -32 * sums[1];
}

void quantize(const float* values, int64_t stride, int rows, int inputs, int tile_begin, int tile_end, std::byte* quantized) {
  const int blocks = inputs / layout::kBlockInputs;
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    const int first = tile * kRowTile;
    const int count = rows - first < kRowTile ? rows - first : kRowTile;
    auto* out = reinterpret_cast<ActivationBlock*>(quantized) + static_cast<int64_t>(first) * blocks;
    for (int r = 0; r < count; ++r) {
      const float* row = values + (first + r) * stride;
      for (int b = 0; b < blocks; ++b) quantize_block(row + b * layout::kBlockInputs, out[b * count + r]);
    }
  }
}

void store_outputs(const Product& product, int group, int row, int rows, const float* sums) {
  const int first = group * kGroupOutputs;
  const int count = product.weights.outputs - first < kGroupOutputs ? product.weights.outputs - first : kGroupOutputs;
  for (int r = 0; r < rows; ++r, sums += kGroupOutputs) {
    float* out = product.out + (row + r) * product.out_stride + first;
    if (count == kGroupOutputs) {
      store(product.store == Store::kAdd ? add(load(out), load(sums)) : load(sums), out);
      continue;
    }
    for (int i = 0; i < count; ++i) out[i] = product.store == Store::kAdd ? out[i] + sums[i] : sums[i];
  }
}

void multiply(const PackedMatrix& weights, const Activations& x, int group_begin, int group_end, Store store, float* out,
              int64_t out_stride) {
  const Product product{weights, x, group_begin, group_end, store, out, out_stride};
  switch (weights.format) {
    case WeightFormat::kF32: return multiply_f32(product);
    case WeightFormat::kF16: return multiply_f16(product);
    case WeightFormat::kBF16: return multiply_bf16(product);
    case WeightFormat::kQ4_0: return multiply_q4_0(product);
    case WeightFormat::kQ4_1: return multiply_q4_1(product);
    case WeightFormat::kQ5_0: return multiply_q5_0(product);
    case WeightFormat::kQ8_0: return multiply_q8_0(product);
    case WeightFormat::kQ4_K: return multiply_q4_k(product);
    case WeightFormat::kQ5_K: return multiply_q5_k(product);
    case WeightFormat::kQ6_K: return multiply_q6_k(product);
  }
}

ProductKernels product_kernels() { return {&quantize, &multiply}; }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
