// Attention over tile records.
//
// A tile record holds the K and V of one layer, all KV heads, over 32 consecutive positions: for each KV head first K as
// [head_dim][32 tokens], then V as [32 tokens][head_dim], in f16 or f32, 64-byte aligned.
//
// The atom is the span: 4 tiles, 128 positions, aligned. For one query head and one span: all scores, their exact maximum, the
// exponentials, their sum and the weighted sum of V in token order. The results of spans are merged in position order. Which
// queries are computed in one call, how a span's tiles are spread over memory, and which thread does it do not show in the bits.
// Positions outside [first, last] of a query are masked before the maximum and never read as V: memory may hold anything there.
//
// Source of the merge: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "port/threads.h"

namespace quire::kernels {

struct KernelSet;

enum class KvFormat : uint8_t { kF16, kF32 };

struct AttentionShape {
  int heads = 0;     // query heads; a multiple of kv_heads
  int kv_heads = 0;  // query head h reads KV head h / (heads / kv_heads)
  int head_dim = 0;  // width of K and V of a head; a multiple of 16, at most 256
  KvFormat format = KvFormat::kF16;
  float scale = 1;     // scores are dot products of (q * scale) with k
  int64_t window = 0;  // a query at position p sees (p - window, p]; 0 = everything up to p
};

// Bytes of a tile record: 2 * kv_heads * head_dim * 32 elements, rounded up to 64.
[[nodiscard]] size_t tile_record_bytes(const AttentionShape& shape);

[[nodiscard]] constexpr size_t element_bytes(KvFormat format) { return format == KvFormat::kF16 ? 2 : 4; }
// Where the K and the V of a KV head begin in a record.
[[nodiscard]] constexpr size_t key_offset(const AttentionShape& shape, int kv_head) {
  return static_cast<size_t>(kv_head) * 2 * kTileTokens * static_cast<size_t>(shape.head_dim) * element_bytes(shape.format);
}
[[nodiscard]] constexpr size_t value_offset(const AttentionShape& shape, int kv_head) {
  return key_offset(shape, kv_head) + kTileTokens * static_cast<size_t>(shape.head_dim) * element_bytes(shape.format);
}

inline constexpr int kMaxHeadDim = 256;

// A run of tile records of one layer at equal distances.
struct KvPiece {
  std::byte* base = nullptr;  // record of tile first_tile
  int64_t tile_stride = 0;    // bytes from one tile record to the next
  int64_t first_tile = 0;     // index of the first tile in the sequence
  int64_t tiles = 0;
};

// The four tile records of one span; those that no query of the call reads may be null.
struct SpanTiles {
  const std::byte* tile[kSpanTiles] = {};
  int64_t first_position = 0;  // a multiple of 128

  // Where the K of the tiles begins that the same thread reads after this span, or null: fetched ahead, never needed.
  const std::byte* next_keys[kSpanTiles] = {};
};

// One query head's part in one span.
struct SpanQuery {
  const float* q = nullptr;  // [head_dim]
  int64_t position = 0;      // its token's position; sees (position - window, position] of the span, at least one position
  float* partial = nullptr;  // [partial_floats(head_dim)]
};

// A partial result: the maximum score, the sum of exponentials, then (from float 16 on) head_dim weighted sums.
inline constexpr int kPartialHeader = 16;
[[nodiscard]] constexpr int partial_floats(int head_dim) { return kPartialHeader + head_dim; }

struct AttentionKernels {
  // Writes `tokens` positions' K and V of one KV head into a record's lanes [lane, lane + tokens). k and v: [tokens][stride] f32.
  void (*store_kv)(const AttentionShape& shape, std::byte* record, int kv_head, int lane, int tokens, const float* k,
                   const float* v, int64_t stride);

  // The partial results of `count` query heads that all read the KV head `kv_head` of one span.
  void (*attend_span)(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery* queries, int count);

  // Merges the partial result of the next span into that of the spans before it.
  void (*merge)(int head_dim, const float* next, float* accumulated);

  // out[d] = weighted sum / sum of exponentials.
  void (*finish)(int head_dim, const float* accumulated, float* out);
};

// One sequence's queries in a step: `count` consecutive positions, the K and V of all of them stored already.
struct AttentionInput {
  // Of each layer: ascending, without gaps from the first tile that a query sees to the last. What lies beyond is never read.
  std::span<const std::span<const KvPiece>> layers;
  int64_t first_position = 0;
  int count = 0;
  const float* q = nullptr;  // [count][q_stride], heads * head_dim floats a row
  int64_t q_stride = 0;
  float* out = nullptr;  // [count][out_stride], heads * head_dim floats a row; may not overlap q
  int64_t out_stride = 0;
};

class AttentionPlan;

// Floats of scratch memory that attend() needs for inputs of at most `rows` positions in all on a team of `threads`, however long
// their contexts are.
[[nodiscard]] size_t attention_scratch_floats(const AttentionShape& shape, int rows, int threads);

// Causal attention of one layer by all members of a team; every member calls it with the same arguments. Ends with a barrier: when
// it returns, all outputs are written. The plan was made for these inputs, in this layer or in another whose pieces hold the same
// tiles and are shared by the same inputs, and for a team of this size.
void attend(const KernelSet& set, const AttentionPlan& plan, std::span<const AttentionInput> inputs, size_t layer, float* scratch,
            port::TeamMember& member);

}  // namespace quire::kernels
