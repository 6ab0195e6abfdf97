// The work of attend() and who does it.
//
// A unit is a block of one sequence's positions and the query heads of one KV head; it is computed span after span, and each span
// is merged into what came before. Units stand in one row, weighted by what their spans cost, and the row is cut into as many
// equal shares as the team has members. A share may begin inside a unit, at a span: then the member that holds the unit's first
// span is its home. The others write the partial results of their spans into scratch memory (spilled spans), and after a barrier
// the home merges them in order of position. So the cuts move nothing but the work.
#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "kernels/kernels.h"

namespace quire::kernels {
namespace {

// Queries (positions x heads of a KV head) of one unit: enough to read K and V from the second-level cache.
constexpr int kUnitQueries = 96;
// What reading a tile costs, in queries of computing on it.
constexpr int64_t kTileReadCost = 4;

struct Unit {
  const AttentionInput* input = nullptr;
  int kv_head = 0;
  int row_begin = 0;  // rows (positions) of the input
  int row_end = 0;
  int64_t span_begin = 0;
  int64_t span_end = 0;
};

int group_size(const AttentionShape& shape) { return shape.heads / shape.kv_heads; }
int rows_of_unit(const AttentionShape& shape) { return std::max(1, kUnitQueries / group_size(shape)); }

// Floats of the partial results of all queries of the largest unit.
size_t unit_partials(const AttentionShape& shape) {
  return static_cast<size_t>(rows_of_unit(shape) * group_size(shape) * partial_floats(shape.head_dim));
}

int64_t oldest_seen(const AttentionShape& shape, int64_t position) {
  return shape.window == 0 ? 0 : std::max<int64_t>(0, position - shape.window + 1);
}
int64_t first_span_of(const AttentionShape& shape, const Unit& unit, int row) {
  return oldest_seen(shape, unit.input->first_position + row) / kSpanTokens;
}

// Tiles that some query of the unit reads in the positions [begin, end).
struct TileRange {
  int64_t begin;
  int64_t end;
};
TileRange tiles_read(const AttentionShape& shape, const Unit& unit, int64_t begin, int64_t end) {
  const int64_t oldest = oldest_seen(shape, unit.input->first_position + unit.row_begin);
  const int64_t newest = unit.input->first_position + unit.row_end - 1;
  return {std::max(begin, oldest) / kTileTokens, ceil_div(std::min(end, newest + 1), kTileTokens)};
}

int64_t cost_of_spans(const AttentionShape& shape, const Unit& unit, int64_t span_begin, int64_t span_end) {
  const TileRange tiles = tiles_read(shape, unit, span_begin * kSpanTokens, span_end * kSpanTokens);
  return (tiles.end - tiles.begin) * ((unit.row_end - unit.row_begin) * group_size(shape) + kTileReadCost);
}

// Goes through the units of all inputs: input after input, KV head after KV head, block after block.
class Units {
 public:
  Units(const AttentionShape& shape, std::span<const AttentionInput> inputs) : shape_(shape), inputs_(inputs) { settle(); }

  [[nodiscard]] bool done() const { return input_ == inputs_.size(); }

  [[nodiscard]] Unit get() const {
    const AttentionInput& input = inputs_[input_];
    Unit unit{&input, kv_head_, row_, std::min(row_ + rows_of_unit(shape_), input.count), 0, 0};
    unit.span_begin = first_span_of(shape_, unit, unit.row_begin);
    unit.span_end = (input.first_position + unit.row_end - 1) / kSpanTokens + 1;
    return unit;
  }

  void next() {
    row_ += rows_of_unit(shape_);
    settle();
  }

 private:
  // Steps over ends until a row is left.
  void settle() {
    while (!done() && row_ >= inputs_[input_].count) {
      row_ = 0;
      if (inputs_[input_].count == 0 || ++kv_head_ == shape_.kv_heads) {
        kv_head_ = 0;
        ++input_;
      }
    }
  }

  const AttentionShape& shape_;
  std::span<const AttentionInput> inputs_;
  size_t input_ = 0;
  int kv_head_ = 0;
  int row_ = 0;
};

// The shares of a team: member i holds the spans whose costs begin in [begin(i), begin(i + 1)).
class Shares {
 public:
  Shares(const AttentionShape& shape, std::span<const AttentionInput> inputs, int members) : members_(members) {
    for (Units units(shape, inputs); !units.done(); units.next()) {
      const Unit unit = units.get();
      total_ += cost_of_spans(shape, unit, unit.span_begin, unit.span_end);
    }
  }

  [[nodiscard]] int64_t begin(int member) const { return total_ * member / members_; }

  // The first span of the unit that begins at or after `cost`, when the unit begins at `unit_cost`; span_end when there is none.
  static int64_t first_span_from(const AttentionShape& shape, const Unit& unit, int64_t unit_cost, int64_t cost) {
    int64_t span = unit.span_begin;
    while (span < unit.span_end && unit_cost < cost) {
      unit_cost += cost_of_spans(shape, unit, span, span + 1);
      ++span;
    }
    return span;
  }

  // Where the share ends that `cost` lies in.
  [[nodiscard]] int64_t end_of_share_at(int64_t cost) const {
    int member = 0;
    while (begin(member + 1) <= cost) ++member;
    return begin(member + 1);
  }

 private:
  int64_t total_ = 0;
  int members_;
};

// Floats of the partial results of one span of a unit.
size_t spill_floats(const AttentionShape& shape, const Unit& unit) {
  return static_cast<size_t>((unit.row_end - unit.row_begin) * group_size(shape) * partial_floats(shape.head_dim));
}

// Computes spans of a unit for one member.
class UnitWorker {
 public:
  UnitWorker(const KernelSet& set, const AttentionShape& shape, const Unit& unit) : set_(set), shape_(shape), unit_(unit) {}

  // Computes a span. The partial results of queries that see it as their first go to `first`, the others' to `others`. What this
  // thread reads next is fetched ahead.
  void attend_span(int64_t span, float* first, float* others, const Unit* next_unit) const;

  // Merges a span's partial results, where attend_span put them, into `accumulated`; a query's first is copied unless it is there.
  void merge_span(int64_t span, const float* first, const float* others, float* accumulated) const;

  // Writes the rows of the unit.
  void finish(const float* accumulated) const;

 private:
  // The unit's rows that see the span.
  [[nodiscard]] int first_row(int64_t span) const {
    return static_cast<int>(std::max<int64_t>(unit_.row_begin, span * kSpanTokens - unit_.input->first_position));
  }
  [[nodiscard]] int end_row(int64_t span) const {
    if (shape_.window == 0) return unit_.row_end;
    const int64_t newest = (span + 1) * kSpanTokens - 1 + shape_.window - 1;  // position that still sees the span's last
    return static_cast<int>(std::min<int64_t>(unit_.row_end, newest + 1 - unit_.input->first_position));
  }
  [[nodiscard]] int64_t partial_offset(int row, int head) const {
    return static_cast<int64_t>((row - unit_.row_begin) * group_size(shape_) + head) * partial_floats(shape_.head_dim);
  }

  const KernelSet& set_;
  const AttentionShape& shape_;
  const Unit& unit_;
};

const std::byte* find_tile(std::span<const KvPiece> pieces, int64_t tile) {
  for (const KvPiece& piece : pieces) {
    if (tile < piece.first_tile + piece.tiles) return piece.base + (tile - piece.first_tile) * piece.tile_stride;
  }
  QUIRE_CHECK(false, "a tile that a query sees lies in no piece");
  return nullptr;
}

// The tiles that the unit reads from `span` on.
void fetch_ahead(const AttentionShape& shape, const Unit& unit, int64_t span, SpanTiles& tiles) {
  const TileRange read = tiles_read(shape, unit, span * kSpanTokens, unit.span_end * kSpanTokens);
  for (int64_t i = 0; i < kSpanTiles; ++i) {
    const int64_t tile = std::min(read.begin + i, read.end - 1);
    tiles.next_keys[i] = find_tile(unit.input->pieces, tile) + key_offset(shape, unit.kv_head);
  }
}

void UnitWorker::attend_span(int64_t span, float* first, float* others, const Unit* next_unit) const {
  SpanTiles tiles;
  tiles.first_position = span * kSpanTokens;
  const TileRange read = tiles_read(shape_, unit_, tiles.first_position, tiles.first_position + kSpanTokens);
  for (int64_t tile = read.begin; tile < read.end; ++tile) {
    tiles.tile[tile - span * kSpanTiles] = find_tile(unit_.input->pieces, tile);
  }
  if (span + 1 < unit_.span_end) {
    fetch_ahead(shape_, unit_, span + 1, tiles);
  } else if (next_unit != nullptr) {
    fetch_ahead(shape_, *next_unit, next_unit->span_begin, tiles);
  }
  std::array<SpanQuery, kUnitQueries> queries;
  size_t count = 0;
  const int group = group_size(shape_);
  const int rows_end = end_row(span);
  for (int row = first_row(span); row < rows_end; ++row) {
    float* partials = first_span_of(shape_, unit_, row) == span ? first : others;
    for (int head = 0; head < group; ++head) {
      const int64_t column = static_cast<int64_t>(unit_.kv_head * group + head) * shape_.head_dim;
      queries[count++] = {unit_.input->q + row * unit_.input->q_stride + column, unit_.input->first_position + row,
                          partials + partial_offset(row, head)};
      const bool last = row + 1 == rows_end && head + 1 == group;
      if (count == queries.size() || last) {
        set_.attention.attend_span(shape_, tiles, unit_.kv_head, queries.data(), static_cast<int>(count));
        count = 0;
      }
    }
  }
}

void UnitWorker::merge_span(int64_t span, const float* first, const float* others, float* accumulated) const {
  const size_t bytes = static_cast<size_t>(partial_floats(shape_.head_dim)) * sizeof(float);
  const int rows_end = end_row(span);
  for (int row = first_row(span); row < rows_end; ++row) {
    const bool is_first = first_span_of(shape_, unit_, row) == span;
    for (int head = 0; head < group_size(shape_); ++head) {
      const float* next = (is_first ? first : others) + partial_offset(row, head);
      float* into = accumulated + partial_offset(row, head);
      if (!is_first) {
        set_.attention.merge(shape_.head_dim, next, into);
      } else if (next != into) {
        std::memcpy(into, next, bytes);
      }
    }
  }
}

void UnitWorker::finish(const float* accumulated) const {
  const int group = group_size(shape_);
  for (int row = unit_.row_begin; row < unit_.row_end; ++row) {
    for (int head = 0; head < group; ++head) {
      const int64_t column = static_cast<int64_t>(unit_.kv_head * group + head) * shape_.head_dim;
      set_.attention.finish(shape_.head_dim, accumulated + partial_offset(row, head),
                            unit_.input->out + row * unit_.input->out_stride + column);
    }
  }
}

// A unit of which this member is the home and others compute the last spans.
struct PendingUnit {
  Unit unit;
  int64_t spill_begin = 0;  // first spilled span
  const float* spilled = nullptr;
};

// What one member does with one unit after the other.
class Member {
 public:
  Member(const KernelSet& set, const AttentionShape& shape, const Shares& shares, float* scratch, const port::TeamMember& member)
      : set_(set),
        shape_(shape),
        share_begin_(shares.begin(member.index)),
        share_end_(shares.begin(member.index + 1)),
        accumulated_(scratch + static_cast<size_t>(member.index) * 2 * unit_partials(shape)),
        partials_(accumulated_ + unit_partials(shape)) {}

  // Does this member's part of a unit that begins at `cost`. Its spans from `spill_begin` on belong to other members than its home
  // and are spilled to `spilled`.
  void work_on(const Unit& unit, int64_t cost, int64_t spill_begin, float* spilled, const Unit* next_unit) {
    const int64_t begin = Shares::first_span_from(shape_, unit, cost, share_begin_);
    const int64_t end = Shares::first_span_from(shape_, unit, cost, share_end_);
    const UnitWorker worker(set_, shape_, unit);
    for (int64_t span = begin; span < end; ++span) {
      if (span < spill_begin) {
        worker.attend_span(span, accumulated_, partials_, next_unit);
        worker.merge_span(span, accumulated_, partials_, accumulated_);
      } else {
        float* place = spilled + static_cast<size_t>(span - spill_begin) * spill_floats(shape_, unit);
        worker.attend_span(span, place, place, next_unit);
      }
    }
    if (begin > unit.span_begin || begin == end) return;
    if (end == unit.span_end) {
      worker.finish(accumulated_);
    } else {
      pending_ = {unit, spill_begin, spilled};
    }
  }

  // After the barrier that follows all spilled spans.
  void finish_pending() const {
    if (pending_.unit.input == nullptr) return;
    const UnitWorker worker(set_, shape_, pending_.unit);
    const float* place = pending_.spilled;
    for (int64_t span = pending_.spill_begin; span < pending_.unit.span_end; ++span) {
      worker.merge_span(span, place, place, accumulated_);
      place += spill_floats(shape_, pending_.unit);
    }
    worker.finish(accumulated_);
  }

 private:
  const KernelSet& set_;
  const AttentionShape& shape_;
  int64_t share_begin_;
  int64_t share_end_;
  float* accumulated_;
  float* partials_;
  PendingUnit pending_;
};

}  // namespace

size_t tile_record_bytes(const AttentionShape& shape) {
  const size_t elements = 2 * static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(shape.head_dim) * kTileTokens;
  return static_cast<size_t>(round_up(static_cast<int64_t>(elements * element_bytes(shape.format)), 64));
}

size_t attention_scratch_floats(const AttentionShape& shape, std::span<const AttentionInput> inputs, int threads) {
  const Shares shares(shape, inputs, threads);
  size_t floats = static_cast<size_t>(threads) * 2 * unit_partials(shape);
  int64_t cost = 0;
  for (Units units(shape, inputs); !units.done(); units.next()) {
    const Unit unit = units.get();
    const int64_t spill_begin = Shares::first_span_from(shape, unit, cost, shares.end_of_share_at(cost));
    floats += static_cast<size_t>(unit.span_end - spill_begin) * spill_floats(shape, unit);
    cost += cost_of_spans(shape, unit, unit.span_begin, unit.span_end);
  }
  return floats;
}

void attend(const KernelSet& set, const AttentionShape& shape, std::span<const AttentionInput> inputs, float* scratch,
            port::TeamMember& member) {
  QUIRE_DCHECK(shape.head_dim % 16 == 0 && shape.head_dim <= kMaxHeadDim && shape.heads % shape.kv_heads == 0);
  const Shares shares(shape, inputs, member.count);
  Member me(set, shape, shares, scratch, member);
  float* spilled = scratch + static_cast<size_t>(member.count) * 2 * unit_partials(shape);
  const float* nothing_spilled = spilled;
  int64_t cost = 0;
  Units units(shape, inputs);
  Unit unit = units.done() ? Unit{} : units.get();
  while (!units.done()) {
    units.next();
    const Unit next_unit = units.done() ? Unit{} : units.get();
    const int64_t unit_end = cost + cost_of_spans(shape, unit, unit.span_begin, unit.span_end);
    const int64_t spill_begin = Shares::first_span_from(shape, unit, cost, shares.end_of_share_at(cost));
    if (cost < shares.begin(member.index + 1) && unit_end > shares.begin(member.index)) {
      me.work_on(unit, cost, spill_begin, spilled, units.done() ? nullptr : &next_unit);
    }
    spilled += static_cast<size_t>(unit.span_end - spill_begin) * spill_floats(shape, unit);
    cost = unit_end;
    unit = next_unit;
  }
  if (spilled != nothing_spilled) {
    member.barrier();
    me.finish_pending();
  }
  member.barrier();
}

}  // namespace quire::kernels
