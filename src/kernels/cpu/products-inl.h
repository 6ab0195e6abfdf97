// Loops of the products, over a format's policy; the functions that the files cpu/products_*.cc define with them.
//
// Compiled once for each target by hwy/foreach_target.h, hence the unusual include guard.
#if defined(QUIRE_KERNELS_CPU_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_PRODUCTS_INL_H_
#undef QUIRE_KERNELS_CPU_PRODUCTS_INL_H_
#else
#define QUIRE_KERNELS_CPU_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/vec16-inl.h"
#include "kernels/products.h"
#include "kernels/products_decode.h"
#include "kernels/products_layout.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

using layout::ActivationBlock;

// What one call multiplies; the members are those of ProductKernels::multiply.
struct Product {
  const PackedMatrix& weights;
  const Activations& x;
  int group_begin;
  int group_end;
  Store store;
  float* out;
  int64_t out_stride;
};

// One for each format; cpu/products.cc puts them into the table.
void multiply_f32(const Product& product);
void multiply_f16(const Product& product);
void multiply_bf16(const Product& product);
void multiply_q4_0(const Product& product);
void multiply_q4_1(const Product& product);
void multiply_q5_0(const Product& product);
void multiply_q8_0(const Product& product);
void multiply_q4_k(const Product& product);
void multiply_q5_k(const Product& product);
void multiply_q6_k(const Product& product);

// Rows that one pass over a group's weights serves: their sums live in registers.
#if QUIRE_AVX512
inline constexpr int kMaxPassRows = 16;
#else
inline constexpr int kMaxPassRows = 4;
#endif

// Bytes of activations that stay in the second-level cache while all groups pass over them.
inline constexpr size_t kPanelBytes = size_t{384} << 10;

// How far ahead of its use a group's stream is fetched into the first-level cache.
inline constexpr size_t kPrefetchBytes = size_t{8} << 10;

// Writes or adds the sums of one group: `sums` is [rows][16], of the rows from `row` on. Out of line, because every pass ends so.
void store_outputs(const Product& product, int group, int row, int rows, const float* sums);

// Asks for the `bytes` bytes at `ahead` bytes beyond p, which may lie beyond the matrix: a hint, never an access.
HWY_INLINE void prefetch(const std::byte* p, size_t ahead, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) + ahead;
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(address + i));
}

// The sums of kRows rows for one group. `x` is the first row's first block, `tile_rows` the rows of its tile.
template <typename Format, int kRows>
HWY_INLINE void multiply_rows(const std::byte* group, const ActivationBlock* x, int tile_rows, int blocks, size_t ahead,
                              Vec16* sums) {
  unroll<kRows>(QUIRE_UNROLLED(r) { sums[r] = zero(); });
  for (int first = 0; first < blocks; first += Format::kUnitBlocks) {
    const int count = blocks - first < Format::kUnitBlocks ? blocks - first : Format::kUnitBlocks;
    for (int b = 0; b < count; ++b) {
      prefetch(group + b * Format::kBlockBytes, ahead, Format::kBlockBytes);
      const Format block(group, b);
      unroll<kRows>(QUIRE_UNROLLED(r) { sums[r] = block.accumulate(x[r], sums[r]); });
      x += tile_rows;
    }
    group += Format::kUnitBytes;
  }
}

template <typename Format, int kRows>
void pass(const Product& product, int group, int row, size_t ahead) {
  const int blocks = product.x.inputs / layout::kBlockInputs;
  const int tile = row / kRowTile * kRowTile;
  const int tile_rows = product.x.rows - tile < kRowTile ? product.x.rows - tile : kRowTile;
  const auto* x =
      reinterpret_cast<const ActivationBlock*>(product.x.quantized) + static_cast<int64_t>(tile) * blocks + (row - tile);
  const std::byte* weights = product.weights.data + group * group_bytes(product.weights.format, product.weights.inputs);
  Vec16 sums[kRows];
  multiply_rows<Format, kRows>(weights, x, tile_rows, blocks, ahead, sums);
  alignas(64) float results[kRows][kLanes];
  unroll<kRows>(QUIRE_UNROLLED(r) { store(sums[r], results[r]); });
  store_outputs(product, group, row, kRows, results[0]);
}

// Passes over a group for the rows [row, row + rows), rows <= kMaxPassRows. With VNNI, where few users decode on the fastest
// machines, one pass of just that many rows; elsewhere passes of powers of two, which are quicker to compile.
template <typename Format, int kRows = kMaxPassRows>
HWY_INLINE void pass_rows(const Product& product, int group, int row, int rows, size_t ahead) {
  if (rows >= kRows) {
    pass<Format, kRows>(product, group, row, ahead);
    row += kRows;
    rows -= kRows;
    ahead = 0;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) pass_rows<Format, QUIRE_VNNI ? kRows - 1 : kRows / 2>(product, group, row, rows, ahead);
  }
}

// All rows: panels of rows, for each panel all groups, for each group all passes, so that activations stay in the second-level
// cache and a group's weights near the core while its panel is computed.
template <typename Format>
void multiply_quantized(const Product& product) {
  const size_t row_bytes = static_cast<size_t>(product.x.inputs / layout::kBlockInputs) * sizeof(ActivationBlock);
  const int tiles = static_cast<int>(kPanelBytes / (row_bytes * kRowTile));
  const int panel = kRowTile * (tiles < 1 ? 1 : tiles);
  for (int begin = 0; begin < product.x.rows; begin += panel) {
    const int end = product.x.rows - begin < panel ? product.x.rows : begin + panel;
    for (int group = product.group_begin; group < product.group_end; ++group) {
      for (int row = begin; row < end; row += kMaxPassRows)
        pass_rows<Format>(product, group, row, end - row < kMaxPassRows ? end - row : kMaxPassRows,
                          row == begin ? kPrefetchBytes : 0);
    }
  }
}

// A block of an offset format: w = d * (code - offset). Start is the member of ActivationBlock that takes the offset out.
template <int kMaxCode, int32_t ActivationBlock::*kStart>
struct OffsetBlock {
  Bytes64 quads[layout::kQuads];
  Vec16 scale;

  HWY_INLINE Vec16 accumulate(const ActivationBlock& x, Vec16 sum) const {
    const Ints16 products = dot<kMaxCode, layout::kQuads>(quads, x.q, x.*kStart);
    return multiply_add(to_float(products), mul(scale, set1(x.scale)), sum);
  }
};

// A block of a format with mins: w = d * code + m.
template <int kMaxCode>
struct MinBlock {
  Bytes64 quads[layout::kQuads];
  Vec16 scale;
  Vec16 min;

  HWY_INLINE Vec16 accumulate(const ActivationBlock& x, Vec16 sum) const {
    const Ints16 products = dot<kMaxCode, layout::kQuads>(quads, x.q, 0);
    sum = multiply_add(to_float(products), mul(scale, set1(x.scale)), sum);
    return multiply_add(min, set1(x.scaled_sum), sum);
  }
};

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
