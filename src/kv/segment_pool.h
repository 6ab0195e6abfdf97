// The segments of a cache: sets of one segment for each layer group over the same run of tiles, in size classes, and the warm list
// of those that nobody uses.
//
// Life of a set: reserved for a class -> taken -> tiles come and go -> put (its backed tiles become warm) -> taken again by somebody
// of the same class, page faults saved -> ... -> unmapped, because page tables outlive what is given back.
//
// Warm memory stays inside the budget and goes first when room is needed: whole sets of the warm list, the longest there first,
// then the warm tiles of sets in use.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/budget.h"
#include "kv/layer_group.h"
#include "kv/segment.h"
#include "port/vm.h"

namespace quire::kv {

// The number of tiles that is reserved for a wish of `tiles` >= 1: the next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ... (four
// classes to each power of two), so that at most a quarter of the addresses is too many and sets are found again.
[[nodiscard]] TileCount size_class(TileCount tiles);

// One segment for each layer group, in the order of the groups.
class SegmentSet {
 public:
  [[nodiscard]] TileCount max_tiles() const;
  [[nodiscard]] Segment& segment(size_t group);
  [[nodiscard]] const Segment& segment(size_t group) const;
  [[nodiscard]] size_t groups() const;

  // How many places (of tree nodes) name a tile of it. Counted by those who name them (K2).
  int64_t places = 0;
  // How many of them running sequences read; the others are cache.
  int64_t places_read = 0;
  // One past the last tile that was ever handed out since it was taken.
  TileIndex end{0};
};

struct SegmentPoolOptions {
  TileCount largest{INT64_MAX};  // of one set; small where reserving addresses is not free (port::reserving_is_free)
  size_t warm_sets = 1024;       // the warm list's length; what comes beyond it is unmapped (mappings are limited: vm.max_map_count)
};

class SegmentPool {
 public:
  // `port` and `budget` must outlive the pool.
  SegmentPool(port::Vm& port, Budget& budget, std::span<const LayerGroupSpec> groups, const SegmentPoolOptions& options);
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;
  ~SegmentPool();

  // A set for `tiles` >= 1, or for as many of them as one set may have; its end is 0 and it has no places. Of the warm list where
  // there is one of the class (then some of its tiles are warm). Owned by the pool. An error is the port's.
  [[nodiscard]] Result<SegmentSet*> take(TileCount tiles);
  // Nobody uses the set any more. All its backed tiles become warm.
  void put(SegmentSet* set);

  // Gives warm memory back until `bytes` are free or none is left; answers the bytes that it freed, page tables included.
  Bytes shed(Bytes bytes);

  // Bytes that shed() could free at most: warm tiles and the page tables of the warm list.
  [[nodiscard]] Bytes sheddable() const;

  // Upper bound of the page tables that a set for `tiles` comes to need.
  [[nodiscard]] Bytes page_tables_for(TileCount tiles) const;

  [[nodiscard]] size_t sets() const;       // reserved, in use or warm
  [[nodiscard]] size_t warm_sets() const;  // of them on the warm list
  [[nodiscard]] std::string verify() const;
  [[nodiscard]] std::string dump() const;
};

}  // namespace quire::kv
