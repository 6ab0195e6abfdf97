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

// Rows of a panel, whose sums wait in memory while a group's inputs are worked through in chunks: so a chunk's weights stay in the
// first-level cache until all rows have passed over them.
inline constexpr int kPanelRows = 64;
inline constexpr int kChunkInputs = 512;
static_assert(kChunkInputs % kChains == 0 && kPanelRows % kFloatPassRows == 0);

template <typename Format, int kRows>
HWY_INLINE void add_input(const std::byte* weights, const float* x, int64_t stride, int chain, Vec16 (&sums)[kRows][kChains]) {
  const Vec16 w = Format::load_input(weights);
  repeat<kRows>(QUIRE_LAMBDA(auto r) { sums[r][chain] = multiply_add(w, set1(x[r * stride]), sums[r][chain]); });
}

// Adds a chunk of `inputs` inputs to the sums of kRows rows.
template <typename Format, int kRows>
void float_pass(const std::byte* weights, const float* x, int64_t stride, int inputs, size_t ahead, Vec16 (*row_sums)[kChains]) {
  Vec16 sums[kRows][kChains];
  repeat<kRows * kChains>(QUIRE_LAMBDA(auto i) { sums[i / kChains][i % kChains] = row_sums[i / kChains][i % kChains]; });
  int k = 0;
  for (; k + kChains <= inputs; k += kChains) {
    prefetch(weights, ahead, kChains * Format::kInputBytes);
    repeat<kChains>(
        QUIRE_LAMBDA(auto c) { add_input<Format, kRows>(weights + c * Format::kInputBytes, x + k + c, stride, c, sums); });
    weights += kChains * Format::kInputBytes;
  }
  repeat<kChains - 1>(QUIRE_LAMBDA(auto c) {
    if (k + c < inputs) add_input<Format, kRows>(weights + c * Format::kInputBytes, x + k + c, stride, c, sums);
  });
  repeat<kRows * kChains>(QUIRE_LAMBDA(auto i) { row_sums[i / kChains][i % kChains] = sums[i / kChains][i % kChains]; });
}

template <typename Format, int kRows = kFloatPassRows>
HWY_INLINE void float_pass_rows(const std::byte* weights, const float* x, int64_t stride, int rows, int inputs, size_t ahead,
                                Vec16 (*row_sums)[kChains]) {
  if (rows >= kRows) return float_pass<Format, kRows>(weights, x, stride, inputs, ahead, row_sums);
  if constexpr (kRows > 1) float_pass_rows<Format, kRows - 1>(weights, x, stride, rows, inputs, ahead, row_sums);
}

// The group's outputs for the rows [begin, begin + rows), rows <= kPanelRows.
template <typename Format>
void float_panel(const Product& product, int group, int begin, int rows, size_t ahead) {
  const int inputs = product.weights.inputs;
  const int64_t stride = product.x.stride;
  const std::byte* weights = product.weights.data + static_cast<size_t>(group) * group_bytes(product.weights.format, inputs);
  Vec16 sums[kPanelRows][kChains];
  for (int r = 0; r < rows; ++r) repeat<kChains>(QUIRE_LAMBDA(auto c) { sums[r][c] = zero(); });
  for (int first = 0; first < inputs; first += kChunkInputs) {
    const int count = inputs - first < kChunkInputs ? inputs - first : kChunkInputs;
    for (int r = 0; r < rows; r += kFloatPassRows)
      float_pass_rows<Format>(weights + static_cast<size_t>(first) * Format::kInputBytes,
                              product.x.values + (begin + r) * stride + first, stride, rows - r, count, r == 0 ? ahead : 0,
                              sums + r);
  }
  for (int r = 0; r < rows; ++r) {
    alignas(64) float results[kLanes];
    store(add(add(sums[r][0], sums[r][1]), add(sums[r][2], sums[r][3])), results);
    store_outputs(product, group, begin + r, 1, results);
  }
}

template <typename Format>
void multiply_float(const Product& product) {
  const size_t ahead = product.x.rows > 1 ? kPrefetchBytes : product_tuning().prefetch_bytes;
  for (int begin = 0; begin < product.x.rows; begin += kPanelRows) {
    const int rows = product.x.rows - begin < kPanelRows ? product.x.rows - begin : kPanelRows;
    for (int group = product.group_begin; group < product.group_end; ++group)
      float_panel<Format>(product, group, begin, rows, ahead);
  }
}

void multiply_f32(const Product& product) { multiply_float<F32Values>(product); }
void multiply_f16(const Product& product) { multiply_float<F16Values>(product); }
void multiply_bf16(const Product& product) { multiply_float<BF16Values>(product); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
