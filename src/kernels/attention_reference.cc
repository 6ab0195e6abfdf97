// The reference set's attention: what the mathematics says, sums in double, no order but the obvious one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/units.h"
#include "kernels/attention.h"
#include "kernels/cpu/tables.h"
#include "kernels/half.h"

namespace quire::kernels::reference {
namespace {

// K as [head_dim][32] and V as [32][head_dim] of one KV head in one record.
class Elements {
 public:
  Elements(KvFormat format, std::byte* begin, int columns) : format_(format), begin_(begin), columns_(columns) {}

  [[nodiscard]] float get(int row, int column) const {
    if (format_ == KvFormat::kF32) return read<float>(row, column);
    return half_to_float(read<uint16_t>(row, column));
  }
  void set(int row, int column, float value) const {
    if (format_ == KvFormat::kF32) {
      write(row, column, value);
    } else {
      write(row, column, float_to_half(value));
    }
  }

 private:
  [[nodiscard]] size_t offset(int row, int column) const {
    return (static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column)) * element_bytes(format_);
  }
  template <typename T>
  [[nodiscard]] T read(int row, int column) const {
    T value;
    std::memcpy(&value, begin_ + offset(row, column), sizeof(value));
    return value;
  }
  template <typename T>
  void write(int row, int column, T value) const {
    std::memcpy(begin_ + offset(row, column), &value, sizeof(value));
  }

  KvFormat format_;
  std::byte* begin_;
  int columns_;
};

Elements keys_of(const AttentionShape& shape, const std::byte* record, int kv_head) {
  return {shape.format, const_cast<std::byte*>(record) + key_offset(shape, kv_head), kTileTokens};
}
Elements values_of(const AttentionShape& shape, const std::byte* record, int kv_head) {
  return {shape.format, const_cast<std::byte*>(record) + value_offset(shape, kv_head), shape.head_dim};
}

void store_kv(const AttentionShape& shape, std::byte* record, int kv_head, int lane, int tokens, const float* k, const float* v,
              int64_t stride) {
  const Elements keys = keys_of(shape, record, kv_head);
  const Elements values = values_of(shape, record, kv_head);
  for (int token = 0; token < tokens; ++token) {
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      keys.set(dim, lane + token, k[token * stride + dim]);
      values.set(lane + token, dim, v[token * stride + dim]);
    }
  }
}

void attend_one(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery& query) {
  const int64_t oldest = shape.window == 0 ? 0 : query.position - shape.window + 1;
  const int begin = static_cast<int>(std::max<int64_t>(oldest - span.first_position, 0));
  const int end = static_cast<int>(std::min<int64_t>(query.position - span.first_position + 1, kSpanTokens));
  std::array<double, kSpanTokens> scores{};
  for (int i = begin; i < end; ++i) {
    const Elements keys = keys_of(shape, span.tile[i / kTileTokens], kv_head);
    double score = 0;
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      score += static_cast<double>(query.q[dim]) * static_cast<double>(keys.get(dim, i % kTileTokens));
    }
    scores[static_cast<size_t>(i)] = score * static_cast<double>(shape.scale);
  }
  const float maximum = static_cast<float>(*std::max_element(scores.begin() + begin, scores.begin() + end));
  std::array<double, kMaxHeadDim> weighted{};
  double sum = 0;
  for (int i = begin; i < end; ++i) {
    const Elements values = values_of(shape, span.tile[i / kTileTokens], kv_head);
    const double e = std::exp(scores[static_cast<size_t>(i)] - static_cast<double>(maximum));
    sum += e;
    for (int dim = 0; dim < shape.head_dim; ++dim) {
      weighted[static_cast<size_t>(dim)] += e * static_cast<double>(values.get(i % kTileTokens, dim));
    }
  }
  query.partial[0] = maximum;
  query.partial[1] = static_cast<float>(sum);
  for (int dim = 0; dim < shape.head_dim; ++dim) {
    query.partial[kPartialHeader + dim] = static_cast<float>(weighted[static_cast<size_t>(dim)]);
  }
}

void attend_span(const AttentionShape& shape, const SpanTiles& span, int kv_head, const SpanQuery* queries, int count) {
  for (int i = 0; i < count; ++i) attend_one(shape, span, kv_head, queries[i]);
}

void merge(int head_dim, const float* next, float* accumulated) {
  const float maximum = std::max(accumulated[0], next[0]);
  const float accumulated_factor = std::exp(accumulated[0] - maximum);
  const float next_factor = std::exp(next[0] - maximum);
  accumulated[0] = maximum;
  accumulated[1] = accumulated[1] * accumulated_factor + next[1] * next_factor;
  for (int i = kPartialHeader; i < kPartialHeader + head_dim; ++i) {
    accumulated[i] = accumulated[i] * accumulated_factor + next[i] * next_factor;
  }
}

void finish(int head_dim, const float* accumulated, float* out) {
  for (int dim = 0; dim < head_dim; ++dim) out[dim] = accumulated[kPartialHeader + dim] / accumulated[1];
}

}  // namespace

AttentionKernels attention_kernels() { return {store_kv, attend_span, merge, finish}; }

}  // namespace quire::kernels::reference
