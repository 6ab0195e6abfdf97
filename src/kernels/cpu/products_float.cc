#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products_float.cc"
#include "kernels/cpu/targets.h"
// Order matters: targets.h says what foreach_target.h compiles.
#include <hwy/foreach_target.h>

#include "kernels/cpu/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

// A float format: load the 16 values of one input.
struct F32Values {
  static constexpr size_t kInputBytes = 64;
  static HWY_INLINE Vec16 load_input(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Values {
  static constexpr size_t kInputBytes = 32;
  static HWY_INLINE Vec16 load_input(const std::byte* p) { return load_f16(p); }
};
struct BF16Values {
  static constexpr size_t kInputBytes = 32;
  static HWY_INLINE Vec16 load_input(const std::byte* p) { return load_bf16(p); }
};

// Four chains of sums, input k in chain k mod 4, hide the latency of multiply_add.
inline constexpr int kChains = 4;
#if QUIRE_AVX512
inline constexpr int kFloatPassRows = 4;
#else
inline constexpr int kFloatPassRows = 1;
#endif

template <typename Format, int kRows>
HWY_INLINE void add_input(const std::byte* weights, const float* x, int64_t stride, int chain, Vec16 (&sums)[kRows][kChains]) {
  const Vec16 w = Format::load_input(weights);
  unroll<kRows>(QUIRE_UNROLLED(r) { sums[r][chain] = multiply_add(w, set1(x[r * stride]), sums[r][chain]); });
}

template <typename Format, int kRows>
void float_pass(const Product& product, int group, int row, size_t ahead) {
  const int inputs = product.weights.inputs;
  const int64_t stride = product.x.stride;
  const float* x = product.x.values + row * stride;
  const std::byte* weights = product.weights.data + group * group_bytes(product.weights.format, inputs);
  Vec16 sums[kRows][kChains];
  unroll<kRows * kChains>(QUIRE_UNROLLED(i) { sums[i / kChains][i % kChains] = zero(); });
  int k = 0;
  for (; k + kChains <= inputs; k += kChains) {
    prefetch(weights, ahead, kChains * Format::kInputBytes);
    unroll<kChains>(QUIRE_UNROLLED(c) { add_input<Format, kRows>(weights + c * Format::kInputBytes, x + k + c, stride, c, sums); });
    weights += kChains * Format::kInputBytes;
  }
  unroll<kChains - 1>(QUIRE_UNROLLED(c) {
    if (k + c < inputs) add_input<Format, kRows>(weights + c * Format::kInputBytes, x + k + c, stride, c, sums);
  });
  alignas(64) float results[kRows][kLanes];
  unroll<kRows>(QUIRE_UNROLLED(r) { store(add(add(sums[r][0], sums[r][1]), add(sums[r][2], sums[r][3])), results[r]); });
  store_outputs(product, group, row, kRows, results[0]);
}

template <typename Format>
void float_pass_rows(const Product& product, int group, int row, int rows, size_t ahead) {
  switch (rows) {
    case 1: return float_pass<Format, 1>(product, group, row, ahead);
#if QUIRE_AVX512
    case 2: return float_pass<Format, 2>(product, group, row, ahead);
    case 3: return float_pass<Format, 3>(product, group, row, ahead);
    case 4: return float_pass<Format, 4>(product, group, row, ahead);
#endif
  }
}

template <typename Format>
void multiply_float(const Product& product) {
  const size_t row_bytes = static_cast<size_t>(product.x.inputs) * sizeof(float);
  const int passes = static_cast<int>(kPanelBytes / (row_bytes * kFloatPassRows));
  const int panel = kFloatPassRows * (passes < 1 ? 1 : passes);
  for (int begin = 0; begin < product.x.rows; begin += panel) {
    const int end = product.x.rows - begin < panel ? product.x.rows : begin + panel;
    for (int group = product.group_begin; group < product.group_end; ++group) {
      for (int row = begin; row < end; row += kFloatPassRows)
        float_pass_rows<Format>(product, group, row, end - row < kFloatPassRows ? end - row : kFloatPassRows,
                                row == begin ? kPrefetchBytes : 0);
    }
  }
}

void multiply_f32(const Product& product) { multiply_float<F32Values>(product); }
void multiply_f16(const Product& product) { multiply_float<F16Values>(product); }
void multiply_bf16(const Product& product) { multiply_float<BF16Values>(product); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
