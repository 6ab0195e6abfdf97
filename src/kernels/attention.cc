// Does what an AttentionPlan says: round after round, each member its share of the units, then the spilled spans.
#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "kernels/attention_plan.h"
#include "kernels/kernels.h"

namespace quire::kernels {
namespace {

using Place = AttentionPlan::Place;
using Round = AttentionPlan::Round;
using Row = AttentionPlan::Row;

// One member's work in one layer.
class Worker {
 public:
  Worker(const KernelSet& set, const AttentionPlan& plan, std::span<const AttentionInput> inputs, size_t layer, float* scratch,
         port::TeamMember& member)
      : set_(set),
        plan_(plan),
        shape_(plan.shape()),
        inputs_(inputs),
        layer_(layer),
        sizes_(shape_),
        me_(member),
        spilled_(scratch),
        partials_(spilled_ + static_cast<size_t>(member.count) * sizes_.spill + static_cast<size_t>(member.index) * sizes_.unit),
        accumulated_(spilled_ + static_cast<size_t>(member.count) * (sizes_.spill + sizes_.unit)) {}

  void run() {
    for (const Round& round : plan_.rounds()) {
      work_on_share(round);
      if (round.spills) {
        me_.barrier();
        merge_spilled(round);
      }
      me_.barrier();
    }
    if (plan_.rounds().empty()) me_.barrier();
  }

 private:
  [[nodiscard]] const Place& share_begin(const Round& round, int member) const {
    return plan_.places()[round.shares + static_cast<size_t>(member)];
  }
  [[nodiscard]] const AttentionPlan::Slice& slice_of(const Place& place) const { return plan_.slices()[place.slice]; }
  [[nodiscard]] const AttentionPlan::Block& block_of(const Place& place) const { return plan_.blocks()[slice_of(place).block]; }
  [[nodiscard]] std::span<const Row> rows_of(const Place& place) const {
    return plan_.rows().subspan(block_of(place).row_begin, block_of(place).row_end - block_of(place).row_begin);
  }
  // Inside a unit of the round.
  [[nodiscard]] bool cuts_unit(const Round& round, const Place& place) const {
    return place.group < round.group_end && place.span > slice_of(place).span_begin;
  }

  // What a row's query heads under a KV head have merged so far.
  [[nodiscard]] float* accumulated(const Row& row, int kv_head) const {
    const auto index = static_cast<size_t>(row.row_of_step) * static_cast<size_t>(shape_.kv_heads) + static_cast<size_t>(kv_head);
    return accumulated_ + index * sizes_.row_head;
  }
  // Where a member spills the partial results of a span of the unit that its share begins in.
  [[nodiscard]] float* spilled(int member, const Place& begin, int64_t span) const {
    return spilled_ + static_cast<size_t>(member) * sizes_.spill +
           static_cast<size_t>(span - begin.span) * rows_of(begin).size() * sizes_.row_head;
  }
  [[nodiscard]] int64_t column(int kv_head, int head) const {
    return static_cast<int64_t>(kv_head * group_size(shape_) + head) * shape_.head_dim;
  }

  void work_on_share(const Round& round) {
    const Place begin = share_begin(round, me_.index);
    const Place end = share_begin(round, me_.index + 1);
    const bool spills = cuts_unit(round, begin);
    for (Place place = begin; !(place == end);) {
      const Place next = plan_.next_unit(round, place);
      const bool cut = end.group < round.group_end && place.same_unit(end);
      const int64_t span_end = cut ? end.span : slice_of(place).span_end;
      const bool spill = spills && place.same_unit(begin);
      for (; place.span < span_end; ++place.span) {
        Place ahead = place;
        if (++ahead.span == span_end) ahead = cut || next == end ? Place{.group = round.group_end} : next;
        if (spill) {
          attend_span(round, place, ahead, spilled(me_.index, begin, place.span));
        } else {
          attend_span(round, place, ahead, nullptr);
          merge_span(place);
        }
      }
      if (!spill && !cut) finish(place);
      place = cut ? end : next;
    }
  }

  // Computes a span of a unit. Partial results go to `spill`, or else those of queries that see it as their first to what they have
  // accumulated and the others' to partials_. What this thread reads next is fetched ahead.
  void attend_span(const Round& round, const Place& place, const Place& ahead, float* spill);
  // Merges what attend_span put into partials_.
  void merge_span(const Place& place) const;
  // Writes the rows that end in the unit's slice.
  void finish(const Place& place) const;
  void finish_head(const Row& row, int kv_head, int head) const;

  // This member's part of merging the spilled spans of a round.
  void merge_spilled(const Round& round) const;
  // Those of one query, number `query` of its unit: the shares [member, member_end) begin in the unit.
  void merge_query(const Round& round, int member, int member_end, size_t query) const;

  // The record of a tile; of a strip's tiles in ascending order it takes a step or two.
  const std::byte* find_tile(const AttentionPlan::Strip& strip, int64_t tile);
  void fetch_ahead(const Place& place, SpanTiles& tiles);

  const KernelSet& set_;
  const AttentionPlan& plan_;
  const AttentionShape& shape_;
  std::span<const AttentionInput> inputs_;
  size_t layer_;
  AttentionScratch sizes_;
  port::TeamMember& me_;
  float* spilled_;      // [member][spill]
  float* partials_;     // of this member
  float* accumulated_;  // [row of the step][KV head][row_head]
  const AttentionPlan::Strip* found_strip_ = nullptr;
  size_t found_piece_ = 0;
};

const std::byte* Worker::find_tile(const AttentionPlan::Strip& strip, int64_t tile) {
  const std::span<const KvPiece> pieces = inputs_[strip.input].layers[layer_];
  if (strip.shared) {
    const KvPiece& piece = pieces[strip.piece];
    return piece.base + (tile - piece.first_tile) * piece.tile_stride;
  }
  if (found_strip_ != &strip || tile < pieces[found_piece_].first_tile) {
    found_strip_ = &strip;
    found_piece_ = strip.piece;
  }
  for (; found_piece_ < pieces.size(); ++found_piece_) {
    const KvPiece& piece = pieces[found_piece_];
    if (tile < piece.first_tile + piece.tiles) return piece.base + (tile - piece.first_tile) * piece.tile_stride;
  }
  QUIRE_CHECK(false, "a tile that a query sees lies in no piece");
  return nullptr;
}

void Worker::fetch_ahead(const Place& place, SpanTiles& tiles) {
  const AttentionPlan::Block& block = block_of(place);
  const AttentionPlan::Strip& strip = plan_.strips()[plan_.groups()[place.group].strip];
  const int64_t begin = std::max(block.tile_begin, place.span * kSpanTiles);
  for (int64_t i = 0; i < kSpanTiles; ++i) {
    tiles.next_keys[i] = find_tile(strip, std::min(begin + i, block.tile_end - 1)) + key_offset(shape_, place.kv_head);
  }
}

void Worker::attend_span(const Round& round, const Place& place, const Place& ahead, float* spill) {
  const std::span<const Row> rows = rows_of(place);
  SpanTiles tiles;
  tiles.first_position = place.span * kSpanTokens;
  const AttentionPlan::Strip& strip = plan_.strips()[plan_.groups()[place.group].strip];
  for (const Row& row : rows) {
    if (!row.sees(place.span)) continue;
    // Only tiles that a row sees are looked up: the others may be nowhere.
    const int64_t oldest = shape_.window == 0 ? 0 : std::max<int64_t>(0, row.position - shape_.window + 1);
    const int64_t first = std::max(oldest - tiles.first_position, int64_t{0}) / kTileTokens;
    const int64_t last = std::min<int64_t>(row.position - tiles.first_position, kSpanTokens - 1) / kTileTokens;
    for (int64_t i = first; i <= last; ++i) {
      if (tiles.tile[i] == nullptr) tiles.tile[i] = find_tile(strip, place.span * kSpanTiles + i);
    }
  }
  if (ahead.group < round.group_end) fetch_ahead(ahead, tiles);

  std::array<SpanQuery, kUnitQueries> queries;
  size_t count = 0;
  const auto flush = [&] {
    if (count > 0) set_.attention.attend_span(shape_, tiles, place.kv_head, queries.data(), static_cast<int>(count));
    count = 0;
  };
  const int64_t partial = partial_floats(shape_.head_dim);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (!row.sees(place.span)) continue;
    const AttentionInput& input = inputs_[row.input];
    float* to = (spill != nullptr ? spill : partials_) + r * sizes_.row_head;
    if (spill == nullptr && place.span == row.first_span) to = accumulated(row, place.kv_head);
    for (int head = 0; head < group_size(shape_); ++head) {
      const float* q = input.q + row.row * input.q_stride + column(place.kv_head, head);
      queries[count++] = {.q = q, .position = row.position, .partial = to + head * partial};
      if (count == queries.size()) flush();
    }
  }
  flush();
}

void Worker::merge_span(const Place& place) const {
  const std::span<const Row> rows = rows_of(place);
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].sees(place.span) || place.span == rows[r].first_span) continue;
    for (int head = 0; head < group_size(shape_); ++head) {
      const int64_t offset = static_cast<int64_t>(head) * partial_floats(shape_.head_dim);
      set_.attention.merge(shape_.head_dim, partials_ + r * sizes_.row_head + offset, accumulated(rows[r], place.kv_head) + offset);
    }
  }
}

void Worker::finish(const Place& place) const {
  const AttentionPlan::Slice& slice = slice_of(place);
  for (const Row& row : rows_of(place)) {
    if (!row.ends || row.span_end <= slice.span_begin || row.span_end > slice.span_end) continue;
    for (int head = 0; head < group_size(shape_); ++head) finish_head(row, place.kv_head, head);
  }
}

void Worker::finish_head(const Row& row, int kv_head, int head) const {
  const AttentionInput& input = inputs_[row.input];
  set_.attention.finish(shape_.head_dim, accumulated(row, kv_head) + static_cast<int64_t>(head) * partial_floats(shape_.head_dim),
                        input.out + row.row * input.out_stride + column(kv_head, head));
}

void Worker::merge_spilled(const Round& round) const {
  for (int member = 1; member < me_.count;) {
    const Place& begin = share_begin(round, member);
    if (!cuts_unit(round, begin)) {
      ++member;
      continue;
    }
    int member_end = member + 1;
    while (member_end < me_.count && share_begin(round, member_end).same_unit(begin)) ++member_end;
    // One member's spilled spans it merges itself: what it computed is near, and only what was accumulated before comes from
    // another core. Those of several are merged by all members, each some queries.
    const size_t queries = rows_of(begin).size() * static_cast<size_t>(group_size(shape_));
    const bool alone = member_end == member + 1;
    const auto part = static_cast<size_t>(alone ? me_.index - member : me_.index);
    const auto parts = static_cast<size_t>(alone ? 1 : me_.count);
    for (size_t query = queries * part / parts; part < parts && query < queries * (part + 1) / parts; ++query) {
      merge_query(round, member, member_end, query);
    }
    member = member_end;
  }
}

void Worker::merge_query(const Round& round, int member, int member_end, size_t query) const {
  const Place& unit = share_begin(round, member);
  const AttentionPlan::Slice& slice = slice_of(unit);
  const auto group = static_cast<size_t>(group_size(shape_));
  const Row& row = rows_of(unit)[query / group];
  const size_t partial = static_cast<size_t>(partial_floats(shape_.head_dim));
  float* into = accumulated(row, unit.kv_head) + query % group * partial;
  for (; member < member_end; ++member) {
    const Place& begin = share_begin(round, member);
    const int64_t share_end = member + 1 < member_end ? share_begin(round, member + 1).span : slice.span_end;
    const int64_t span_end = std::min(share_end, row.span_end);
    for (int64_t span = std::max(begin.span, row.span_begin); span < span_end; ++span) {
      const float* next = spilled(member, begin, span) + query * partial;
      if (span == row.first_span) {
        std::memcpy(into, next, partial * sizeof(float));
      } else {
        set_.attention.merge(shape_.head_dim, next, into);
      }
    }
  }
  if (row.ends && row.span_end > slice.span_begin && row.span_end <= slice.span_end) {
    finish_head(row, unit.kv_head, static_cast<int>(query % group));
  }
}

}  // namespace

size_t tile_record_bytes(const AttentionShape& shape) {
  const size_t elements = 2 * static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(shape.head_dim) * kTileTokens;
  return static_cast<size_t>(round_up(static_cast<int64_t>(elements * element_bytes(shape.format)), 64));
}

void attend(const KernelSet& set, const AttentionPlan& plan, std::span<const AttentionInput> inputs, size_t layer, float* scratch,
            port::TeamMember& member) {
  QUIRE_DCHECK(plan.shape().head_dim % 16 == 0 && plan.shape().head_dim <= kMaxHeadDim);
  QUIRE_DCHECK(plan.shape().heads % plan.shape().kv_heads == 0 && plan.threads() == member.count);
  Worker(set, plan, inputs, layer, scratch, member).run();
}

}  // namespace quire::kernels
