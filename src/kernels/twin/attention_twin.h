// Scalar twin of the attention kernels: docs/arithmetic.md, "Attention".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/units.h"
#include "kernels/attention.h"
#include "kernels/half.h"
#include "kernels/twin/functions_twin.h"

namespace quire::kernels::twin {

inline float load_element(KvFormat format, const std::byte* elements, size_t index) {
  if (format == KvFormat::kF16) {
    uint16_t half;
    std::memcpy(&half, elements + index * sizeof(half), sizeof(half));
    return half_to_float(half);
  }
  float value;
  std::memcpy(&value, elements + index * sizeof(value), sizeof(value));
  return value;
}

inline void store_element(KvFormat format, float value, std::byte* elements, size_t index) {
  if (format == KvFormat::kF16) {
    const uint16_t half = float_to_half(value);
    std::memcpy(elements + index * sizeof(half), &half, sizeof(half));
  } else {
    std::memcpy(elements + index * sizeof(value), &value, sizeof(value));
  }
}

inline size_t key_index(int dim, int lane) { return static_cast<size_t>(dim) * kTileTokens + static_cast<size_t>(lane); }
inline size_t value_index(const AttentionShape& shape, int lane, int dim) {
  return static_cast<size_t>(lane) * static_cast<size_t>(shape.head_dim) + static_cast<size_t>(dim);
}

inline void store_kv(const AttentionShape& shape, std::byte* record, int kv_head, int lane, int tokens, const float* k,
                     const float* v, int64_t stride) {
  for (int token = 0; token < tokens; ++token) {
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      const int64_t at = token * stride + dim;
      store_element(shape.format, k[at], record + key_offset(shape, kv_head), key_index(dim, lane + token));
      store_element(shape.format, v[at], record + value_offset(shape, kv_head), value_index(shape, lane + token, dim));
    }
  }
}

// The partial result of one query head in one span.
template <Arithmetic kArithmetic>
void attend_one(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery& query) {
  const int64_t oldest = shape.window == 0 ? 0 : query.position - shape.window + 1;
  const int begin = static_cast<int>(std::max<int64_t>(oldest - span.first_position, 0));
  const int end = static_cast<int>(std::min<int64_t>(query.position - span.first_position + 1, kSpanTokens));
  std::array<float, kSpanTokens> scores;
  float maximum = -std::numeric_limits<float>::infinity();
  for (int i = begin; i < end; ++i) {
    const std::byte* keys = span.tile[i / kTileTokens] + key_offset(shape, kv_head);
    float score = 0;
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      const float k = load_element(shape.format, keys, key_index(dim, i % kTileTokens));
      score = multiply_add<kArithmetic>(query.q[dim] * shape.scale, k, score);
    }
    scores[static_cast<size_t>(i)] = score;
    maximum = std::max(maximum, score);
  }
  maximum += 0.0f;
  std::array<float, 16> sums{};
  float* weighted = query.partial + kPartialHeader;
  std::fill_n(weighted, shape.head_dim, 0.0f);
  for (int i = begin; i < end; ++i) {
    const std::byte* values = span.tile[i / kTileTokens] + value_offset(shape, kv_head);
    const float e = exp<kArithmetic>(scores[static_cast<size_t>(i)] - maximum);
    sums[static_cast<size_t>(i % 16)] += e;
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      const float v = load_element(shape.format, values, value_index(shape, i % kTileTokens, dim));
      weighted[dim] = multiply_add<kArithmetic>(e, v, weighted[dim]);
    }
  }
  query.partial[0] = maximum;
  query.partial[1] = reduce_add(sums);
}

template <Arithmetic kArithmetic>
void attend_span(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery* queries, int count) {
  for (int i = 0; i < count; ++i) attend_one<kArithmetic>(shape, span, kv_head, queries[i]);
}

template <Arithmetic kArithmetic>
void merge(int head_dim, const float* next, float* accumulated) {
  const float maximum = std::max(accumulated[0], next[0]);
  const float accumulated_factor = exp<kArithmetic>(accumulated[0] - maximum);
  const float next_factor = exp<kArithmetic>(next[0] - maximum);
  accumulated[0] = maximum;
  accumulated[1] = multiply_add<kArithmetic>(accumulated[1], accumulated_factor, next[1] * next_factor);
  for (int i = kPartialHeader; i < kPartialHeader + head_dim; ++i) {
    accumulated[i] = multiply_add<kArithmetic>(accumulated[i], accumulated_factor, next[i] * next_factor);
  }
}

inline void finish(int head_dim, const float* accumulated, float* out) {
  for (int dim = 0; dim < head_dim; ++dim) out[dim] = accumulated[kPartialHeader + dim] / accumulated[1];
}

template <Arithmetic kArithmetic>
AttentionKernels attention_twin() {
  return {store_kv, attend_span<kArithmetic>, merge<kArithmetic>, finish};
}

}  // namespace quire::kernels::twin
