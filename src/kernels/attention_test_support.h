// What the attention tests build: a sequence's K and V in pieces of poisoned memory, its queries, and ways to run them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/units.h"
#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/kernels.h"
#include "kernels/twin/attention_twin.h"
#include "kernels/twin/elementwise_twin.h"
#include "port/threads.h"

namespace quire::kernels {

// Random numbers that are the same everywhere: the standard's distributions are not.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  // In [-1, 1).
  float next() { return static_cast<float>(static_cast<int32_t>(engine_())) * 0x1p-31f; }
  std::vector<float> row(size_t n, float factor = 1) {
    std::vector<float> values(n);
    for (float& value : values) value = next() * factor;
    return values;
  }
  // In [low, high].
  int between(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint32_t>(high - low + 1)); }

 private:
  std::mt19937 engine_;
};

// 64-byte aligned bytes, all 0xFF: every f16 and f32 in them is a NaN.
class Poisoned {
 public:
  explicit Poisoned(size_t bytes) : bytes_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}))), size_(bytes) {
    std::memset(bytes_.get(), 0xFF, bytes);
  }
  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(bytes_.get()); }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

// Tokens of one sequence: their K, V and queries in f32.
struct Tokens {
  int count = 0;
  std::vector<float> k;  // [count][kv_heads * head_dim]
  std::vector<float> v;
  std::vector<float> q;  // [count][heads * head_dim]

  Tokens(const AttentionShape& shape, int tokens, uint32_t seed) : count(tokens) {
    Random random(seed);
    const auto kv_row = static_cast<size_t>(shape.kv_heads * shape.head_dim);
    const auto q_row = static_cast<size_t>(shape.heads * shape.head_dim);
    k = random.row(static_cast<size_t>(tokens) * kv_row, 2);
    v = random.row(static_cast<size_t>(tokens) * kv_row, 3);
    q = random.row(static_cast<size_t>(tokens) * q_row, 2);
  }
};

// The tokens [first, end) as tile records in pieces cut at the given tiles; every lane outside is poison. Pieces begin at the tile
// of `first`.
class StoredTokens {
 public:
  StoredTokens(const KernelSet& set, const AttentionShape& shape, const Tokens& tokens, int first, int end,
               std::vector<int> cuts = {}) {
    const int first_tile = first / kTileTokens;
    const int end_tile = static_cast<int>(ceil_div(end, kTileTokens));
    std::erase_if(cuts, [&](int cut) { return cut <= first_tile || cut >= end_tile; });
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(end_tile);
    int begin = first_tile;
    int gap = 0;  // records of different pieces stand at different distances
    for (const int cut : cuts) {
      if (cut == begin) continue;
      const int64_t stride = static_cast<int64_t>(tile_record_bytes(shape)) + 64 * (gap++ % 3);
      memory_.emplace_back(static_cast<size_t>((cut - begin) * stride));
      pieces_.push_back({memory_.back().data(), stride, begin, cut - begin});
      begin = cut;
    }
    for (int tile = first_tile; tile < end_tile; ++tile) store_tile(set, shape, tokens, tile, first, end);
  }

  [[nodiscard]] std::span<const KvPiece> pieces() const { return pieces_; }
  [[nodiscard]] std::byte* tile(int64_t index) const {
    for (const KvPiece& piece : pieces_) {
      if (index >= piece.first_tile && index < piece.first_tile + piece.tiles) {
        return piece.base + (index - piece.first_tile) * piece.tile_stride;
      }
    }
    return nullptr;
  }

 private:
  void store_tile(const KernelSet& set, const AttentionShape& shape, const Tokens& tokens, int index, int first, int end) {
    const int begin = std::max(first, index * kTileTokens);
    const int count = std::min(end, (index + 1) * kTileTokens) - begin;
    const int64_t stride = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
    for (int head = 0; head < shape.kv_heads; ++head) {
      const int64_t at = begin * stride + static_cast<int64_t>(head) * shape.head_dim;
      set.attention.store_kv(shape, tile(index), head, begin % kTileTokens, count, tokens.k.data() + at, tokens.v.data() + at,
                             stride);
    }
  }

  std::vector<Poisoned> memory_;
  std::vector<KvPiece> pieces_;
};

// The queries [first, end) of some tokens, and where their answers go.
struct Rows {
  AttentionInput input;
  std::vector<float> out;
  std::unique_ptr<std::span<const KvPiece>> layer = std::make_unique<std::span<const KvPiece>>();

  Rows(const AttentionShape& shape, const Tokens& tokens, const StoredTokens& stored, int first, int end) {
    const size_t row = static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.head_dim);
    out.assign(static_cast<size_t>(end - first) * row, -7777.0f);
    set_pieces(stored.pieces());
    input.layers = std::span(layer.get(), 1);
    input.first_position = first;
    input.count = end - first;
    input.q = tokens.q.data() + static_cast<size_t>(first) * row;
    input.q_stride = static_cast<int64_t>(row);
    input.out = out.data();
    input.out_stride = static_cast<int64_t>(row);
  }
  void set_pieces(std::span<const KvPiece> pieces) const { *layer = pieces; }
};

inline AttentionShape shape_of(int kv_heads, int group, int head_dim, int64_t window = 0, KvFormat format = KvFormat::kF16) {
  AttentionShape shape;
  shape.kv_heads = kv_heads;
  shape.heads = kv_heads * group;
  shape.head_dim = head_dim;
  shape.format = format;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  shape.window = window;
  return shape;
}

// One team of each size for all tests: starting threads takes longer than most of them.
inline port::ThreadTeam& team_of(int threads) {
  static std::map<int, std::unique_ptr<port::ThreadTeam>> teams;
  auto& team = teams[threads];
  if (team == nullptr) team = std::make_unique<port::ThreadTeam>(threads);
  return *team;
}

// attend() on a team, with scratch memory that is exactly as long as asked for, and poisoned. Answers the spans that sharing saved.
inline int64_t run_attend(const KernelSet& set, const AttentionShape& shape, std::span<const AttentionInput> inputs,
                          port::ThreadTeam& team) {
  AttentionPlan plan;
  plan.make(shape, inputs, 0, team.size());
  int rows = 0;
  for (const AttentionInput& input : inputs) rows += input.count;
  const Poisoned scratch(attention_scratch_floats(shape, rows, team.size()) * sizeof(float) + 64);
  team.run([&](port::TeamMember& me) { attend(set, plan, inputs, 0, scratch.floats(), me); });
  const std::byte* guard = scratch.data() + scratch.size() - 64;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(guard[i], std::byte{0xFF}) << "attend() wrote beyond its scratch memory";
  return plan.spans_saved();
}

// Attention by the formula, in double, of one query head: `at` of all positions in [oldest, newest].
inline std::vector<double> exact_attention(const AttentionShape& shape, const Tokens& tokens, int position, int head) {
  const int64_t oldest = shape.window == 0 ? 0 : std::max<int64_t>(0, position - shape.window + 1);
  const auto dim = static_cast<size_t>(shape.head_dim);
  const auto kv_row = static_cast<size_t>(shape.kv_heads) * dim;
  const size_t kv_column = static_cast<size_t>(head / (shape.heads / shape.kv_heads)) * dim;
  const float* q =
      tokens.q.data() + (static_cast<size_t>(position) * static_cast<size_t>(shape.heads) + static_cast<size_t>(head)) * dim;
  std::vector<double> scores;
  for (int64_t i = oldest; i <= position; ++i) {
    const float* k = tokens.k.data() + static_cast<size_t>(i) * kv_row + kv_column;
    double score = 0;
    for (size_t d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * static_cast<double>(k[d]);
    scores.push_back(score * static_cast<double>(shape.scale));
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  std::vector<double> out(dim);
  double sum = 0;
  for (int64_t i = oldest; i <= position; ++i) {
    const double e = std::exp(scores[static_cast<size_t>(i - oldest)] - maximum);
    const float* v = tokens.v.data() + static_cast<size_t>(i) * kv_row + kv_column;
    sum += e;
    for (size_t d = 0; d < dim; ++d) out[d] += e * static_cast<double>(v[d]);
  }
  for (double& value : out) value /= sum;
  return out;
}

// The scalar twin of a set, itself a set.
inline KernelSet twin_of(const KernelSet& set) {
  if (set.arithmetic == Arithmetic::kFused) {
    return {set.isa, set.arithmetic, {}, twin::attention_twin<Arithmetic::kFused>(), twin::elementwise_twin<Arithmetic::kFused>()};
  }
  return {
      set.isa, set.arithmetic, {}, twin::attention_twin<Arithmetic::kSeparate>(), twin::elementwise_twin<Arithmetic::kSeparate>()};
}

// The sets that have a twin: all but the reference.
inline std::vector<const KernelSet*> fast_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : available_kernel_sets()) {
    if (set->arithmetic != Arithmetic::kReference) sets.push_back(set);
  }
  return sets;
}

// Equal bit by bit; the message names the first difference.
inline ::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "value " << i << " of " << a.size() << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace quire::kernels
