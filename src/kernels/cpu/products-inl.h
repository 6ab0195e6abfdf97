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
#include "kernels/products_tuning.h"

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

#if QUIRE_VNNI && !defined(QUIRE_FEW_PASSES)
inline constexpr bool kEveryRowCount = true;
#else
inline constexpr bool kEveryRowCount = false;
#endif

// Bytes of activations that stay in the second-level cache while all groups pass over them.
inline constexpr size_t kPanelBytes = size_t{384} << 10;

// Groups that are streamed at a time where product_tuning() asks for several.
inline constexpr int kSeveralGroups = 4;

// Writes or adds the sums of one group: `sums` is [rows][16], of the rows from `row` on. Out of line, because every pass ends so.
void store_outputs(const Product& product, int group, int row, int rows, const float* sums);

// Asks for the `bytes` bytes at `ahead` bytes beyond p, which may lie beyond the matrix: a hint, never an access.
HWY_INLINE void prefetch(const std::byte* p, size_t ahead, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) + ahead;
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(address + i));
}

// Where the blocks of the row are, and the rows of its tile: the distance from one block to the next.
struct RowBlocks {
  const ActivationBlock* first;
  int tile_rows;
};
HWY_INLINE RowBlocks row_blocks(const Activations& x, int row) {
  const int64_t blocks = x.inputs / layout::kBlockInputs;
  const int tile = row / kRowTile * kRowTile;
  const int tile_rows = x.rows - tile < kRowTile ? x.rows - tile : kRowTile;
  return {reinterpret_cast<const ActivationBlock*>(x.quantized) + tile * blocks + (row - tile), tile_rows};
}

// One pass over the groups [group, group + kGroups) for the rows [row, row + kRows) of one tile.
template <typename Format, int kRows, int kGroups = 1>
void pass(const Product& product, int group, int row, size_t ahead) {
  const int blocks = product.x.inputs / layout::kBlockInputs;
  RowBlocks x = row_blocks(product.x, row);
  const size_t stride = group_bytes(product.weights.format, product.weights.inputs);
  const std::byte* units = product.weights.data + static_cast<size_t>(group) * stride;
  Vec16 sums[kGroups][kRows];
  repeat<kGroups * kRows>(QUIRE_LAMBDA(auto i) { sums[i / kRows][i % kRows] = zero(); });
  for (int first = 0; first < blocks; first += Format::kUnitBlocks) {
    const int count = blocks - first < Format::kUnitBlocks ? blocks - first : Format::kUnitBlocks;
    for (int b = 0; b < count; ++b) {
      repeat<kGroups>(QUIRE_LAMBDA(auto g) {
        prefetch(units + g * stride + b * Format::kBlockBytes, ahead, Format::kBlockBytes);
        const Format block(units + g * stride, b);
        repeat<kRows>(QUIRE_LAMBDA(auto r) { sums[g][r] = block.accumulate(x.first[r], sums[g][r]); });
      });
      x.first += x.tile_rows;
    }
    units += Format::kUnitBytes;
  }
  alignas(64) float results[kGroups][kRows][kLanes];
  repeat<kGroups * kRows>(QUIRE_LAMBDA(auto i) { store(sums[i / kRows][i % kRows], results[i / kRows][i % kRows]); });
  for (int g = 0; g < kGroups; ++g) store_outputs(product, group + g, row, kRows, results[g][0]);
}

// Passes over a group for the rows [row, row + rows), rows <= kMaxPassRows. With VNNI, where few users decode on the fastest
// machines, one pass of just that many rows; elsewhere, and where QUIRE_FEW_PASSES asks for it, passes of powers of two, which are
// quicker to compile.
template <typename Format, int kRows = kMaxPassRows>
HWY_INLINE void pass_rows(const Product& product, int group, int row, int rows, size_t ahead) {
  if (rows >= kRows) {
    pass<Format, kRows>(product, group, row, ahead);
    row += kRows;
    rows -= kRows;
    ahead = 0;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) pass_rows<Format, kEveryRowCount ? kRows - 1 : kRows / 2>(product, group, row, rows, ahead);
  }
}

// The rows of a panel that is one pass: several groups at a time, as long as there are so many. Returns the first group that is
// left.
template <typename Format, int kRows>
HWY_INLINE int pass_several_groups(const Product& product, int row, size_t ahead) {
  int group = product.group_begin;
  for (; group + kSeveralGroups <= product.group_end; group += kSeveralGroups)
    pass<Format, kRows, kSeveralGroups>(product, group, row, ahead);
  return group;
}

// All rows: panels of rows, for each panel all groups, for each group all passes, so that activations stay in the second-level
// cache and a group's weights near the core while its panel is computed.
template <typename Format>
void multiply_quantized(const Product& product) {
  const size_t row_bytes = static_cast<size_t>(product.x.inputs / layout::kBlockInputs) * sizeof(ActivationBlock);
  const int tiles = static_cast<int>(kPanelBytes / (row_bytes * kRowTile));
  const int panel = kRowTile * (tiles < 1 ? 1 : tiles);
  const ProductTuning& tuning = product_tuning();
  [[maybe_unused]] const bool long_groups =
      group_bytes(product.weights.format, product.weights.inputs) >= tuning.several_groups_from;
  for (int begin = 0; begin < product.x.rows; begin += panel) {
    const int end = product.x.rows - begin < panel ? product.x.rows : begin + panel;
    const int rows = end - begin;
    const size_t few_ahead = Format::kUnitBlocks == 8 ? tuning.prefetch_bytes_k : tuning.prefetch_bytes;
    const size_t ahead = rows > 4 ? kPrefetchBytes : few_ahead;
    int group = product.group_begin;
#if QUIRE_AVX512
    if (long_groups && rows == 1) group = pass_several_groups<Format, 1>(product, begin, ahead);
#ifndef QUIRE_FEW_PASSES
    if (long_groups && rows == 2) group = pass_several_groups<Format, 2>(product, begin, ahead);
    if (long_groups && rows == 3) group = pass_several_groups<Format, 3>(product, begin, ahead);
    if (long_groups && rows == 4) group = pass_several_groups<Format, 4>(product, begin, ahead);
#endif
#endif
    for (; group < product.group_end; ++group) {
      for (int row = begin; row < end; row += kMaxPassRows)
        pass_rows<Format>(product, group, row, end - row < kMaxPassRows ? end - row : kMaxPassRows, row == begin ? ahead : 0);
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
