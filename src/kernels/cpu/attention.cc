// Attention of one span for every instruction set: docs/arithmetic.md, "Attention".
//
// Queries are computed in blocks that share every load of K and V. A block first takes its scores, 32 positions at a time in
// registers (lanes are positions), then turns each query's scores into exponentials in a buffer that stays in the first-level
// cache, then takes the weighted sums (lanes are dimensions). V is read over the positions that all queries of the block see
// together; what a query sees beyond that is added before and after by itself, so that its order stays ascending.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "kernels/cpu/targets.h"
// targets.h before foreach_target.h
#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/units.h"
#include "kernels/attention.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/tables.h"
#include "kernels/cpu/vec16-inl.h"

#ifndef QUIRE_KERNELS_CPU_ATTENTION_ONCE_
#define QUIRE_KERNELS_CPU_ATTENTION_ONCE_
namespace quire::kernels {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// What is fetched ahead in one go: 32 rows of 64 elements, `stride` bytes apart (64 dimensions of a tile's K, or 64 columns of its
// V).
inline constexpr int kSliceElements = 64;
struct Slice {
  const std::byte* base;
  size_t stride;
};
// Slices from the one that is read to the one that is fetched: 16 KiB in f16.
inline constexpr int kSlicesAhead = 4;

// One KV head's share of a span, and the order in which it is read: K tile by tile, then V column by column.
struct SpanView {
  static constexpr int kMaxSlices = 2 * kSpanTiles * kMaxHeadDim / kSliceElements;

  const std::byte* keys[kSpanTiles];
  const std::byte* values[kSpanTiles];
  int head_dim;
  int tile_begin;  // tiles that some query reads
  int tile_end;
  Slice slices[kMaxSlices + kSlicesAhead];

  [[nodiscard]] int key_slice(int tile) const { return (tile - tile_begin) * slices_a_row(); }
  [[nodiscard]] int value_slice(int tile, int column) const {
    return (tile_end - tile_begin) * (slices_a_row() + column / kSliceElements) + tile - tile_begin;
  }
  [[nodiscard]] int slices_a_row() const { return (head_dim + kSliceElements - 1) / kSliceElements; }
};

// The positions that a query sees in the span, counted from the span's first.
struct LiveRange {
  int begin;
  int end;
};

inline LiveRange live_range(const AttentionShape& shape, const SpanTiles& span, const SpanQuery& query) {
  const int64_t last = std::min<int64_t>(query.position - span.first_position, kSpanTokens - 1);
  const int64_t first = shape.window == 0 ? 0 : query.position - shape.window + 1 - span.first_position;
  return {static_cast<int>(std::max<int64_t>(first, 0)), static_cast<int>(last + 1)};
}

// Fills the view's slices; `next_keys` as in SpanTiles.
inline void lay_slices(SpanView& view, size_t element, const std::byte* const* next_keys) {
  const size_t key_stride = 2 * kTileTokens * element;  // two dimensions of a tile are as long as a slice's row
  const size_t value_stride = static_cast<size_t>(view.head_dim) * element;
  for (int tile = view.tile_begin; tile < view.tile_end; ++tile) {
    for (int column = 0; column < view.head_dim; column += kSliceElements) {
      view.slices[view.key_slice(tile) + column / kSliceElements] = {
          view.keys[tile] + static_cast<size_t>(column) * kTileTokens * element, key_stride};
      view.slices[view.value_slice(tile, column)] = {view.values[tile] + static_cast<size_t>(column) * element, value_stride};
    }
  }
  const int total = 2 * (view.tile_end - view.tile_begin) * view.slices_a_row();
  for (int i = 0; i < kSlicesAhead; ++i) {
    const std::byte* next = next_keys[i / view.slices_a_row()];
    const size_t offset = static_cast<size_t>(i % view.slices_a_row()) * kSliceElements * kTileTokens * element;
    view.slices[total + i] = next == nullptr ? view.slices[total - 1] : Slice{next + offset, key_stride};
  }
}

inline SpanView span_view(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery* queries, int count) {
  LiveRange any = {kSpanTokens, 0};
  for (int i = 0; i < count; ++i) {
    const LiveRange live = live_range(shape, span, queries[i]);
    any = {std::min(any.begin, live.begin), std::max(any.end, live.end)};
  }
  SpanView view;
  view.head_dim = shape.head_dim;
  view.tile_begin = any.begin / kTileTokens;
  view.tile_end = (any.end + kTileTokens - 1) / kTileTokens;
  for (int tile = view.tile_begin; tile < view.tile_end; ++tile) {
    // A tile that nobody reads may be null; the first of the range is read.
    const std::byte* record = span.tile[span.tile[tile] != nullptr ? tile : view.tile_begin];
    view.keys[tile] = record + key_offset(shape, kv_head);
    view.values[tile] = record + value_offset(shape, kv_head);
  }
  lay_slices(view, element_bytes(shape.format), span.next_keys);
  return view;
}

}  // namespace quire::kernels
#endif  // QUIRE_KERNELS_CPU_ATTENTION_ONCE_

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {
namespace {

// Queries in a block, and how many vectors of positions or dimensions a block of that many takes at once: the accumulators of a
// block, one vector of K or V for each of those and one of the query fit the registers (32 of 16 lanes, 16 of 8, 16 of 4).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kMaxQueries = 8;
constexpr int score_vectors(int) { return 2; }
constexpr int value_vectors(int queries) { return queries <= 4 ? 4 : 2; }
#elif HWY_TARGET == HWY_AVX2
constexpr int kMaxQueries = 6;
constexpr int score_vectors(int queries) { return queries <= 2 ? 2 : 1; }
constexpr int value_vectors(int queries) { return queries <= 2 ? 2 : 1; }
#else
constexpr int kMaxQueries = 2;
constexpr int score_vectors(int) { return 1; }
constexpr int value_vectors(int) { return 1; }
#endif

template <KvFormat kFormat>
HWY_INLINE Vec16 load_elements(const std::byte* p) {
  if constexpr (kFormat == KvFormat::kF16) {
    return load_f16(p);
  } else {
    Vec16 v;
    static_assert(sizeof(v) == kLanes * sizeof(float));
    return load(reinterpret_cast<const float*>(p));
  }
}

// What a block of queries keeps between its steps.
struct alignas(64) BlockBuffers {
  float queries[kMaxQueries][kMaxHeadDim];        // scaled
  float probabilities[kMaxQueries][kSpanTokens];  // scores, then exponentials
};

// Scores of a block against one tile.
template <KvFormat kFormat, int kQueries, int kVectors>
void score_tile(const SpanView& view, int tile, BlockBuffers& buffers) {
  constexpr size_t kElement = element_bytes(kFormat);
  constexpr size_t kRowBytes = kSliceElements * kElement;
  for (int lane = 0; lane < kTileTokens; lane += kVectors * kLanes) {
    const std::byte* keys = view.keys[tile] + static_cast<size_t>(lane) * kElement;
    const Slice* ahead = &view.slices[view.key_slice(tile) + kSlicesAhead];
    Vec16 sums[kQueries][kVectors];
    repeat<kQueries>(QUIRE_LAMBDA(auto j) { repeat<kVectors>(QUIRE_LAMBDA(auto v) { sums[j][v] = zero(); }); });
    for (int begin = 0; begin < view.head_dim; begin += kSliceElements, ++ahead) {
      const int end = std::min(begin + kSliceElements, view.head_dim);
      const std::byte* fetched = ahead->base;
      for (int dim = begin; dim < end; dim += 2, fetched += ahead->stride) {
        repeat<kRowBytes / 64>(QUIRE_LAMBDA(auto line) { prefetch(fetched + line * 64); });
        repeat<2>(QUIRE_LAMBDA(auto step) {
          Vec16 k[kVectors];
          repeat<kVectors>(QUIRE_LAMBDA(auto v) { k[v] = load_elements<kFormat>(keys + v * kLanes * kElement); });
          keys += kTileTokens * kElement;
          repeat<kQueries>(QUIRE_LAMBDA(auto j) {
            const Vec16 q = set1(buffers.queries[j][dim + step]);
            repeat<kVectors>(QUIRE_LAMBDA(auto v) { sums[j][v] = multiply_add(q, k[v], sums[j][v]); });
          });
        });
      }
    }
    float* scores = &buffers.probabilities[0][tile * kTileTokens + lane];
    repeat<kQueries>(QUIRE_LAMBDA(auto j) {
      repeat<kVectors>(QUIRE_LAMBDA(auto v) { store(sums[j][v], scores + j * kSpanTokens + v * kLanes); });
    });
  }
}

// sums[j][column, column + 16 kVectors) of a block's queries, over the positions of `live`.
template <KvFormat kFormat, int kQueries, int kVectors>
void add_values(const SpanView& view, int column, LiveRange live, const float* probabilities, float* const* sums) {
  constexpr size_t kElement = element_bytes(kFormat);
  constexpr size_t kPieceBytes = static_cast<size_t>(kVectors) * kLanes * kElement;
  const size_t stride = static_cast<size_t>(view.head_dim) * kElement;
  Vec16 acc[kQueries][kVectors];
  repeat<kQueries>(
      QUIRE_LAMBDA(auto j) { repeat<kVectors>(QUIRE_LAMBDA(auto v) { acc[j][v] = load(sums[j] + column + v * kLanes); }); });
  for (int tile = live.begin / kTileTokens; tile * kTileTokens < live.end; ++tile) {
    const int begin = std::max(live.begin, tile * kTileTokens);
    const int end = std::min(live.end, (tile + 1) * kTileTokens);
    const size_t row = static_cast<size_t>(begin % kTileTokens);
    const std::byte* values = view.values[tile] + row * stride + static_cast<size_t>(column) * kElement;
    const Slice& ahead = view.slices[view.value_slice(tile, column) + kSlicesAhead];
    const std::byte* fetched = ahead.base + row * ahead.stride + static_cast<size_t>(column % kSliceElements) * kElement;
    for (int position = begin; position < end; ++position, values += stride, fetched += ahead.stride) {
      repeat<(kPieceBytes + 63) / 64>(QUIRE_LAMBDA(auto line) { prefetch(fetched + line * 64); });
      Vec16 v_row[kVectors];
      repeat<kVectors>(QUIRE_LAMBDA(auto v) { v_row[v] = load_elements<kFormat>(values + v * kLanes * kElement); });
      repeat<kQueries>(QUIRE_LAMBDA(auto j) {
        const Vec16 p = set1(probabilities[j * kSpanTokens + position]);
        repeat<kVectors>(QUIRE_LAMBDA(auto v) { acc[j][v] = multiply_add(p, v_row[v], acc[j][v]); });
      });
    }
  }
  repeat<kQueries>(
      QUIRE_LAMBDA(auto j) { repeat<kVectors>(QUIRE_LAMBDA(auto v) { store(acc[j][v], sums[j] + column + v * kLanes); }); });
}

template <KvFormat kFormat, int kQueries>
void add_all_values(const SpanView& view, LiveRange live, const float* probabilities, float* const* sums) {
  if (live.begin >= live.end) return;
  constexpr int kVectors = value_vectors(kQueries);
  int column = 0;
  for (; column + kVectors * kLanes <= view.head_dim; column += kVectors * kLanes) {
    add_values<kFormat, kQueries, kVectors>(view, column, live, probabilities, sums);
  }
  if constexpr (kVectors > 2) {
    for (; column + 2 * kLanes <= view.head_dim; column += 2 * kLanes) {
      add_values<kFormat, kQueries, 2>(view, column, live, probabilities, sums);
    }
  }
  if constexpr (kVectors > 1) {
    for (; column < view.head_dim; column += kLanes) add_values<kFormat, kQueries, 1>(view, column, live, probabilities, sums);
  }
}

// The maximum of one query's scores; lanes of their vectors that the query does not see become -infinity.
HWY_INLINE float mask_and_maximize(float* scores, LiveRange live) {
  const int vector_begin = live.begin / kLanes;
  const int vector_end = (live.end + kLanes - 1) / kLanes;
  const Vec16 masked = set1(kMinusInfinity);
  if (live.begin % kLanes != 0 || live.end % kLanes != 0) {
    for (const int vector : {vector_begin, vector_end - 1}) {
      float* edge = scores + vector * kLanes;
      store(keep_lanes(load(edge), live.begin - vector * kLanes, live.end - vector * kLanes, masked), edge);
    }
  }
  Vec16 maxima = masked;
  for (int vector = vector_begin; vector < vector_end; ++vector) maxima = max(load(scores + vector * kLanes), maxima);
  return reduce_max(maxima) + 0.0f;  // -0 becomes +0, whichever lane it came from
}

// Turns one query's scores into exponentials; their sums by lane.
HWY_INLINE Vec16 exponentiate(float* scores, LiveRange live, float maximum) {
  const Vec16 maximum_lanes = set1(maximum);
  Vec16 sums = zero();
  for (int vector = live.begin / kLanes; vector < (live.end + kLanes - 1) / kLanes; ++vector) {
    const Vec16 e = exp_bounded(sub(load(scores + vector * kLanes), maximum_lanes));
    store(e, scores + vector * kLanes);
    sums = add(sums, e);
  }
  return sums;
}

template <KvFormat kFormat, int kQueries>
void attend_block(const AttentionShape& shape, const SpanTiles& span, const SpanView& view, const SpanQuery* queries) {
  BlockBuffers buffers;
  LiveRange live[kQueries];
  LiveRange any = {kSpanTokens, 0};
  LiveRange common = {0, kSpanTokens};
  float* sums[kQueries];
  const Vec16 scale = set1(shape.scale);
  for (int j = 0; j < kQueries; ++j) {
    live[j] = live_range(shape, span, queries[j]);
    any = {std::min(any.begin, live[j].begin), std::max(any.end, live[j].end)};
    common = {std::max(common.begin, live[j].begin), std::min(common.end, live[j].end)};
    sums[j] = queries[j].partial + kPartialHeader;
    for (int dim = 0; dim < view.head_dim; dim += kLanes) {
      store(mul(load(queries[j].q + dim), scale), &buffers.queries[j][dim]);
      store(zero(), sums[j] + dim);
    }
  }
  for (int tile = any.begin / kTileTokens; tile * kTileTokens < any.end; ++tile) {
    score_tile<kFormat, kQueries, score_vectors(kQueries)>(view, tile, buffers);
  }
  // Query after query in each step, so that one's latency hides behind another's work.
  float maxima[kQueries];
  for (int j = 0; j < kQueries; ++j) maxima[j] = mask_and_maximize(buffers.probabilities[j], live[j]);
  Vec16 exponential_sums[kQueries];
  for (int j = 0; j < kQueries; ++j) exponential_sums[j] = exponentiate(buffers.probabilities[j], live[j], maxima[j]);
  for (int j = 0; j < kQueries; ++j) {
    queries[j].partial[0] = maxima[j];
    queries[j].partial[1] = reduce_add(exponential_sums[j]);
  }

  if (common.begin >= common.end) common = {kSpanTokens, kSpanTokens};
  for (int j = 0; j < kQueries; ++j) {
    const LiveRange before = {live[j].begin, std::min(live[j].end, common.begin)};
    add_all_values<kFormat, 1>(view, before, buffers.probabilities[j], &sums[j]);
  }
  add_all_values<kFormat, kQueries>(view, common, buffers.probabilities[0], sums);
  for (int j = 0; j < kQueries; ++j) {
    const LiveRange after = {std::max(live[j].begin, common.end), live[j].end};
    add_all_values<kFormat, 1>(view, after, buffers.probabilities[j], &sums[j]);
  }
}

using AttendBlock = void (*)(const AttentionShape&, const SpanTiles&, const SpanView&, const SpanQuery*);

template <KvFormat kFormat, int... kCounts>
AttendBlock choose_block(int count, std::integer_sequence<int, kCounts...>) {
  static constexpr AttendBlock kBlocks[] = {attend_block<kFormat, kCounts + 1>...};
  return kBlocks[count - 1];
}

template <KvFormat kFormat>
void attend_blocks(const AttentionShape& shape, const SpanTiles& span, const SpanView& view, const SpanQuery* queries, int count) {
  for (int blocks = (count + kMaxQueries - 1) / kMaxQueries; blocks > 0; --blocks) {
    const int in_block = (count + blocks - 1) / blocks;
    choose_block<kFormat>(in_block, std::make_integer_sequence<int, kMaxQueries>())(shape, span, view, queries);
    queries += in_block;
    count -= in_block;
  }
}

// K and V of a span in f32, in the order of the records.
struct alignas(64) SpanPanel {
  float keys[kSpanTiles][kMaxHeadDim * kTileTokens];
  float values[kSpanTiles][kMaxHeadDim * kTileTokens];
};

HWY_INLINE void expand(const std::byte* halves, int count, float* out) {
  for (int i = 0; i < count; i += kLanes) store(load_f16(halves + static_cast<size_t>(i) * 2), out + i);
}

// With more queries than this f16 is converted once for all of them; the panel costs one more pass over second-level cache.
constexpr int kExpandQueries = QUIRE_PLAIN_LOOPS ? kMaxQueries : 3 * kMaxQueries;

HWY_NOINLINE void attend_expanded(const AttentionShape& shape, const SpanTiles& span, SpanView view, const SpanQuery* queries,
                                  int count) {
  SpanPanel panel;
  const int elements = shape.head_dim * kTileTokens;
  for (int tile = view.tile_begin; tile < view.tile_end; ++tile) {
    expand(view.keys[tile], elements, panel.keys[tile]);
    expand(view.values[tile], elements, panel.values[tile]);
    view.keys[tile] = reinterpret_cast<const std::byte*>(panel.keys[tile]);
    view.values[tile] = reinterpret_cast<const std::byte*>(panel.values[tile]);
  }
  const std::byte* nothing_next[kSpanTiles] = {};
  lay_slices(view, sizeof(float), nothing_next);
  attend_blocks<KvFormat::kF32>(shape, span, view, queries, count);
}

void attend_span(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery* queries, int count) {
  const SpanView view = span_view(shape, span, kv_head, queries, count);
  if (shape.format == KvFormat::kF32) {
    attend_blocks<KvFormat::kF32>(shape, span, view, queries, count);
  } else if (count > kExpandQueries) {
    attend_expanded(shape, span, view, queries, count);
  } else {
    attend_blocks<KvFormat::kF16>(shape, span, view, queries, count);
  }
}

HWY_INLINE void store_elements(KvFormat format, Vec16 v, std::byte* p) {
  if (format == KvFormat::kF16) {
    store_f16(v, p);
  } else {
    store(v, reinterpret_cast<float*>(p));
  }
}

// Element i of `from` to `to + i * stride`, both in elements of kBytes bytes.
template <size_t kBytes>
HWY_INLINE void scatter_elements(const std::byte* from, std::byte* to, int count, size_t stride) {
  for (int i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * stride * kBytes, from + static_cast<size_t>(i) * kBytes, kBytes);
  }
}

void store_kv(const AttentionShape& shape, std::byte* record, int kv_head, int lane, int tokens, const float* k, const float* v,
              int64_t stride) {
  const size_t element = element_bytes(shape.format);
  std::byte* keys = record + key_offset(shape, kv_head);
  std::byte* values = record + value_offset(shape, kv_head);
  for (int token = 0; token < tokens; ++token, k += stride, v += stride) {
    const size_t position = static_cast<size_t>(lane + token);
    for (int dim = 0; dim < shape.head_dim; dim += kLanes) {
      const size_t column = static_cast<size_t>(dim);
      store_elements(shape.format, load(v + dim), values + (position * static_cast<size_t>(shape.head_dim) + column) * element);
      alignas(64) std::byte elements[kLanes * sizeof(float)];
      store_elements(shape.format, load(k + dim), elements);
      std::byte* to = keys + (column * kTileTokens + position) * element;
      if (element == 2) {
        scatter_elements<2>(elements, to, kLanes, kTileTokens);
      } else {
        scatter_elements<4>(elements, to, kLanes, kTileTokens);
      }
    }
  }
}

void merge(int head_dim, const float* next, float* accumulated) {
  const float maximum = next[0] > accumulated[0] ? next[0] : accumulated[0];
  const float accumulated_factor = exp_bounded(accumulated[0] - maximum);
  const float next_factor = exp_bounded(next[0] - maximum);
  accumulated[0] = maximum;
  accumulated[1] = multiply_add(accumulated[1], accumulated_factor, next[1] * next_factor);
  for (int dim = kPartialHeader; dim < kPartialHeader + head_dim; dim += kLanes) {
    const Vec16 scaled_next = mul(load(next + dim), set1(next_factor));
    store(multiply_add(load(accumulated + dim), set1(accumulated_factor), scaled_next), accumulated + dim);
  }
}

void finish(int head_dim, const float* accumulated, float* out) {
  const Vec16 sum = set1(accumulated[1]);
  for (int dim = 0; dim < head_dim; dim += kLanes) store(div(load(accumulated + kPartialHeader + dim), sum), out + dim);
}

}  // namespace

AttentionKernels attention_kernels() { return {store_kv, attend_span, merge, finish}; }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
