// The segments of a cache: sets of one segment for each layer group over the same run of tiles, in size classes, and the warm list
// of those that nobody uses.
//
// Life of a set: reserved for a class -> taken -> tiles come and go -> put (its backed tiles become warm) -> taken again by
// somebody of the same class, page faults saved -> ... -> unmapped, because page tables outlive what is given back.
//
// Warm memory stays inside the budget and goes first when room is needed: whole sets of the warm list, the longest there first,
// then the warm tiles of sets in use.
#pragma once

#include <deque>
#include <map>
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

// The number of tiles that is reserved for a wish of `tiles` >= 1: the next of 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ...
// (four classes to each power of two), so that at most a quarter of the addresses is too many and sets are found again.
[[nodiscard]] TileCount size_class(TileCount tiles);

class SegmentPool;

// One segment for each layer group, in the order of the groups.
class SegmentSet final : private WarmListener {
 public:
  SegmentSet(const SegmentSet&) = delete;
  SegmentSet& operator=(const SegmentSet&) = delete;

  [[nodiscard]] TileCount max_tiles() const { return segments_.front().max_tiles(); }
  [[nodiscard]] Segment& segment(size_t group) { return segments_[group]; }
  [[nodiscard]] const Segment& segment(size_t group) const { return segments_[group]; }
  [[nodiscard]] size_t groups() const { return segments_.size(); }

  // How many places (of tree nodes) name a tile of it. Counted by those who name them (K2).
  int64_t places = 0;
  // How many of them running sequences read; the others are cache.
  int64_t places_read = 0;
  // One past the last tile that is handed out: who extends the set goes on here.
  TileIndex end{0};

 private:
  friend class SegmentPool;
  static constexpr size_t kNowhere = SIZE_MAX;

  SegmentSet(SegmentPool& pool, int64_t id, std::vector<Segment> segments);
  void became_warm() override;
  [[nodiscard]] Bytes warm_bytes() const;
  [[nodiscard]] Bytes backed_bytes() const;
  [[nodiscard]] Bytes page_table_bytes() const;

  SegmentPool* pool_;
  int64_t id_;  // in the order of reserving: for dumps
  std::vector<Segment> segments_;
  size_t place_ = kNowhere;              // in SegmentPool::sets_
  size_t warm_in_use_place_ = kNowhere;  // in SegmentPool::warm_in_use_
  int64_t put_at_ = kNotPut;             // key in SegmentPool::warm_; kNotPut: in use
  static constexpr int64_t kNotPut = -1;
};

struct SegmentPoolOptions {
  TileCount largest{INT64_MAX};  // of one set; small where reserving addresses is not free (port::reserving_is_free)
  size_t warm_sets = 1024;  // the warm list's length; what comes beyond it is unmapped (mappings are limited: vm.max_map_count)
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

  // Gives warm memory back until it has freed `bytes` or none is left; answers the bytes that it freed, page tables included.
  Bytes shed(Bytes bytes);

  // Bytes that shed() could free at most: warm tiles and the page tables of the warm list. The pool's segments hold all warm bytes
  // of the budget.
  [[nodiscard]] Bytes sheddable() const { return budget_->backed(Purpose::kWarm) + warm_list_tables_; }

  // Upper bound of the page tables that sets for `tiles` (several where one may not have them all) come to need.
  [[nodiscard]] Bytes page_tables_for(TileCount tiles) const;

  [[nodiscard]] size_t sets() const { return sets_.size(); }       // reserved, in use or warm
  [[nodiscard]] size_t warm_sets() const { return warm_.size(); }  // of them on the warm list
  // Empty when the segments are sound and the lists and sums above are what a recount finds.
  [[nodiscard]] std::string verify() const;
  [[nodiscard]] std::string dump() const;

 private:
  friend class SegmentSet;

  [[nodiscard]] TileCount class_for(TileCount tiles) const;
  [[nodiscard]] Result<SegmentSet*> reserve(TileCount max_tiles);
  [[nodiscard]] Bytes page_tables_of_one(TileCount max_tiles) const;
  void list_warm_in_use(SegmentSet& set);
  void unlist_warm_in_use(SegmentSet& set);
  void unlist_warm(SegmentSet& set);
  // Unmaps a set that is on no list; answers what that freed.
  Bytes release(SegmentSet& set);
  [[nodiscard]] std::string verify_set(const SegmentSet& set) const;

  port::Vm* port_;
  Budget* budget_;
  std::vector<LayerGroupSpec> groups_;
  SegmentPoolOptions options_;
  std::vector<std::unique_ptr<SegmentSet>> sets_;
  std::map<int64_t, SegmentSet*> warm_;                       // the warm list: by the time of put(), counted in calls
  std::map<int64_t, std::deque<SegmentSet*>> warm_of_class_;  // the same by max_tiles, in the order of put()
  std::vector<SegmentSet*> warm_in_use_;                      // in use; all that have warm tiles, and some that had
  Bytes warm_list_tables_;
  int64_t next_id_ = 0;
  int64_t puts_ = 0;
};

}  // namespace quire::kv
