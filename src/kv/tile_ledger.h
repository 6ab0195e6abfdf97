// The ledger of the tree's tiles: who counts on a tile, what it is charged for, and when it is free.
//
//   full groups      a tile is held as long as its node views it; its purpose follows from the node's readers
//   windowed groups  a tile is held as long as a reader's window or a checkpoint counts it in its place; its purpose follows from
//                    the place's readers
//
// A set whose last place goes returns to the pool as a whole, its tiles still backed: as warm memory they cost nothing to use again
// and little to unmap.
#pragma once

#include <span>
#include <vector>

#include "kv/layer_group.h"
#include "kv/prefix_tree.h"
#include "kv/segment_pool.h"

namespace quire::kv {

[[nodiscard]] constexpr Purpose purpose_of(int readers) {
  return readers == 0 ? Purpose::kCached : readers == 1 ? Purpose::kLive : Purpose::kShared;
}

class TileLedger {
 public:
  TileLedger(std::span<const LayerGroupSpec> groups, SegmentPool& pool) : groups_(groups), pool_(pool) {}

  [[nodiscard]] bool windowed(size_t group) const { return groups_[group].window.has_value(); }

  // One running sequence more (or less) leads through the node.
  void add_readers(Node* node, int change);

  // In a windowed group. Without readers and checkpoints the tile is free.
  void add_reader(Place& place, size_t group);
  void remove_reader(Place& place, size_t group);
  void add_checkpoint(Place& place);
  void remove_checkpoint(Place& place, size_t group);

  // A running sequence extends the set: it counts like a place until it is released.
  void hold(SegmentSet* set);
  void release(SegmentSet* set);

  // Tile `tile` of the set was committed for the only reader: the place that names it.
  [[nodiscard]] Place new_place(SegmentSet* set, int64_t tile, size_t group);

  // Frees the places of all groups from `first` on (an index into the node's tiles) and forgets them.
  void free_from(Node* node, int64_t first);

  // Node `to` takes over what `from` has: the same tiles of the same tokens, both with readers. In windowed groups a tile that only
  // one holds is kept. `from`'s places, the first `tiles` of them, are empty afterwards.
  void join(Node* to, Node* from, int64_t tiles);

  // Page tables of sets that no running sequence reads: they go with the last of their tiles.
  [[nodiscard]] Bytes cached_page_tables() const { return cached_page_tables_; }

 private:
  void change_read(SegmentSet* set, int64_t places);
  void free_place(Place& place, size_t group, bool read);
  void free_run(std::span<Place> run, size_t group, bool read);

  std::span<const LayerGroupSpec> groups_;
  SegmentPool& pool_;
  Bytes cached_page_tables_;
};

// Bytes of the page tables of all segments of a set.
[[nodiscard]] Bytes page_tables_of(const SegmentSet& set);

// Calls `each` with each longest part of `places` that lies in one set, tile after tile; places that are not held are skipped.
template <typename Each>
void for_each_run(std::span<Place> places, const Each& each) {
  for (size_t begin = 0; begin < places.size();) {
    if (places[begin].set == nullptr) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < places.size() && places[end].set == places[begin].set && places[end].tile == places[end - 1].tile + 1) ++end;
    each(places.subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace quire::kv
