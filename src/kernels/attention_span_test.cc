// One span: every instruction set against its scalar twin, and a query alone against the same query in company.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/hash.h"
#include "kernels/attention.h"
#include "kernels/attention_test_support.h"
#include "kernels/half.h"

namespace quire::kernels {
namespace {

AttentionShape shape_of(int head_dim, int group, KvFormat format, int64_t window = 0) {
  AttentionShape shape;
  shape.kv_heads = 2;
  shape.heads = 2 * group;
  shape.head_dim = head_dim;
  shape.format = format;
  shape.scale = 0.3f;
  shape.window = window;
  return shape;
}

// Queries of one span, each with memory for its partial result.
class SpanCall {
 public:
  SpanCall(const AttentionShape& shape, const StoredTokens& stored, int64_t first_position) : shape_(shape) {
    span_.first_position = first_position;
    for (int i = 0; i < kSpanTiles; ++i) span_.tile[i] = stored.tile(first_position / kTileTokens + i);
  }

  void add(const float* q, int64_t position) { queries_.push_back({q, position, nullptr}); }
  // Tiles that no query reads may be null.
  void drop_tile(int tile) { span_.tile[tile] = nullptr; }

  // All queries in one call.
  [[nodiscard]] std::vector<float> together(const KernelSet& set, int kv_head) {
    std::vector<float> partials = poisoned_partials();
    point_at(partials);
    set.attention.attend_span(shape_, span_, kv_head, queries_.data(), static_cast<int>(queries_.size()));
    return without_padding(partials);
  }

  // Each query in a call of its own.
  [[nodiscard]] std::vector<float> alone(const KernelSet& set, int kv_head) {
    std::vector<float> partials = poisoned_partials();
    point_at(partials);
    for (const SpanQuery& query : queries_) set.attention.attend_span(shape_, span_, kv_head, &query, 1);
    return without_padding(partials);
  }

 private:
  [[nodiscard]] size_t partial_size() const { return static_cast<size_t>(partial_floats(shape_.head_dim)); }
  [[nodiscard]] std::vector<float> poisoned_partials() const {
    return std::vector<float>(queries_.size() * partial_size(), std::numeric_limits<float>::quiet_NaN());
  }
  void point_at(std::vector<float>& partials) {
    for (size_t i = 0; i < queries_.size(); ++i) queries_[i].partial = partials.data() + i * partial_size();
  }
  // Of the header only the maximum and the sum are defined.
  [[nodiscard]] std::vector<float> without_padding(const std::vector<float>& partials) const {
    std::vector<float> values;
    for (size_t i = 0; i < queries_.size(); ++i) {
      const float* partial = partials.data() + i * partial_size();
      values.insert(values.end(), partial, partial + 2);
      values.insert(values.end(), partial + kPartialHeader, partial + partial_size());
    }
    return values;
  }

  AttentionShape shape_;
  SpanTiles span_;
  std::vector<SpanQuery> queries_;
};

class SpanOfEverySet : public ::testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& set() const { return *GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(AttentionSpan, SpanOfEverySet, ::testing::ValuesIn(fast_sets()), [](const auto& name) {
  std::string text(to_string(name.param->isa));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

TEST_P(SpanOfEverySet, StoresAsTheTwinDoesAndTouchesNothingElse) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kF32}) {
    for (const int head_dim : {16, 80, 128}) {
      const AttentionShape shape = shape_of(head_dim, 1, format);
      Tokens tokens(shape, 40, 7);
      tokens.k[3] = 70000.0f;        // infinity in f16
      tokens.k[4] = 1e-6f;           // subnormal in f16
      tokens.v[5] = 1.00048828125f;  // a tie
      tokens.v[6] = -0.0f;
      const KernelSet twin = twin_of(set());
      for (const auto& [first, end] : {std::pair{0, 40}, {5, 6}, {31, 33}, {7, 30}}) {
        const StoredTokens fast(set(), shape, tokens, first, end);
        const StoredTokens slow(twin, shape, tokens, first, end);
        for (int tile = first / kTileTokens; tile * kTileTokens < end; ++tile) {
          EXPECT_EQ(std::memcmp(fast.tile(tile), slow.tile(tile), tile_record_bytes(shape)), 0) << head_dim << " " << first;
        }
      }
    }
  }
}

TEST_P(SpanOfEverySet, EqualsTheTwinForAnyBlockOfQueries) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kF32}) {
    for (const int head_dim : {16, 64, 80, 96, 128, 256}) {
      for (const int64_t window : {0, 1, 5, 32, 100, 128, 512}) {
        if (head_dim != 64 && window != 0 && window != 100) continue;
        const AttentionShape shape = shape_of(head_dim, 1, format, window);
        const Tokens tokens(shape, 256, static_cast<uint32_t>(head_dim + window));
        const StoredTokens stored(set(), shape, tokens, 0, 256);
        Random random(static_cast<uint32_t>(head_dim) * 31 + static_cast<uint32_t>(window));
        // Up to more than three blocks of any set, where f16 is converted once for all.
        for (int count = 1; count <= 28; count += random.between(1, 9)) {
          SpanCall call(shape, stored, 128);
          // Queries of later sequences see the whole span when no window ends it; those of a window must see one position.
          const int newest = window == 0 ? 400 : static_cast<int>(std::min<int64_t>(255 + window - 1, 400));
          for (int i = 0; i < count; ++i) {
            call.add(tokens.q.data() + random.between(0, 250) * shape.heads * head_dim, random.between(128, newest));
          }
          const std::vector<float> expected = call.alone(twin_of(set()), 1);
          EXPECT_TRUE(same_bits(expected, call.together(set(), 1))) << head_dim << " " << window << " " << count;
          EXPECT_TRUE(same_bits(expected, call.alone(set(), 1))) << head_dim << " " << window << " " << count;
        }
      }
    }
  }
}

TEST_P(SpanOfEverySet, DeadLanesNeverShow) {
  // Tokens are there only where some query of the block sees them: all else is NaN, also between what two queries see.
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kF32}) {
    const AttentionShape shape = shape_of(64, 1, format, 5);
    const Tokens tokens(shape, 128, 3);
    const StoredTokens stored(set(), shape, tokens, 0, 128);
    const StoredTokens early(set(), shape, tokens, 3, 10);
    SpanCall both(shape, stored, 0);
    SpanCall alone(shape, early, 0);
    for (int i = 1; i < kSpanTiles; ++i) alone.drop_tile(i);
    both.drop_tile(1);
    both.drop_tile(2);
    for (const int position : {7, 8, 9}) {
      both.add(tokens.q.data(), position);
      alone.add(tokens.q.data(), position);
    }
    std::vector<float> expected = alone.together(set(), 0);
    both.add(tokens.q.data(), 127);
    std::vector<float> got = both.together(set(), 0);
    got.resize(expected.size());
    EXPECT_TRUE(same_bits(expected, got));
    for (const float value : got) EXPECT_EQ(value, value);
  }
}

TEST_P(SpanOfEverySet, InfinityAndNegativeZeroBeyondAQueryDoNotShow) {
  const AttentionShape shape = shape_of(64, 1, KvFormat::kF32);
  Tokens tokens(shape, 64, 5);
  const size_t row = static_cast<size_t>(shape.kv_heads) * 64;
  for (size_t i = 20 * row; i < tokens.v.size(); ++i) tokens.v[i] = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < 20 * row; ++i) tokens.v[i] = -0.0f;
  const StoredTokens stored(set(), shape, tokens, 0, 64);
  SpanCall call(shape, stored, 0);
  for (const int position : {19, 63, 19, 63, 40}) call.add(tokens.q.data() + position, position);
  const std::vector<float> expected = call.alone(twin_of(set()), 0);
  EXPECT_TRUE(same_bits(expected, call.together(set(), 0)));
}

TEST_P(SpanOfEverySet, MergesAndFinishesAsTheTwin) {
  Random random(11);
  const KernelSet twin = twin_of(set());
  for (const int head_dim : {16, 64, 80, 256}) {
    for (const float gap : {0.0f, 0.5f, -3.0f, 86.0f, -87.5f, 1000.0f}) {
      std::vector<float> a = random.row(static_cast<size_t>(partial_floats(head_dim)), 5);
      std::vector<float> b = random.row(static_cast<size_t>(partial_floats(head_dim)), 5);
      b[0] = a[0] + gap;
      a[1] = 3.5f;
      b[1] = 1.25f;
      std::vector<float> expected = a;
      twin.attention.merge(head_dim, b.data(), expected.data());
      set().attention.merge(head_dim, b.data(), a.data());
      EXPECT_TRUE(same_bits(expected, a)) << gap;
      std::vector<float> out(static_cast<size_t>(head_dim));
      std::vector<float> expected_out(out.size());
      twin.attention.finish(head_dim, expected.data(), expected_out.data());
      set().attention.finish(head_dim, a.data(), out.data());
      EXPECT_TRUE(same_bits(expected_out, out));
    }
  }
}

// The bits themselves: a change of these numbers is a change of the arithmetic, and kArithmeticVersion must change with it.
TEST_P(SpanOfEverySet, BitsAreTheCommittedOnes) {
  Hasher hasher;
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kF32}) {
    for (const int head_dim : {64, 80, 128, 256}) {
      const AttentionShape shape = shape_of(head_dim, 1, format, 100);
      const Tokens tokens(shape, 256, 2024);
      const StoredTokens stored(set(), shape, tokens, 0, 256);
      SpanCall call(shape, stored, 128);
      for (int i = 0; i < 11; ++i) call.add(tokens.q.data() + i * shape.heads * head_dim, 130 + 9 * i);
      const std::vector<float> partials = call.together(set(), 0);
      hasher.add(std::as_bytes(std::span(partials)));
    }
  }
  EXPECT_EQ(hasher.digest(), set().arithmetic == Arithmetic::kFused ? 8121384869751870577u : 14868441480234888824u);
}

TEST(Half, ConvertsEveryValueThereAndBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = half_to_float(static_cast<uint16_t>(half));
    if (value != value) {
      EXPECT_GT(half & 0x7fffu, 0x7c00u);
      continue;
    }
    EXPECT_EQ(float_to_half(value), half);
    // The middle between two neighbours goes to the even one.
    if ((half & 0x7fffu) >= 0x7bffu) continue;
    const float next = half_to_float(static_cast<uint16_t>(half + 1));
    const uint32_t even = (half & 1) == 0 ? half : half + 1;
    EXPECT_EQ(float_to_half((value + next) / 2), even);
  }
}

}  // namespace
}  // namespace quire::kernels
