// Cascade attention: sequences that share records, in any tree and company, give the bits that each has alone from memory of its
// own; and what is shared is read once.
#include <gtest/gtest.h>
// GoogleTest before RapidCheck
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/attention_test_support.h"

namespace quire::kernels {
namespace {

// A node of a prefix tree: the tokens from its parent's end to its own, in memory of its own or, as when a sequence was extended in
// place after others had branched off, in line behind its parent's.
struct Branch {
  const Branch* parent = nullptr;
  int end = 0;  // whole tiles, unless it is a leaf
  Tokens tokens;
  std::shared_ptr<Poisoned> memory;
  std::vector<KvPiece> pieces;  // from the first tile of the sequence on

  Branch(const AttentionShape& shape, const Branch* a_parent, int an_end, uint32_t seed)
      : parent(a_parent), end(an_end), tokens(shape, an_end, seed) {
    if (parent == nullptr) return;
    const int64_t row = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
    std::copy_n(parent->tokens.k.begin(), parent->end * row, tokens.k.begin());
    std::copy_n(parent->tokens.v.begin(), parent->end * row, tokens.v.begin());
    pieces = parent->pieces;
  }

  [[nodiscard]] int begin() const { return parent == nullptr ? 0 : parent->end; }

  // `room` tiles of memory from begin() on: more than needed is room for children in line.
  void allocate(const AttentionShape& shape, int64_t room) {
    const auto stride = static_cast<int64_t>(tile_record_bytes(shape)) + 64 * (end % 3);
    memory = std::make_shared<Poisoned>(static_cast<size_t>(room * stride));
    add_piece({memory->data(), stride, begin() / kTileTokens, ceil_div(end, kTileTokens) - begin() / kTileTokens});
  }
  void take_room_of_parent() {
    memory = parent->memory;
    const KvPiece& before = parent->pieces.back();
    add_piece({before.base + before.tiles * before.tile_stride, before.tile_stride, before.first_tile + before.tiles,
               ceil_div(end, kTileTokens) - begin() / kTileTokens});
  }
  void add_piece(const KvPiece& piece) {
    if (piece.tiles > 0) pieces.push_back(piece);
  }

  void store(const KernelSet& set, const AttentionShape& shape) const {
    const int64_t stride = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
    for (int position = begin(); position < end; ++position) {
      const KvPiece& piece = pieces.back();
      std::byte* record = piece.base + (position / kTileTokens - piece.first_tile) * piece.tile_stride;
      for (int head = 0; head < shape.kv_heads; ++head) {
        const int64_t at = position * stride + static_cast<int64_t>(head) * shape.head_dim;
        set.attention.store_kv(shape, record, head, position % kTileTokens, 1, tokens.k.data() + at, tokens.v.data() + at, stride);
      }
    }
  }

  // What a sequence that begins to read at `oldest` is given: no tiles before.
  [[nodiscard]] std::vector<KvPiece> pieces_from(int64_t oldest) const {
    std::vector<KvPiece> seen;
    for (KvPiece piece : pieces) {
      const int64_t skipped = std::clamp<int64_t>(oldest / kTileTokens - piece.first_tile, 0, piece.tiles);
      piece.base += skipped * piece.tile_stride;
      piece.first_tile += skipped;
      piece.tiles -= skipped;
      if (piece.tiles > 0) seen.push_back(piece);
    }
    return seen;
  }
};

// A tree of tokens in memory, and the queries at the ends of some of its leaves.
class Forest {
 public:
  Forest(const KernelSet& set, const AttentionShape& shape) : set_(set), shape_(shape) {}

  // Children go on after all of the parent's tokens. `in_line`: where the parent's memory goes on; once for each parent.
  const Branch* add(const Branch* parent, int tokens, bool in_line = false) {
    const int begin = parent == nullptr ? 0 : parent->end;
    branches_.push_back(std::make_unique<Branch>(shape_, parent, begin + tokens, static_cast<uint32_t>(branches_.size() + 1)));
    Branch& branch = *branches_.back();
    if (in_line && parent != nullptr && (parent->parent == nullptr || parent->memory != parent->parent->memory)) {
      branch.take_room_of_parent();
    } else {
      branch.allocate(shape_, ceil_div(tokens, kTileTokens) + 40);
    }
    branch.store(set_, shape_);
    return &branch;
  }

  // The last `queries` positions of a branch.
  void ask(const Branch* branch, int queries) {
    const int first = branch->end - queries;
    const int64_t oldest = shape_.window == 0 ? 0 : std::max<int64_t>(0, first - shape_.window + 1);
    views_.push_back(std::make_unique<std::vector<KvPiece>>(branch->pieces_from(oldest)));
    const StoredTokens own(set_, shape_, branch->tokens, static_cast<int>(oldest), branch->end);
    Rows alone(shape_, branch->tokens, own, first, branch->end);
    EXPECT_EQ(run_attend(twin_of(set_), shape_, std::span(&alone.input, 1), team_of(1)), 0);
    expected_.push_back(alone.out);
    rows_.emplace_back(shape_, branch->tokens, own, first, branch->end);
    rows_.back().set_pieces(*views_.back());
  }

  // All that was asked in one step. Answers the spans that sharing saved, or -1 when an answer is not what it is alone.
  int64_t run(int threads) {
    std::vector<AttentionInput> inputs;
    for (Rows& row : rows_) {
      std::fill(row.out.begin(), row.out.end(), -7777.0f);
      inputs.push_back(row.input);
    }
    const int64_t saved = run_attend(set_, shape_, inputs, team_of(threads));
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto same = same_bits(expected_[i], rows_[i].out);
      EXPECT_TRUE(same) << "input " << i << " threads " << threads;
      if (!same) return -1;
    }
    return saved;
  }

 private:
  const KernelSet& set_;
  AttentionShape shape_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::vector<std::unique_ptr<std::vector<KvPiece>>> views_;
  std::vector<Rows> rows_;
  std::vector<std::vector<float>> expected_;
};

TEST(Cascade, ATreeOfSharedNodesBesideAPrefillIsReadOnceAndShowsInNoBit) {
  Forest forest(best_kernel_set(), shape_of(2, 3, 64));
  const Branch* all = forest.add(nullptr, 640);  // 5 spans
  const Branch* half = forest.add(all, 160);     // cut: 1 tile; a span: 640..768, cut: 1 tile
  const Branch* some = forest.add(half, 352);    // to 1152
  for (int i = 0; i < 4; ++i) forest.ask(forest.add(all, 30 + i), 1);
  for (int i = 0; i < 3; ++i) forest.ask(forest.add(half, 200 + 60 * i), 1);
  for (int i = 0; i < 4; ++i) forest.ask(forest.add(some, 1 + 130 * i), i == 2 ? 5 : 1);
  forest.ask(forest.add(some, 130), 120);  // a prefill
  forest.ask(forest.add(nullptr, 300), 1);
  // 11 of the 13 share 5 spans, 7 one more, 4 another two (896..1152).
  for (const int threads : {1, 2, 8}) EXPECT_EQ(forest.run(threads), 10 * 5 + 6 * 1 + 3 * 2) << threads;
}

TEST(Cascade, InputsOfOneSequenceAndSpansThatEndInsideAreShared) {
  const KernelSet& set = best_kernel_set();
  for (const int64_t window : {0, 200, 700}) {
    Forest forest(set, shape_of(2, 3, 64, window));
    const Branch* trunk = forest.add(nullptr, 1280);
    const Branch* line = forest.add(trunk, 100, true);  // goes on where the trunk ends
    for (int i = 0; i < 3; ++i) forest.ask(line, 1);
    forest.ask(trunk, 1);
    forest.ask(trunk, 17);
    for (int i = 0; i < 5; ++i) forest.ask(forest.add(trunk, 10 + 90 * i), 1 + i);
    for (const int threads : {1, 2, 3, 8}) {
      const int64_t saved = forest.run(threads);
      EXPECT_GT(saved, window == 0 ? 80 : 8) << "window " << window;
    }
  }
}

TEST(Cascade, ManySequencesInBlocksAndRounds) {
  const KernelSet& set = best_kernel_set();
  Forest forest(set, shape_of(1, 8, 16));
  // More queries than a unit takes, more spans than a member spills in a round.
  const Branch* trunk = forest.add(nullptr, 24 * kSpanTokens + 96);
  for (int i = 0; i < 40; ++i) forest.ask(forest.add(trunk, 1 + 7 * i), 1);
  for (const int threads : {1, 2, 3, 8}) EXPECT_EQ(forest.run(threads), 39 * 24);
}

TEST(Cascade, OneLongAndManyShortSequences) {
  const KernelSet& set = best_kernel_set();
  Forest forest(set, shape_of(3, 3, 64));
  forest.ask(forest.add(nullptr, 5000), 1);
  for (int i = 0; i < 31; ++i) forest.ask(forest.add(nullptr, 40 + i), 1);
  for (const int threads : {1, 2, 8}) EXPECT_EQ(forest.run(threads), 0);
}

TEST(Cascade, LongPrefillGoesInRounds) {
  const KernelSet& set = best_kernel_set();
  Forest forest(set, shape_of(1, 4, 16));
  forest.ask(forest.add(nullptr, 3500), 300);
  forest.ask(forest.add(nullptr, 2500), 23);
  for (const int threads : {1, 2, 3, 8}) EXPECT_EQ(forest.run(threads), 0);
}

TEST(Cascade, MoreSpansThanAMemberSpillsGoInRounds) {
  const KernelSet& set = best_kernel_set();
  Forest forest(set, shape_of(2, 96, 16));  // two units, as large as they are: of three shares the last begins early in one
  forest.ask(forest.add(nullptr, 40 * kSpanTokens), 1);
  for (const int threads : {1, 2, 3, 8}) EXPECT_EQ(forest.run(threads), 0);
}

// Sequences that leave a run of records, come back to it, or reach it after others had left it are no tree, and still right.
TEST(Cascade, PiecesThatAreNoTreeAreComputedToo) {
  const KernelSet& set = best_kernel_set();
  const AttentionShape shape = shape_of(1, 2, 64);
  constexpr int kTiles = 4 * kSpanTiles;
  const int count = 3 * kTiles * kTileTokens;
  const Tokens tokens(shape, count, 3);
  // Three copies of the same; every sequence takes each third of its tokens from one of them.
  const StoredTokens copies[] = {{set, shape, tokens, 0, count}, {set, shape, tokens, 0, count}, {set, shape, tokens, 0, count}};
  const auto pieces_from = [&](const std::array<int, 3>& thirds) {
    std::vector<KvPiece> pieces;
    for (int i = 0; i < 3; ++i) {
      const KvPiece& copy = copies[thirds[static_cast<size_t>(i)]].pieces()[0];
      pieces.push_back({copy.base + i * kTiles * copy.tile_stride, copy.tile_stride, i * kTiles, kTiles});
    }
    return pieces;
  };
  std::vector<std::vector<KvPiece>> pieces;
  for (const auto& thirds : {std::array{0, 1, 2}, {2, 1, 0}, {0, 1, 0}}) pieces.insert(pieces.end(), 2, pieces_from(thirds));
  Rows alone(shape, tokens, copies[0], count - 2, count);
  run_attend(set, shape, std::span(&alone.input, 1), team_of(1));
  std::vector<Rows> rows;
  std::vector<AttentionInput> inputs;
  for (const std::vector<KvPiece>& own : pieces) {
    rows.emplace_back(shape, tokens, copies[0], count - 2, count);
    rows.back().set_pieces(own);
    inputs.push_back(rows.back().input);
  }
  // The first and the last pair share two thirds; beyond that each pair shares with itself.
  EXPECT_EQ(run_attend(set, shape, inputs, team_of(2)), 2 * 3 * 4 + 2 * 4 + 3 * 4);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same_bits(alone.out, rows[i].out)) << i;
}

RC_GTEST_PROP(CascadeProperty, AnyTreeInAnyCompanyGivesTheBitsOfEachAlone, ()) {
  const std::vector<const KernelSet*> sets = fast_sets();
  const KernelSet& set = *sets[*rc::gen::inRange<size_t>(0, sets.size())];
  const AttentionShape shape =
      shape_of(*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 6), 16 * *rc::gen::inRange(1, 5),
               *rc::gen::element<int64_t>(0, 0, 0, 1, 33, 128, 300, 512), *rc::gen::element(KvFormat::kF16, KvFormat::kF32));
  Forest forest(set, shape);
  std::vector<const Branch*> nodes = {nullptr};
  std::vector<const Branch*> extended;
  const int branches = *rc::gen::inRange(1, 6);
  for (int i = 0; i < branches; ++i) {
    const Branch* parent = nodes[*rc::gen::inRange<size_t>(0, nodes.size())];
    const bool in_line = *rc::gen::arbitrary<bool>() && std::find(extended.begin(), extended.end(), parent) == extended.end();
    extended.push_back(parent);
    nodes.push_back(forest.add(parent, kTileTokens * *rc::gen::inRange(1, 20), in_line));
  }
  const int asked = *rc::gen::inRange(1, 12);
  for (int i = 0; i < asked; ++i) {
    const Branch* parent = nodes[*rc::gen::inRange<size_t>(0, nodes.size())];
    const Branch* leaf = forest.add(parent, *rc::gen::inRange(1, 150));
    const int queries = *rc::gen::element(1, 1, 1, 2, 7, 40, 100);
    // Now and then a node itself, whose last span is shared by those behind it.
    forest.ask(parent != nullptr && i % 4 == 3 ? parent : leaf,
               std::min(queries, parent != nullptr && i % 4 == 3 ? parent->end : leaf->end));
  }
  const int threads = *rc::gen::element(1, 2, 3, 8);
  RC_ASSERT(forest.run(threads) >= 0);
}

}  // namespace
}  // namespace quire::kernels
