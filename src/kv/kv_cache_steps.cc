// Steps: memory for the tokens to come, and what they become in the tree.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace quire::kv {

void BackingPlan::back() {
  QUIRE_CHECK(!done_, "a plan is backed once");
  done_ = true;
  for (const Part& part : parts_) {
    const Segment& segment = part.set->segment(part.group);
    for (const port::VmRange& range : part.ranges) {
      const Result<port::Backing> backing = segment.port().back(segment.reservation(), range);
      if (!backing.ok()) failure_ = at("KV memory", backing.error());
      refused_ = !backing.ok() || *backing == port::Backing::kNoMemory;
      if (refused_) return;
    }
  }
}

Room KvCache::plan(std::span<const Growth> growths, BackingPlan& plan) {
  QUIRE_CHECK(!plan_outstanding_ && plan.empty(), "one plan at a time");
  plan = BackingPlan();
  plan.promise_.emplace(budget_);
  for (const Growth& growth : growths) {
    if (plan_growth(growth, plan)) continue;
    undo(plan);
    return {.space = Space::kNoSpace, .missing = tile_bytes_};
  }
  for (;;) {
    // Anew each time: what is freed may be warm memory that the plan counted on.
    Bytes needed;
    for (const BackingPlan::Part& part : plan.parts_) needed += part.set->segment(part.group).need(part.run);
    if (plan.promise_->take(needed) == Space::kOk) break;
    const Bytes missing = needed - budget_.available();
    if (free_some(missing)) continue;
    undo(plan);
    return {.space = Space::kNoSpace, .missing = missing};
  }
  for (BackingPlan::Part& part : plan.parts_) {
    part.ranges.reserve(groups_[part.group].layers.size());
    part.set->segment(part.group).ranges(part.run, part.ranges);
  }
  plan_outstanding_ = !plan.parts_.empty();
  return {};
}

// The tiles that the sequence lacks, in its set as far as that reaches, then in new ones. False: no set can be reserved.
bool KvCache::plan_growth(const Growth& growth, BackingPlan& plan) {
  const Sequence& growing = sequence(growth.sequence);
  QUIRE_CHECK(growth.length >= growing.length && growth.length <= growing.max_tokens,
              fmt::format("sequence {}: {} tokens after {}, at most {}", growth.sequence.value, growth.length.value,
                          growing.length.value, growing.max_tokens.value));
  const int64_t target = tiles_for(growth.length).value;
  SegmentSet* set = growing.set;
  int64_t set_first_tile = growing.set_first_tile;
  for (int64_t tile = growing.committed_tiles; tile < target;) {
    if (set == nullptr || tile - set_first_tile >= set->max_tiles().value) {
      set = take_set(tiles_for(growing.max_tokens).value - tile);
      if (set == nullptr) return false;
      plan.new_sets_.push_back(set);
      set_first_tile = tile;
    }
    const int64_t end = std::min(target, set_first_tile + set->max_tiles().value);
    for (size_t group = 0; group < groups_.size(); ++group) {
      plan.parts_.push_back({.sequence = growth.sequence,
                             .set = set,
                             .set_first_tile = set_first_tile,
                             .group = group,
                             .run = {tile - set_first_tile, end - set_first_tile},
                             .ranges = {}});
    }
    tile = end;
  }
  return true;
}

// Where reserving fails, addresses are short: what nobody needs is unmapped first.
SegmentSet* KvCache::take_set(int64_t tiles) {
  for (;;) {
    const Result<SegmentSet*> set = pool_.take(TileCount(tiles));
    if (set.ok()) return *set;
    if (!free_some(tile_bytes_)) return nullptr;
  }
}

void KvCache::undo(BackingPlan& plan) {
  for (SegmentSet* set : plan.new_sets_) pool_.put(set);
  plan = BackingPlan();
  plan_outstanding_ = false;
}

Result<Space> KvCache::commit(BackingPlan&& plan) {
  if (plan.parts_.empty()) return Space::kOk;
  QUIRE_CHECK(plan_outstanding_ && plan.done_, "what is committed was planned and backed");
  if (plan.refused_) {
    for (const BackingPlan::Part& part : plan.parts_) part.set->segment(part.group).undo(part.run);
    const Status failure = plan.failure_;
    undo(plan);
    if (!failure.ok()) return failure.error();
    set_limit(std::min(budget_.limit(), budget_.backed()));
    return Space::kNoSpace;
  }
  plan_outstanding_ = false;
  allocated_ += plan.bytes();
  for (const BackingPlan::Part& part : plan.parts_) commit_part(part, *plan.promise_);
  plan = BackingPlan();
  return Space::kOk;
}

void KvCache::commit_part(const BackingPlan::Part& part, Promise& promise) {
  Sequence& growing = sequence(part.sequence);
  const bool new_set = part.set != growing.set;
  if (new_set) {
    ledger_.hold(part.set);
    if (growing.set != nullptr) ledger_.release(growing.set);
    growing.set = part.set;
    growing.set_first_tile = part.set_first_tile;
  }
  part.set->segment(part.group).commit(part.run, Purpose::kLive, promise);
  part.set->end = std::max(part.set->end, TileIndex(part.run.end));
  std::vector<Place>& places = growing.tail->places[part.group];
  for (int64_t tile = part.run.first; tile < part.run.end; ++tile) places.push_back(ledger_.new_place(part.set, tile, part.group));
  growing.committed_tiles = growing.tail->first_tile + static_cast<int64_t>(places.size());
  // The last run reaches to the end of its set, so that few tiles change the runs; the last group's part completes them.
  const std::vector<Run>& runs = growing.runs[part.group];
  const bool covered =
      !runs.empty() && runs.back().first_tile.value + runs.back().tiles.value >= part.set_first_tile + part.run.end;
  growing.runs_stale |= new_set || !covered;
  if (growing.runs_stale && part.group + 1 == groups_.size()) rebuild_runs(growing);
}

Result<Room> KvCache::prepare(std::span<const Growth> growths) {
  BackingPlan backing;
  const Room room = plan(growths, backing);
  if (room.space == Space::kNoSpace) return room;
  const Bytes needed = backing.bytes();
  backing.back();
  QUIRE_TRY(const Space space, commit(std::move(backing)));
  if (space == Space::kOk) return Room{};
  return Room{.space = Space::kNoSpace, .missing = needed};
}

void KvCache::rebuild_runs(Sequence& sequence) {
  ++sequence.runs_version;
  sequence.runs_stale = false;
  std::vector<Node*> path;
  for (Node* node = sequence.tail; node->parent != nullptr; node = node->parent) path.push_back(node);
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<Run>& runs = sequence.runs[group];
    runs.clear();
    const int64_t first = ledger_.windowed(group) ? sequence.window_first[group] : 0;
    Place previous;
    for (size_t i = path.size(); i-- > 0;) {
      const std::vector<Place>& places = path[i]->places[group];
      for (int64_t index = std::max<int64_t>(0, first - path[i]->first_tile); index < static_cast<int64_t>(places.size());
           ++index) {
        const Place& place = places[static_cast<size_t>(index)];
        if (place.set == nullptr) continue;
        if (previous.set == place.set && previous.tile + 1 == place.tile) {
          runs.back().tiles += TileCount(1);
        } else {
          const Stripes stripes = place.set->segment(group).stripes();
          runs.push_back({.base = stripes.base + place.tile * stripes.tile_stride,
                          .layer_stride = stripes.layer_stride,
                          .tile_stride = stripes.tile_stride,
                          .first_tile = TileIndex(path[i]->first_tile + index),
                          .tiles = TileCount(1)});
        }
        previous = place;
      }
    }
    if (!runs.empty() && previous.set == sequence.set) {
      runs.back().tiles += TileCount(previous.set->max_tiles().value - previous.tile - 1);
    }
  }
}

void KvCache::append(SequenceId id, std::span<const TokenId> tokens) {
  QUIRE_CHECK(!plan_outstanding_);
  Sequence& growing = sequence(id);
  Node* tail = growing.tail;
  growing.length += TokenCount(static_cast<int64_t>(tokens.size()));
  QUIRE_CHECK(tiles_for(growing.length).value <= growing.committed_tiles, "memory for the tokens was committed");
  const bool young = tail->tokens.size() < kTileTokens;
  const bool grown_up = young && tail->tokens.size() + tokens.size() >= kTileTokens;
  if (grown_up) tree_.detach(tail);
  tail->tokens.insert(tail->tokens.end(), tokens.begin(), tokens.end());
  if (grown_up) publish(growing);
  while (!growing.wanted.empty() && growing.wanted.front() <= growing.length.value) {
    add_checkpoint(tail, growing.wanted.front());
    growing.wanted.erase(growing.wanted.begin());
  }
  leave_windows(growing);
}

// The tail, detached, has its first whole tile: it gets its place among its siblings. Where one of them has the same tiles already,
// those are kept and the sequence's own are dropped.
void KvCache::publish(Sequence& sequence) {
  Node* tail = sequence.tail;
  bool joined = false;
  while (tail->tokens.size() >= kTileTokens) {
    const auto sibling = tail->parent->children.find(tail->first_tile_tokens());
    if (sibling == tail->parent->children.end()) break;
    join_sibling(sequence, *sibling);
    joined = true;
  }
  tree_.attach(tail);
  update_victim(tail->parent);
  if (joined) rebuild_runs(sequence);
}

void KvCache::join_sibling(Sequence& sequence, Node* sibling) {
  Node* tail = sequence.tail;
  const int64_t tiles = common_beginning(sibling->tokens, tail->tokens) / kTileTokens;
  const bool whole = !sibling->tail && tiles * kTileTokens == static_cast<int64_t>(sibling->tokens.size());
  Node* front = whole ? sibling : split(sibling, tiles);
  const auto has = [&](int64_t position) {
    return std::any_of(front->checkpoints.begin(), front->checkpoints.end(),
                       [&](const Checkpoint& checkpoint) { return checkpoint.position == position; });
  };
  for (size_t i = 0; i < tail->checkpoints.size();) {
    if (tail->checkpoints[i].position <= front->end() && has(tail->checkpoints[i].position)) {
      drop_checkpoint(tail, i);
    } else {
      ++i;
    }
  }
  ledger_.add_readers(front, 1);
  ledger_.join(front, tail, tiles);
  while (!tail->checkpoints.empty() && tail->checkpoints.front().position <= front->end()) {
    const Checkpoint moved = tail->checkpoints.front();
    tail->checkpoints.erase(tail->checkpoints.begin());
    order_.move(moved.last_use, moved.position, front);
    const auto at = std::find_if(front->checkpoints.begin(), front->checkpoints.end(),
                                 [&](const Checkpoint& other) { return other.position > moved.position; });
    front->checkpoints.insert(at, moved);
  }
  tail->tokens.erase(tail->tokens.begin(), tail->tokens.begin() + tiles * kTileTokens);
  for (std::vector<Place>& places : tail->places) places.erase(places.begin(), places.begin() + tiles);
  tail->first_tile += tiles;
  tail->parent = front;
  update_victim(front);
  // Two that go on alike would leave a chain of nodes of one tile.
  if (PrefixTree::can_absorb_parent(front)) absorb_parent(front);
}

void KvCache::leave_windows(Sequence& sequence) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!ledger_.windowed(group)) continue;
    const int64_t needed = first_tile_needed(groups_[group], sequence.length).value;
    for (int64_t& tile = sequence.window_first[group]; tile < needed; ++tile) {
      ledger_.remove_reader(place_of(sequence.tail, tile, group), group);
    }
  }
}

}  // namespace quire::kv
