// attend(): the same positions in any company, chunking, cut of memory and team give the same bits, and those of the formula.
#include <gtest/gtest.h>
// GoogleTest before RapidCheck
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "kernels/attention.h"
#include "kernels/attention_test_support.h"

namespace quire::kernels {
namespace {

std::vector<float> attend_rows(const KernelSet& set, const AttentionShape& shape, const Tokens& tokens, const StoredTokens& stored,
                               int first, int end, int threads = 1) {
  Rows rows(shape, tokens, stored, first, end);
  run_attend(set, shape, std::span(&rows.input, 1), team_of(threads));
  return rows.out;
}

// The rows [first, end) in chunks, each chunk's K and V stored only when it is computed, as prefill does.
std::vector<float> attend_in_chunks(const KernelSet& set, const AttentionShape& shape, const Tokens& tokens, int first, int end,
                                    int chunk, int threads, const std::vector<int>& cuts) {
  std::vector<float> all;
  for (int begin = first; begin < end; begin += chunk) {
    const int chunk_end = std::min(begin + chunk, end);
    // What lies before the window of the first query need not be there.
    const int oldest = shape.window == 0 ? 0 : std::max(0, begin - static_cast<int>(shape.window) + 1);
    const StoredTokens stored(set, shape, tokens, oldest, chunk_end, cuts);
    const std::vector<float> part = attend_rows(set, shape, tokens, stored, begin, chunk_end, threads);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<float> tail_of(const std::vector<float>& rows, const AttentionShape& shape, int first) {
  return {rows.begin() + static_cast<int64_t>(first) * shape.heads * shape.head_dim, rows.end()};
}

class AttendOfEverySet : public ::testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& set() const { return *GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Attend, AttendOfEverySet, ::testing::ValuesIn(fast_sets()), [](const auto& name) {
  std::string text(to_string(name.param->isa));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

TEST(AttendReference, IsTheFormula) {
  for (const KernelSet* set : available_kernel_sets()) {
    for (const int head_dim : {16, 64, 80, 256}) {
      for (const int64_t window : {0, 1, 40}) {
        const AttentionShape shape = shape_of(2, 3, head_dim, window, KvFormat::kF32);
        const int count = 300;
        const Tokens tokens(shape, count, static_cast<uint32_t>(head_dim));
        const StoredTokens stored(*set, shape, tokens, 0, count);
        double worst = 0;
        for (const int position : {0, 1, 31, 127, 128, 200, 299}) {
          const std::vector<float> out = attend_rows(*set, shape, tokens, stored, position, position + 1);
          for (int head = 0; head < shape.heads; ++head) {
            const std::vector<double> exact = exact_attention(shape, tokens, position, head);
            const float* row = out.data() + static_cast<int64_t>(head) * head_dim;
            for (size_t d = 0; d < exact.size(); ++d) worst = std::max(worst, std::abs(exact[d] - static_cast<double>(row[d])));
          }
        }
        EXPECT_LT(worst, 4e-6) << to_string(set->isa) << " head_dim " << head_dim << " window " << window;
      }
    }
  }
}

TEST_P(AttendOfEverySet, EqualsTheTwinWithAnyGroupWidthAndFormat) {
  const KernelSet twin = twin_of(set());
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kF32}) {
    for (const int head_dim : {16, 64, 80, 96, 128, 256}) {
      for (int group = 1; group <= 8; group += head_dim == 64 ? 1 : 3) {
        const AttentionShape shape = shape_of(1, group, head_dim, 0, format);
        const Tokens tokens(shape, 141, static_cast<uint32_t>(group));
        const StoredTokens stored(set(), shape, tokens, 0, 141, {1, 4});
        const std::vector<float> expected = attend_rows(twin, shape, tokens, stored, 120, 141);
        EXPECT_TRUE(same_bits(expected, attend_rows(set(), shape, tokens, stored, 120, 141))) << head_dim << " " << group;
        for (int row = 120; row < 141; row += 5) {
          EXPECT_TRUE(same_bits(attend_rows(set(), shape, tokens, stored, row, row + 1),
                                {expected.begin() + static_cast<int64_t>(row - 120) * shape.heads * head_dim,
                                 expected.begin() + static_cast<int64_t>(row - 119) * shape.heads * head_dim}));
        }
      }
    }
  }
}

TEST_P(AttendOfEverySet, ChunksCutsAndThreadsDoNotShow) {
  for (const int64_t window : {0, 1, 5, 32, 100, 128, 512}) {
    const AttentionShape shape = shape_of(2, 3, 64, window);
    const int count = 270;
    const Tokens tokens(shape, count, 99);
    const StoredTokens stored(set(), shape, tokens, 0, count);
    const std::vector<float> whole = attend_rows(set(), shape, tokens, stored, 0, count);
    for (const auto& [threads, chunk] : {std::pair{1, 7}, {2, 133}, {3, 32}, {8, 50}}) {
      EXPECT_TRUE(same_bits(whole, attend_rows(set(), shape, tokens, stored, 0, count, threads))) << threads;
      const std::vector<int> cuts = {threads, 2 * threads + 1, 4, 6};
      EXPECT_TRUE(same_bits(whole, attend_in_chunks(set(), shape, tokens, 0, count, chunk, threads, cuts)))
          << "window " << window << " chunk " << chunk << " threads " << threads;
      // Decode of the last positions.
      EXPECT_TRUE(same_bits(tail_of(whole, shape, count - 6),
                            attend_in_chunks(set(), shape, tokens, count - 6, count, 1, threads, {4, 6})));
    }
  }
}

TEST_P(AttendOfEverySet, CutsAtEveryTileDoNotShow) {
  const AttentionShape shape = shape_of(1, 2, 64);
  const Tokens tokens(shape, 300, 5);
  const StoredTokens whole(set(), shape, tokens, 0, 300);
  const std::vector<float> expected = attend_rows(twin_of(set()), shape, tokens, whole, 290, 300);
  for (int cut = 1; cut < 10; ++cut) {
    for (int second = cut; second < 10; ++second) {
      const StoredTokens cut_twice(set(), shape, tokens, 0, 300, {cut, second});
      EXPECT_TRUE(same_bits(expected, attend_rows(set(), shape, tokens, cut_twice, 290, 300, 2))) << cut << " " << second;
    }
  }
}

// A sequence that begins like the shared one and goes on alone.
struct Branch {
  Tokens tokens;
  StoredTokens tail;
  std::vector<KvPiece> pieces;

  Branch(const KernelSet& set, const AttentionShape& shape, const Tokens& shared, const StoredTokens& node, int shared_tokens,
         int count, uint32_t seed)
      : tokens(with_beginning(shape, shared, shared_tokens, count, seed)), tail(set, shape, tokens, shared_tokens, count) {
    pieces.assign(node.pieces().begin(), node.pieces().end());
    for (const KvPiece& piece : tail.pieces()) pieces.push_back(piece);
  }

  static Tokens with_beginning(const AttentionShape& shape, const Tokens& shared, int shared_tokens, int count, uint32_t seed) {
    Tokens tokens(shape, count, seed);
    const int64_t row = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
    std::copy_n(shared.k.begin(), shared_tokens * row, tokens.k.begin());
    std::copy_n(shared.v.begin(), shared_tokens * row, tokens.v.begin());
    return tokens;
  }
};

TEST_P(AttendOfEverySet, SequencesTogetherOverASharedNodeEqualEachAlone) {
  const AttentionShape shape = shape_of(2, 3, 64);
  const int shared_tokens = 192;  // six tiles: the node ends inside a span
  const Tokens shared(shape, shared_tokens, 1);
  const StoredTokens node(set(), shape, shared, 0, shared_tokens);
  std::vector<std::unique_ptr<Branch>> branches;
  std::vector<Rows> rows;
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < 9; ++i) {
    const int count = 193 + i * 37;
    const int queries = i % 3 == 2 ? 40 : 1;
    branches.push_back(std::make_unique<Branch>(set(), shape, shared, node, shared_tokens, count, 100 + static_cast<uint32_t>(i)));
    rows.emplace_back(shape, branches.back()->tokens, branches.back()->tail, std::max(count - queries, 0), count);
    rows.back().set_pieces(branches.back()->pieces);
    // Alone, from memory of its own in one piece.
    const StoredTokens own(set(), shape, branches.back()->tokens, 0, count);
    alone.push_back(attend_rows(twin_of(set()), shape, branches.back()->tokens, own, std::max(count - queries, 0), count));
  }
  for (const int threads : {1, 2, 3, 8}) {
    std::vector<AttentionInput> inputs;
    for (const Rows& row : rows) inputs.push_back(row.input);
    inputs.push_back({});  // a sequence without queries in this step
    run_attend(set(), shape, inputs, team_of(threads));
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same_bits(alone[i], rows[i].out)) << i << " threads " << threads;
  }
}

TEST_P(AttendOfEverySet, OnePassOverASharedSpanServesAllSequences) {
  const AttentionShape shape = shape_of(1, 3, 64);
  const Tokens shared(shape, 256, 1);
  const StoredTokens node(set(), shape, shared, 0, 256);
  const int users = 32;
  Random random(77);
  const std::vector<float> q = random.row(static_cast<size_t>(users) * 3 * 64, 2);
  const auto partial = static_cast<size_t>(partial_floats(64));
  for (const int64_t first : {0, 128}) {
    SpanTiles span;
    span.first_position = first;
    for (int i = 0; i < kSpanTiles; ++i) span.tile[i] = node.tile(first / kTileTokens + i);
    std::vector<float> together(static_cast<size_t>(users) * 3 * partial, 0.0f);
    std::vector<float> alone = together;
    std::vector<SpanQuery> queries;
    for (size_t i = 0; i < static_cast<size_t>(users) * 3; ++i) {
      const SpanQuery query = {q.data() + i * 64, 256 + static_cast<int64_t>(i), alone.data() + i * partial};
      set().attention.attend_span(shape, span, 0, &query, 1);
      queries.push_back({query.q, query.position, together.data() + i * partial});
    }
    set().attention.attend_span(shape, span, 0, queries.data(), static_cast<int>(queries.size()));
    EXPECT_TRUE(same_bits(alone, together));
  }
}

TEST_P(AttendOfEverySet, LargeGroupsAreComputedToo) {
  const AttentionShape shape = shape_of(1, 71, 64, 50);
  const Tokens tokens(shape, 150, 8);
  const StoredTokens stored(set(), shape, tokens, 0, 150);
  const std::vector<float> expected = attend_rows(twin_of(set()), shape, tokens, stored, 145, 150);
  EXPECT_TRUE(same_bits(expected, attend_rows(set(), shape, tokens, stored, 145, 150, 3)));
}

TEST_P(AttendOfEverySet, BitsAreTheCommittedOnes) {
  Hasher hasher;
  for (const int64_t window : {0, 100}) {
    const AttentionShape shape = shape_of(2, 2, 64, window);
    const Tokens tokens(shape, 400, 31);
    const StoredTokens stored(set(), shape, tokens, 0, 400);
    const std::vector<float> out = attend_rows(set(), shape, tokens, stored, 0, 400);
    hasher.add(std::as_bytes(std::span(out)));
  }
  EXPECT_EQ(hasher.digest(), set().arithmetic == Arithmetic::kFused ? 14370958799565951974u : 10407078434417840673u);
}

RC_GTEST_PROP(AttendProperty, AnySplitGivesTheBitsOfTheTwin, ()) {
  const std::vector<const KernelSet*> sets = fast_sets();
  const KernelSet& set = *sets[*rc::gen::inRange<size_t>(0, sets.size())];
  const AttentionShape shape =
      shape_of(*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 9), 16 * *rc::gen::inRange(1, 9),
               *rc::gen::element<int64_t>(0, 0, 1, 5, 32, 100, 128, 512), *rc::gen::element(KvFormat::kF16, KvFormat::kF32));
  const int count = *rc::gen::inRange(1, 300);
  const int first = std::max(0, count - *rc::gen::inRange(1, 30));
  const Tokens tokens(shape, count, *rc::gen::arbitrary<uint32_t>());
  const StoredTokens stored(set, shape, tokens, 0, count);
  const std::vector<float> expected = attend_rows(twin_of(set), shape, tokens, stored, first, count);
  const int threads = *rc::gen::inRange(1, 6);
  const int chunk = *rc::gen::inRange(1, 40);
  const std::vector<int> cuts = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 10));
  RC_ASSERT(same_bits(expected, attend_in_chunks(set, shape, tokens, first, count, chunk, threads, cuts)));
}

TEST(AttentionShape, RecordsAreAsLargeAsTheirElements) {
  EXPECT_EQ(tile_record_bytes(shape_of(3, 3, 64)), size_t{24 * 1024});
  EXPECT_EQ(tile_record_bytes(shape_of(1, 4, 256)), size_t{32 * 1024});
  EXPECT_EQ(tile_record_bytes(shape_of(3, 3, 64, 0, KvFormat::kF32)), size_t{48 * 1024});
}

}  // namespace
}  // namespace quire::kernels
