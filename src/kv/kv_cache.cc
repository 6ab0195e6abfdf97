#include "kv/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace quire::kv {

KvCache::KvCache(port::Vm& port, std::vector<LayerGroupSpec> groups, const KvCacheOptions& options)
    : port_(port),
      groups_(std::move(groups)),
      share_(options.share),
      largest_set_(options.segments.largest),
      budget_(options.limit),
      pool_(port, budget_, groups_, options.segments),
      tree_(groups_.size()),
      ledger_(groups_, pool_) {
  QUIRE_CHECK(!groups_.empty());
  const auto reach = [&](size_t group) { return groups_[group].window.value_or(INT64_MAX); };
  for (size_t group = 0; group < groups_.size(); ++group) {
    has_windows_ |= ledger_.windowed(group);
    tile_bytes_ += tile_bytes(groups_[group]);
    if (reach(group) > reach(widest_group_)) widest_group_ = group;
  }
}

KvCache::~KvCache() {
  QUIRE_CHECK(sequences_.empty(), "every sequence is closed before its cache ends");
  clear();
}

// --- Asking

TreePoint KvCache::find(std::string_view key_space, std::span<const TokenId> tokens) const {
  Node* root = share_ ? tree_.find_root(key_space) : nullptr;
  if (root == nullptr || tokens.empty()) return {root, 0};
  return tree_.find(root, tokens);
}

// The last position at or before `point` at which a sequence can begin.
TreePoint KvCache::last_checkpoint(TreePoint point) const {
  if (!has_windows_ || point.node == nullptr) return point;
  const int64_t position = point.position();
  for (Node* node = point.node;; node = node->parent) {
    if (node->parent == nullptr) return {node, 0};
    for (size_t i = node->checkpoints.size(); i-- > 0;) {
      if (node->checkpoints[i].position <= position) return {node, node->checkpoints[i].position - node->begin()};
    }
  }
}

Match KvCache::match(std::string_view key_space, std::span<const TokenId> tokens) const {
  if (tokens.empty()) return {};
  const TreePoint known = find(key_space, tokens.first(tokens.size() - 1));
  if (known.node == nullptr) return {};
  const TreePoint point = last_checkpoint(known);
  Match match{.reusable = TokenCount(point.position()), .known = TokenCount(known.position()), .pinned = {}};
  if (point.position() % kTileTokens != 0 && !can_extend(point)) match.pinned += first_tile_bytes();
  for (const Node* node = known.node; node->parent != nullptr; node = node->parent) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      const int64_t needed = ledger_.windowed(group) ? first_tile_needed(groups_[group], match.reusable).value : 0;
      match.pinned += cached_bytes(*node, group, std::max(needed, node->first_tile), match);
    }
  }
  return match;
}

// What a new set needs for its first tile, wherever its stripes lie.
Bytes KvCache::first_tile_bytes() const {
  const port::PageTables shape = port_.page_tables();
  const Bytes granule = port_.granule();
  Bytes sum;
  for (const LayerGroupSpec& group : groups_) {
    const Bytes record(round_up(group.tile_record.value, granule.value));
    const int64_t tables = ceil_div((record + shape.reach - granule).value, shape.reach.value);
    sum += (record + shape.table * tables) * static_cast<int64_t>(group.layers.size());
  }
  return sum;
}

// What a hit takes of a node from tile `first` on: the granules of the reusable tiles that no running sequence reads, and the page
// tables of sets that none reads, also where the sequence will compute what is known and join it.
Bytes KvCache::cached_bytes(const Node& node, size_t group, int64_t first, const Match& match) const {
  const std::span<const Place> places = node.places[group];
  const int64_t reusable = tiles_for(match.reusable).value;
  const int64_t joined = match.known.value / kTileTokens;
  const int64_t end = std::min(std::max(reusable, joined), node.first_tile + static_cast<int64_t>(places.size()));
  const SegmentSet* set = nullptr;
  int64_t counted_end = 0;  // granules of the set before it are counted
  int64_t granules = 0;
  Bytes tables;
  for (int64_t tile = first; tile < end; ++tile) {
    const auto index = static_cast<size_t>(tile - node.first_tile);
    const Place& place = places[index];
    if (place.set == nullptr) continue;
    if (place.set != set) {
      set = place.set;
      counted_end = 0;
      const bool counted = group != widest_group_ && node.places[widest_group_][index].set == set;
      if (set->places_read == 0 && !counted) tables += page_tables_of(*set);
    }
    if (tile >= reusable || (ledger_.windowed(group) ? place.readers : node.readers) > 0) continue;
    const GranuleRun run =
        granules_of_tiles(groups_[group].tile_record, port_.granule(), TileIndex(place.tile), TileCount(place.tile + 1));
    granules += run.end - std::max(counted_end, run.first);
    counted_end = run.end;
  }
  return port_.granule() * (granules * static_cast<int64_t>(groups_[group].layers.size())) + tables;
}

// Each set that the tiles come into begins a granule and a page table anew in every stripe.
Bytes KvCache::growth_bytes(TokenCount from, TokenCount to, TokenCount step) const {
  const int64_t new_tiles = (tiles_for(to) - tiles_for(from)).value;
  if (new_tiles <= 0) return {};
  const int64_t new_sets = ceil_div(new_tiles, std::min(new_tiles, largest_set_.value));
  const int64_t runs = from.value == 0 ? new_sets : new_sets + 1;
  const int64_t granule = port_.granule().value;
  const port::PageTables shape = port_.page_tables();
  Bytes sum;
  Bytes tables;
  for (const LayerGroupSpec& group : groups_) {
    int64_t held_at_end = tiles_for(to).value;
    if (group.window) {
      // Before a step what its first token sees, and all that it computes.
      const int64_t seen = ceil_div(*group.window, kTileTokens) + ceil_div(step.value, kTileTokens) + 1;
      held_at_end = std::min(held_at_end, seen);
    }
    const int64_t tiles = std::max<int64_t>(0, held_at_end - tiles_needed(group, from).value);
    const auto layers = static_cast<int64_t>(group.layers.size());
    Bytes stripe(round_up(saturating_product(group.tile_record.value, tiles), granule));
    // Records that do not fill granules: the first run shares one with a tile that is there already.
    if (group.tile_record.value % granule != 0) stripe += Bytes(granule * (group.window ? runs : runs - 1));
    sum += Bytes(saturating_product(stripe.value, layers));
    const int64_t beyond =
        ceil_div(saturating_product(group.tile_record.value, size_class(TileCount(new_tiles)).value), shape.reach.value);
    tables += shape.table * (layers * (beyond + new_sets + runs - 1));
  }
  return sum + (from.value == 0 ? std::min(tables, pool_.page_tables_for(tiles_for(to))) : tables);
}

Usage KvCache::usage() const {
  Usage usage;
  usage.limit = budget_.limit();
  usage.backed = budget_.backed();
  usage.live = budget_.backed(Purpose::kLive);
  usage.shared = budget_.backed(Purpose::kShared);
  usage.cached = budget_.backed(Purpose::kCached);
  usage.warm = budget_.backed(Purpose::kWarm);
  usage.page_tables = budget_.backed(Purpose::kPageTables);
  usage.evictable = usage.cached + pool_.sheddable() + ledger_.cached_page_tables();
  usage.evicted = evicted_;
  usage.evicted_tokens = evicted_tokens_;
  usage.allocated = allocated_;
  return usage;
}

KvCache::Sequence& KvCache::sequence(SequenceId id) {
  const auto found = sequences_.find(id.value);
  QUIRE_CHECK(found != sequences_.end(), fmt::format("sequence {} is open", id.value));
  return *found->second;
}

const KvCache::Sequence& KvCache::sequence(SequenceId id) const {
  const auto found = sequences_.find(id.value);
  QUIRE_CHECK(found != sequences_.end(), fmt::format("sequence {} is open", id.value));
  return *found->second;
}

const std::vector<LayerGroupSpec>& KvCache::groups() const { return groups_; }
size_t KvCache::sequences() const { return sequences_.size(); }
TokenCount KvCache::length(SequenceId id) const { return sequence(id).length; }
std::span<const Run> KvCache::runs(SequenceId id, size_t group) const { return sequence(id).runs[group]; }
int64_t KvCache::runs_version(SequenceId id) const { return sequence(id).runs_version; }

// --- Sequences

Result<std::optional<SequenceId>> KvCache::open(std::string_view key_space, std::span<const TokenId> tokens,
                                                TokenCount max_tokens) {
  QUIRE_CHECK(!plan_outstanding_ && !tokens.empty() && static_cast<int64_t>(tokens.size()) <= max_tokens.value);
  // Without sharing everybody has a tree of his own.
  Node* root = tree_.root(share_ ? std::string(key_space) : fmt::format("sequence {}", next_sequence_));
  const int64_t last = static_cast<int64_t>(tokens.size()) - 1;
  const TreePoint known = tree_.find(root, tokens.first(static_cast<size_t>(last)));
  const int64_t parts_at = known.position();
  Result<std::optional<SequenceId>> opened = open_at(last_checkpoint(known), max_tokens);
  if (!opened.ok() || !*opened) return opened;
  want_checkpoint(**opened, TokenCount(parts_at));
  want_checkpoint(**opened, TokenCount(last));
  return opened;
}

Result<std::optional<SequenceId>> KvCache::fork(SequenceId id) {
  QUIRE_CHECK(!plan_outstanding_);
  const Sequence& original = sequence(id);
  Node* node = original.tail->tokens.empty() ? original.tail->parent : original.tail;
  return open_at({node, static_cast<int64_t>(node->tokens.size())}, original.max_tokens);
}

// A leaf that is matched to its end and lies at the end of its set is simply continued.
bool KvCache::can_extend(const TreePoint& point) const {
  const Node* node = point.node;
  if (node->parent == nullptr || node->tail || !node->leaf() || node->pins > 0) return false;
  if (point.offset != static_cast<int64_t>(node->tokens.size())) return false;
  for (const std::vector<Place>& places : node->places) {
    const Place& last = places.back();
    if (last.set == nullptr || last.tile + 1 != last.set->end.value || last.set != node->places[0].back().set) return false;
  }
  return point.offset % kTileTokens != 0 || node->places[0].back().set->end.value < node->places[0].back().set->max_tiles().value;
}

Result<std::optional<SequenceId>> KvCache::open_at(TreePoint point, TokenCount max_tokens) {
  const SequenceId id(next_sequence_++);
  auto made = std::make_unique<Sequence>();
  Sequence& sequence = *made;
  sequence.max_tokens = max_tokens;
  sequence.runs.resize(groups_.size());
  sequence.window_first.resize(groups_.size());
  const int64_t position = point.position();
  const int64_t rest = position % kTileTokens;
  if (has_windows_ && position > 0) touch_checkpoint(point);
  Node* copy_from = nullptr;
  if (can_extend(point)) {
    extend_in_place(point.node, sequence);
  } else {
    sequence.tail = tail_at(point, copy_from);
    sequence.length = TokenCount(position - rest);
    sequence.committed_tiles = position / kTileTokens;
  }
  count_readers(sequence, TokenCount(position));
  rebuild_runs(sequence);
  sequences_.emplace(id.value, std::move(made));
  if (copy_from == nullptr) return std::optional(id);
  const Result<Room> room = copy_tile(id, copy_from, rest);
  if (room.ok() && room->space == Space::kOk) return std::optional(id);
  close(id, Keep::kDrop);
  if (!room.ok()) return room.error();
  return std::optional<SequenceId>();
}

// A new tail behind the whole tiles before `point`. `copy_from` becomes the node whose first tile holds the tokens of the last,
// partial one, if there are any.
Node* KvCache::tail_at(TreePoint point, Node*& copy_from) {
  const int64_t tiles = point.offset / kTileTokens;
  const bool partial = point.offset % kTileTokens != 0;
  Node* parent = point.node;
  if (partial) copy_from = point.node;
  if (tiles > 0 && (partial || point.node->tail || point.offset < static_cast<int64_t>(point.node->tokens.size()))) {
    parent = split(point.node, tiles);
  } else if (partial) {
    parent = point.node->parent;
  }
  Node* tail = tree_.add_tail(parent);
  update_victim(parent);
  return tail;
}

void KvCache::extend_in_place(Node* node, Sequence& sequence) {
  tree_.detach(node);
  node->tail = true;
  tree_.attach(node);
  sequence.tail = node;
  sequence.length = TokenCount(node->end());
  sequence.committed_tiles = tiles_for(sequence.length).value;
  const Place& last = node->places[0].back();
  sequence.set = last.set;
  sequence.set_first_tile = sequence.committed_tiles - 1 - last.tile;
  ledger_.hold(sequence.set);
}

// The sequence reads everything on its path; in windowed groups what a token at `length` sees.
void KvCache::count_readers(Sequence& sequence, TokenCount length) {
  for (Node* node = sequence.tail; node->parent != nullptr; node = node->parent) {
    ledger_.add_readers(node, 1);
    update_victim(node);
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!ledger_.windowed(group)) continue;
    sequence.window_first[group] = first_tile_needed(groups_[group], length).value;
    for (int64_t tile = sequence.window_first[group]; tile < sequence.committed_tiles; ++tile) {
      ledger_.add_reader(place_of(sequence.tail, tile, group), group);
    }
  }
}

// Backs the sequence's next tile and copies what the source's first tile holds; `tokens` of it are the sequence's.
Result<Room> KvCache::copy_tile(SequenceId id, Node* source, int64_t tokens) {
  Sequence& copy = sequence(id);
  const TokenCount length = copy.length + TokenCount(tokens);
  ++source->pins;
  const Growth growth{.sequence = id, .length = length};
  Result<Room> room = prepare(std::span(&growth, 1));
  --source->pins;
  if (!room.ok() || room->space == Space::kNoSpace) {
    settle(source);
    return room;
  }
  for (size_t group = 0; group < groups_.size() && port_.has_memory(); ++group) {
    const Place& from = source->places[group].front();
    const Place& to = copy.tail->places[group].front();
    if (from.set == nullptr || to.set == nullptr) continue;
    const Stripes source_stripes = from.set->segment(group).stripes();
    const Stripes stripes = to.set->segment(group).stripes();
    for (size_t layer = 0; layer < groups_[group].layers.size(); ++layer) {
      const auto l = static_cast<int64_t>(layer);
      std::memcpy(stripes.base + l * stripes.layer_stride + to.tile * stripes.tile_stride,
                  source_stripes.base + l * source_stripes.layer_stride + from.tile * source_stripes.tile_stride,
                  static_cast<size_t>(groups_[group].tile_record.value));
    }
  }
  copy.tail->tokens.assign(source->tokens.begin(), source->tokens.begin() + tokens);
  copy.length = length;
  settle(source);
  return room;
}

void KvCache::want_checkpoint(SequenceId id, TokenCount position) {
  Sequence& wanting = sequence(id);
  if (!has_windows_ || !share_ || position < wanting.length || position.value == 0) return;
  if (position == wanting.length) {
    add_checkpoint(wanting.tail, position.value);
    return;
  }
  const auto at = std::lower_bound(wanting.wanted.begin(), wanting.wanted.end(), position.value);
  if (at == wanting.wanted.end() || *at != position.value) wanting.wanted.insert(at, position.value);
}

void KvCache::close(SequenceId id, Keep keep) {
  QUIRE_CHECK(!plan_outstanding_);
  Sequence& closing = sequence(id);
  Node* tail = closing.tail;
  const bool kept = keep == Keep::kCache && share_;
  if (kept && has_windows_ && closing.length.value > 0) add_checkpoint(tail, closing.length.value);
  // Tiles that were backed for a step that does not come.
  ledger_.free_from(tail, tiles_for(TokenCount(static_cast<int64_t>(tail->tokens.size()))).value);
  const int64_t tiles = tiles_for(closing.length).value;
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!ledger_.windowed(group)) continue;
    for (int64_t tile = closing.window_first[group]; tile < tiles; ++tile) {
      ledger_.remove_reader(place_of(tail, tile, group), group);
    }
  }
  touch_path(tail);
  for (Node* node = tail; node->parent != nullptr; node = node->parent) ledger_.add_readers(node, -1);
  if (closing.set != nullptr) ledger_.release(closing.set);
  sequences_.erase(id.value);
  tree_.detach(tail);
  tail->tail = false;
  if (!kept || tail->tokens.empty() || covered(tail)) {
    Node* parent = tail->parent;
    remove_detached(tail);
    settle(parent);
    return;
  }
  lower_end(tail);
  tree_.attach(tail);
  settle(tail);
}

// Whether a sibling has all that a detached node has.
bool KvCache::covered(const Node* node) const {
  const PrefixTree::Nearest nearest = tree_.nearest(node->parent, node->tokens);
  const size_t size = node->tokens.size();
  if (nearest.node == nullptr || nearest.common < static_cast<int64_t>(size)) return false;
  // With windows its end is a checkpoint that a longer sibling lacks.
  return !has_windows_ || nearest.node->tokens.size() == size;
}

}  // namespace quire::kv
