// Who computes which spans of a step's attention, and in which order: made once for all layers that are alike.
//
// Cascade attention: the records of a shared beginning have the same addresses for all sequences that share it. Their queries are
// gathered, and each span is read once for up to 96 of them. A strip is what is computed so: a run of spans at the same addresses
// and the rows (an input's positions) that read it. Strips of one input alone hold what it shares with nobody: the spans that nodes
// cut, its own tokens, and everything when it has so many rows that reading costs little.
//
// A row's spans are merged in order of position, so its strips are computed one after the other: by levels, the spans that lie
// before a shared strip in a level before it. Sharing forms a tree (a strip is shared by inputs that share all before it), which
// bounds the levels by its depth.
//
// A level's strips are cut into blocks of rows; a block under one KV head is a unit of work. Units stand in one row, weighted by
// what their spans cost, and the row is cut into as many equal shares as the team has members. A share may begin inside a unit, at
// a span: the member that begins there writes the partial results of that unit's spans into scratch memory (spilled spans), and
// after a barrier they are merged in order of position. So the cuts move nothing but the work. Scratch memory is bounded because a
// level is done in rounds, each over at most so many spans of a unit as one member can spill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"

namespace quire::kernels {

// Queries (positions x heads of a KV head) of one unit: enough to read K and V from the second-level cache.
inline constexpr int kUnitQueries = 96;

class AttentionPlan {
 public:
  // A position of an input in a strip.
  struct Row {
    size_t input = 0;
    int row = 0;          // of the input
    int row_of_step = 0;  // of all inputs' rows
    int64_t position = 0;
    int64_t first_span = 0;  // the first that it sees at all
    int64_t span_begin = 0;  // those of the strip that it sees
    int64_t span_end = 0;
    bool ends = false;  // it sees none after them

    [[nodiscard]] bool sees(int64_t span) const { return span >= span_begin && span < span_end; }
  };
  struct Block {
    size_t row_begin = 0;  // of rows()
    size_t row_end = 0;
    int64_t span_begin = 0;  // what some row sees
    int64_t span_end = 0;
    int64_t tile_begin = 0;
    int64_t tile_end = 0;
  };
  // Where a strip's tiles are: in the pieces of an input from `piece` on or, when it is shared, all in line with that piece.
  struct Strip {
    size_t input = 0;
    size_t piece = 0;
    bool shared = false;
    size_t level = 0;
    size_t block_begin = 0;
    size_t block_end = 0;
  };
  // Spans of a block that are computed in one round.
  struct Slice {
    size_t block = 0;
    int64_t span_begin = 0;
    int64_t span_end = 0;
  };
  // A strip's slices of one round; all of them under one KV head after the other.
  struct Group {
    size_t strip = 0;
    size_t slice_begin = 0;
    size_t slice_end = 0;
    int64_t cost = 0;  // under one KV head
  };
  // A place in a round's row of units: a group, one of its units, a span of it.
  struct Place {
    size_t group = 0;
    int kv_head = 0;
    size_t slice = 0;
    int64_t span = 0;

    [[nodiscard]] bool same_unit(const Place& other) const {
      return group == other.group && kv_head == other.kv_head && slice == other.slice;
    }
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Round {
    size_t group_begin = 0;
    size_t group_end = 0;
    size_t shares = 0;  // of places(): member i's share is from the i-th place on to the next
    bool spills = false;
  };

  // Plans a step by the pieces of one layer. Takes no memory that an earlier plan of such a step did not take.
  void make(const AttentionShape& shape, std::span<const AttentionInput> inputs, size_t layer, int threads);

  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] std::span<const Row> rows() const { return rows_; }
  [[nodiscard]] std::span<const Strip> strips() const { return strips_; }
  [[nodiscard]] std::span<const Block> blocks() const { return blocks_; }
  [[nodiscard]] std::span<const Slice> slices() const { return slices_; }
  [[nodiscard]] std::span<const Group> groups() const { return groups_; }
  [[nodiscard]] std::span<const Round> rounds() const { return rounds_; }
  [[nodiscard]] std::span<const Place> places() const { return places_; }

  // The beginning of the unit after that of `place`; {group_end} after the last.
  [[nodiscard]] Place next_unit(const Round& round, const Place& place) const;
  [[nodiscard]] Place begin_of(size_t group, int kv_head, size_t slice) const {
    return {group, kv_head, slice, slices_[slice].span_begin};
  }

  // Spans that shared strips save reading, for each KV head: what several inputs would read one by one.
  [[nodiscard]] int64_t spans_saved() const { return spans_saved_; }

 private:
  // What the rows of an input see together, and its first row of the step.
  struct Seen {
    int64_t tile_begin = 0;
    int64_t tile_end = 0;
    int row_of_step = 0;
    size_t run_begin = 0;  // of runs_
    size_t run_end = 0;
  };
  // Spans that lie wholly in pieces of one input that are in line with each other.
  struct Run {
    size_t piece = 0;  // the first
    int64_t span_begin = 0;
    int64_t span_end = 0;
    size_t node = 0;
  };
  // Runs of several inputs at the same addresses, after the same runs before.
  struct Node {
    uintptr_t origin = 0;  // where tile 0 would be
    int64_t stride = 0;
    size_t parent = 0;
    size_t depth = 0;  // shared nodes from the root to here
    bool shared = false;
    size_t runs = 0;
    int64_t spans = 0;  // of all runs
    int64_t span_begin = INT64_MAX;
    int64_t span_end = 0;
    // The spans before and behind are of one run alone.
    int64_t shared_begin = INT64_MAX;
    int64_t shared_end = 0;
    size_t member_begin = 0;  // of members_
    size_t member_end = 0;    // as far as they are there
  };
  struct Member {
    size_t input = 0;
    Run run;
  };

  void clear();
  void find_runs(std::span<const AttentionInput> inputs, size_t layer);
  void add_runs(std::span<const KvPiece> pieces, const Seen& seen);
  size_t node_of(uintptr_t origin, int64_t stride, size_t parent);
  void choose_shared_nodes();
  [[nodiscard]] size_t blocks_for(size_t rows) const;
  void add_own_strips(std::span<const AttentionInput> inputs);
  void add_shared_strips(std::span<const AttentionInput> inputs);
  void add_rows(std::span<const AttentionInput> inputs, size_t input, int64_t span_begin, int64_t span_end);
  void add_strip(Strip strip, size_t row_begin);
  bool add_round(size_t level);
  void cut_shares(Round& round);
  [[nodiscard]] Place place_at(const Round& round, size_t group, int64_t cost, int64_t share) const;
  [[nodiscard]] int64_t cost_of(const Block& block, int64_t span_begin, int64_t span_end) const;

  AttentionShape shape_;
  int threads_ = 1;
  int64_t spans_saved_ = 0;
  size_t last_level_ = 0;

  // Of the making.
  std::vector<Seen> seen_;
  std::vector<Run> runs_;
  std::vector<Node> nodes_;  // the first is the root
  std::vector<size_t> table_;
  std::vector<Member> members_;
  std::vector<int64_t> progress_;  // by block: the first span that no round has

  // The plan.
  std::vector<Row> rows_;
  std::vector<Strip> strips_;
  std::vector<Block> blocks_;
  std::vector<Slice> slices_;
  std::vector<Group> groups_;
  std::vector<Round> rounds_;
  std::vector<Place> places_;
};

// How scratch memory is divided: for each member partial results of one unit and those that it spills, then what each query of the
// step has merged so far.
struct AttentionScratch {
  size_t unit = 0;      // floats of the partial results of the largest unit
  size_t spill = 0;     // floats that a member spills in one round
  size_t row_head = 0;  // floats of a row under one KV head

  explicit AttentionScratch(const AttentionShape& shape);
};

[[nodiscard]] inline int group_size(const AttentionShape& shape) { return shape.heads / shape.kv_heads; }

}  // namespace quire::kernels
