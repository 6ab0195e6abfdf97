#include "kernels/attention_plan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/units.h"

namespace quire::kernels {
namespace {

// Queries of the smallest unit that a strip with more queries is cut into: enough that reading costs little.
constexpr size_t kMinUnitQueries = 12;
// What reading a tile costs, in queries of computing on it.
constexpr int64_t kTileReadCost = 4;
// A shared strip is a level of its own: it must save reading this many spans (for each KV head).
constexpr int64_t kMinSpansSaved = 4;
// Strips above each other that are shared: each costs barriers.
constexpr size_t kMaxDepth = 8;
// Spans of the largest unit that a member can spill in one round.
constexpr size_t kSpilledSpans = 16;
// A share's border moves to the next border of units when that is less than this part of a share away: spilling costs more.
constexpr int64_t kBorderSlack = 16;

int rows_of_unit(const AttentionShape& shape) { return std::max(1, kUnitQueries / group_size(shape)); }

int64_t oldest_seen(const AttentionShape& shape, int64_t position) {
  return shape.window == 0 ? 0 : std::max<int64_t>(0, position - shape.window + 1);
}

uintptr_t origin_of(const KvPiece& piece) {
  return reinterpret_cast<uintptr_t>(piece.base) - static_cast<uintptr_t>(piece.first_tile * piece.tile_stride);
}

}  // namespace

AttentionScratch::AttentionScratch(const AttentionShape& shape)
    : unit(static_cast<size_t>(rows_of_unit(shape) * group_size(shape) * partial_floats(shape.head_dim))),
      spill(kSpilledSpans * unit),
      row_head(static_cast<size_t>(group_size(shape) * partial_floats(shape.head_dim))) {}

size_t attention_scratch_floats(const AttentionShape& shape, int rows, int threads) {
  const AttentionScratch scratch(shape);
  return static_cast<size_t>(threads) * (scratch.unit + scratch.spill) +
         static_cast<size_t>(rows) * static_cast<size_t>(shape.kv_heads) * scratch.row_head;
}

void AttentionPlan::clear() {
  spans_saved_ = 0;
  last_level_ = 0;
  seen_.clear();
  runs_.clear();
  nodes_.assign(1, {});
  members_.clear();
  rows_.clear();
  strips_.clear();
  blocks_.clear();
  slices_.clear();
  groups_.clear();
  rounds_.clear();
  places_.clear();
  progress_.clear();
}

void AttentionPlan::make(const AttentionShape& shape, std::span<const AttentionInput> inputs, size_t layer, int threads) {
  clear();
  shape_ = shape;
  threads_ = threads;
  find_runs(inputs, layer);
  choose_shared_nodes();
  add_own_strips(inputs);
  add_shared_strips(inputs);
  for (const Block& block : blocks_) progress_.push_back(block.span_begin);
  for (size_t level = 0; level <= last_level_; ++level) {
    while (add_round(level)) {
    }
  }
}

// Of every input what it sees; of those with few rows also the runs.
void AttentionPlan::find_runs(std::span<const AttentionInput> inputs, size_t layer) {
  size_t pieces = 0;
  for (const AttentionInput& input : inputs) pieces += input.count == 0 ? 0 : input.layers[layer].size();
  table_.assign(std::bit_ceil(2 * pieces + 1), 0);
  int row = 0;
  for (const AttentionInput& input : inputs) {
    Seen seen{.row_of_step = row, .run_begin = runs_.size()};
    if (input.count > 0) {
      seen.tile_begin = oldest_seen(shape_, input.first_position) / kTileTokens;
      seen.tile_end = (input.first_position + input.count - 1) / kTileTokens + 1;
      if (inputs.size() > 1 && input.count * group_size(shape_) < kUnitQueries) add_runs(input.layers[layer], seen);
      row += input.count;
    }
    seen.run_end = runs_.size();
    seen_.push_back(seen);
  }
}

void AttentionPlan::add_runs(std::span<const KvPiece> pieces, const Seen& seen) {
  size_t parent = 0;
  for (size_t p = 0; p < pieces.size();) {
    const KvPiece& first = pieces[p];
    const uintptr_t origin = origin_of(first);
    size_t next = p + 1;
    while (next < pieces.size() && pieces[next].tile_stride == first.tile_stride && origin_of(pieces[next]) == origin) ++next;
    const int64_t end_tile = pieces[next - 1].first_tile + pieces[next - 1].tiles;
    // A span that the input sees in part is whole when the seen part lies in the pieces.
    const int64_t span_begin = std::max(first.first_tile, seen.tile_begin) <= seen.tile_begin
                                   ? seen.tile_begin / kSpanTiles
                                   : ceil_div(first.first_tile, kSpanTiles);
    const int64_t span_end = end_tile >= seen.tile_end ? ceil_div(seen.tile_end, kSpanTiles) : end_tile / kSpanTiles;
    if (span_begin < span_end) {
      parent = node_of(origin, first.tile_stride, parent);
      Node& node = nodes_[parent];
      node.shared_begin = std::min(node.shared_begin, std::max(node.span_begin, span_begin));
      node.span_begin = std::min(node.span_begin, span_begin);
      node.shared_end = std::max(node.shared_end, std::min(node.span_end, span_end));
      node.span_end = std::max(node.span_end, span_end);
      node.spans += span_end - span_begin;
      ++node.runs;
      runs_.push_back({.piece = p, .span_begin = span_begin, .span_end = span_end, .node = parent});
    }
    if (end_tile >= seen.tile_end) return;
    p = next;
  }
}

// The child of `parent` for runs in line with `origin`, made when there is none.
size_t AttentionPlan::node_of(uintptr_t origin, int64_t stride, size_t parent) {
  const uint64_t hash = (origin / 64 + parent * 0x9e3779b97f4a7c15u) * 0xc2b2ae3d27d4eb4fu;
  for (size_t slot = hash >> 32;; ++slot) {
    size_t& node = table_[slot & (table_.size() - 1)];
    if (node == 0) {
      node = nodes_.size();
      nodes_.push_back({.origin = origin, .stride = stride, .parent = parent});
      return node;
    }
    if (nodes_[node].origin == origin && nodes_[node].stride == stride && nodes_[node].parent == parent) return node;
  }
}

void AttentionPlan::choose_shared_nodes() {
  size_t members = 0;
  size_t deepest = 0;
  for (size_t i = 1; i < nodes_.size(); ++i) {  // parents come before their children
    Node& node = nodes_[i];
    node.depth = nodes_[node.parent].depth;
    const int64_t saved = node.spans - (node.span_end - node.span_begin);
    if (node.runs < 2 || saved < kMinSpansSaved || node.depth == kMaxDepth) continue;
    node.shared = true;
    deepest = std::max(deepest, ++node.depth);
    node.member_begin = node.member_end = members;
    members += node.runs;
    spans_saved_ += saved;
  }
  members_.resize(members);
  // The node at depth d is level 2d - 1; what its members have before it is the level before, their ends come last.
  last_level_ = 2 * deepest;
}

// What inputs share with nobody; and each input becomes a member of what it shares.
void AttentionPlan::add_own_strips(std::span<const AttentionInput> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Seen& seen = seen_[i];
    int64_t span = seen.tile_begin / kSpanTiles;
    size_t piece = 0;
    const auto add_until = [&](int64_t span_end, size_t level) {
      if (span >= span_end) return;
      const size_t row_begin = rows_.size();
      add_rows(inputs, i, span, span_end);
      add_strip({.input = i, .piece = piece, .level = level}, row_begin);
    };
    for (size_t r = seen.run_begin; r < seen.run_end; ++r) {
      Run run = runs_[r];
      Node& node = nodes_[run.node];
      run.span_begin = std::max(run.span_begin, node.shared_begin);
      run.span_end = std::min(run.span_end, node.shared_end);
      if (!node.shared || run.span_begin >= run.span_end) continue;
      add_until(run.span_begin, 2 * node.depth - 2);
      members_[node.member_end++] = {.input = i, .run = run};
      span = run.span_end;
      piece = run.piece;
    }
    add_until(ceil_div(seen.tile_end, kSpanTiles), last_level_);
  }
}

void AttentionPlan::add_shared_strips(std::span<const AttentionInput> inputs) {
  // Members that see the same spans stand together, so that a block's rows do.
  const auto longer = [](const Member& a, const Member& b) {
    if (a.run.span_end != b.run.span_end) return a.run.span_end > b.run.span_end;
    if (a.run.span_begin != b.run.span_begin) return a.run.span_begin < b.run.span_begin;
    return a.input < b.input;
  };
  for (const Node& node : nodes_) {
    const std::span<Member> members = std::span(members_).subspan(node.member_begin, node.member_end - node.member_begin);
    if (members.empty()) continue;
    if (!std::is_sorted(members.begin(), members.end(), longer)) std::sort(members.begin(), members.end(), longer);
    const size_t row_begin = rows_.size();
    for (const Member& member : members) add_rows(inputs, member.input, member.run.span_begin, member.run.span_end);
    add_strip({.input = members[0].input, .piece = members[0].run.piece, .shared = true, .level = 2 * node.depth - 1}, row_begin);
  }
}

void AttentionPlan::add_rows(std::span<const AttentionInput> inputs, size_t input, int64_t span_begin, int64_t span_end) {
  for (int row = 0; row < inputs[input].count; ++row) {
    Row added{.input = input, .row = row, .row_of_step = seen_[input].row_of_step + row};
    added.position = inputs[input].first_position + row;
    added.first_span = oldest_seen(shape_, added.position) / kSpanTokens;
    const int64_t end = added.position / kSpanTokens + 1;
    added.span_begin = std::max(span_begin, added.first_span);
    added.span_end = std::min(span_end, end);
    added.ends = added.span_end == end;
    if (added.span_begin < added.span_end) rows_.push_back(added);
  }
}

// Blocks as large as they may be, or somewhat smaller where their units go evenly into the team's shares: then nothing is spilled.
size_t AttentionPlan::blocks_for(size_t rows) const {
  const auto least = static_cast<size_t>(ceil_div(static_cast<int64_t>(rows), rows_of_unit(shape_)));
  const size_t most = std::min(rows, rows * static_cast<size_t>(group_size(shape_)) / kMinUnitQueries);
  for (size_t blocks = least; blocks <= most && blocks < least + static_cast<size_t>(threads_); ++blocks) {
    if (blocks * static_cast<size_t>(shape_.kv_heads) % static_cast<size_t>(threads_) == 0) return blocks;
  }
  return least;
}

// A strip of the rows from `row_begin` on, in blocks of nearly equal size.
void AttentionPlan::add_strip(Strip strip, size_t row_begin) {
  const size_t count = rows_.size() - row_begin;
  const size_t blocks = blocks_for(count);
  strip.block_begin = blocks_.size();
  for (size_t b = 0; b < blocks; ++b) {
    Block block{.row_begin = row_begin + count * b / blocks, .row_end = row_begin + count * (b + 1) / blocks};
    block.span_begin = block.tile_begin = INT64_MAX;
    for (size_t r = block.row_begin; r < block.row_end; ++r) {
      const Row& row = rows_[r];
      block.span_begin = std::min(block.span_begin, row.span_begin);
      block.span_end = std::max(block.span_end, row.span_end);
      const int64_t oldest_tile = oldest_seen(shape_, row.position) / kTileTokens;
      block.tile_begin = std::min(block.tile_begin, std::max(oldest_tile, row.span_begin * kSpanTiles));
      block.tile_end = std::max(block.tile_end, std::min(row.position / kTileTokens + 1, row.span_end * kSpanTiles));
    }
    blocks_.push_back(block);
  }
  strip.block_end = blocks_.size();
  strips_.push_back(strip);
}

int64_t AttentionPlan::cost_of(const Block& block, int64_t span_begin, int64_t span_end) const {
  const int64_t tiles = std::min(span_end * kSpanTiles, block.tile_end) - std::max(span_begin * kSpanTiles, block.tile_begin);
  return tiles * (static_cast<int64_t>(block.row_end - block.row_begin) * group_size(shape_) + kTileReadCost);
}

// The next spans of a level's blocks, as many of each as one member can spill. False: no block has any left.
bool AttentionPlan::add_round(size_t level) {
  const AttentionScratch scratch(shape_);
  Round round{.group_begin = groups_.size()};
  for (size_t s = 0; s < strips_.size(); ++s) {
    if (strips_[s].level != level) continue;
    Group group{.strip = s, .slice_begin = slices_.size()};
    for (size_t b = strips_[s].block_begin; b < strips_[s].block_end; ++b) {
      const Block& block = blocks_[b];
      if (progress_[b] == block.span_end) continue;
      const auto spans = static_cast<int64_t>(scratch.spill / ((block.row_end - block.row_begin) * scratch.row_head));
      const int64_t end = std::min(progress_[b] + spans, block.span_end);
      slices_.push_back({.block = b, .span_begin = progress_[b], .span_end = end});
      group.cost += cost_of(block, progress_[b], end);
      progress_[b] = end;
    }
    group.slice_end = slices_.size();
    if (group.slice_begin < group.slice_end) groups_.push_back(group);
  }
  round.group_end = groups_.size();
  if (round.group_begin == round.group_end) return false;
  cut_shares(round);
  rounds_.push_back(round);
  return true;
}

void AttentionPlan::cut_shares(Round& round) {
  int64_t total = 0;
  for (size_t g = round.group_begin; g < round.group_end; ++g) total += groups_[g].cost * shape_.kv_heads;
  round.shares = places_.size();
  size_t group = round.group_begin;
  int64_t begin = 0;  // of the group
  for (int member = 0; member <= threads_; ++member) {
    const int64_t target = total * member / threads_;
    while (group < round.group_end && begin + groups_[group].cost * shape_.kv_heads <= target) {
      begin += groups_[group++].cost * shape_.kv_heads;
    }
    const bool end = group == round.group_end;
    const Place place = end ? Place{.group = group} : place_at(round, group, target - begin, total / threads_);
    round.spills = round.spills || (!end && place.span > slices_[place.slice].span_begin);
    places_.push_back(place);
  }
}

// Where the spans begin that come `cost` after the beginning of a group, or a border of units near by.
AttentionPlan::Place AttentionPlan::place_at(const Round& round, size_t group, int64_t cost, int64_t share) const {
  const int64_t group_cost = groups_[group].cost;
  Place place = begin_of(group, static_cast<int>(cost / group_cost), groups_[group].slice_begin);
  cost %= group_cost;
  const auto slice_cost = [&](size_t slice) {
    return cost_of(blocks_[slices_[slice].block], slices_[slice].span_begin, slices_[slice].span_end);
  };
  while (cost >= slice_cost(place.slice)) cost -= slice_cost(place.slice++);
  const Slice& slice = slices_[place.slice];
  place.span = slice.span_begin;
  if (cost * kBorderSlack < share) return place;
  if ((slice_cost(place.slice) - cost) * kBorderSlack < share) return next_unit(round, place);
  while (cost > 0) {
    cost -= cost_of(blocks_[slice.block], place.span, place.span + 1);
    ++place.span;
  }
  return place.span < slice.span_end ? place : next_unit(round, place);
}

AttentionPlan::Place AttentionPlan::next_unit(const Round& round, const Place& place) const {
  const Group& group = groups_[place.group];
  if (place.slice + 1 < group.slice_end) return begin_of(place.group, place.kv_head, place.slice + 1);
  if (place.kv_head + 1 < shape_.kv_heads) return begin_of(place.group, place.kv_head + 1, group.slice_begin);
  if (place.group + 1 == round.group_end) return {.group = round.group_end};
  return begin_of(place.group + 1, 0, groups_[place.group + 1].slice_begin);
}

}  // namespace quire::kernels
