#include "kv/segment_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace quire::kv {

TileCount size_class(TileCount tiles) {
  QUIRE_CHECK(tiles.value >= 1);
  if (tiles.value <= 8 || tiles.value > INT64_MAX / 2) return tiles;
  // Between 2^k (excluded) and 2^(k+1) the classes are 2^(k-2) apart.
  const int k = std::bit_width(static_cast<uint64_t>(tiles.value - 1)) - 1;
  return TileCount(round_up(tiles.value, int64_t{1} << (k - 2)));
}

SegmentSet::SegmentSet(SegmentPool& pool, int64_t id, std::vector<Segment> segments)
    : pool_(&pool), id_(id), segments_(std::move(segments)) {
  for (Segment& segment : segments_) segment.set_warm_listener(this);
}

void SegmentSet::became_warm() {
  if (put_at_ == kNotPut) pool_->list_warm_in_use(*this);
}

Bytes SegmentSet::warm_bytes() const {
  Bytes sum;
  for (const Segment& segment : segments_) sum += segment.backed_bytes(Purpose::kWarm);
  return sum;
}

Bytes SegmentSet::backed_bytes() const {
  Bytes sum;
  for (const Segment& segment : segments_) sum += segment.backed_bytes();
  return sum;
}

Bytes SegmentSet::page_table_bytes() const {
  Bytes sum;
  for (const Segment& segment : segments_) sum += segment.page_table_bytes();
  return sum;
}

SegmentPool::SegmentPool(port::Vm& port, Budget& budget, std::span<const LayerGroupSpec> groups, const SegmentPoolOptions& options)
    : port_(&port), budget_(&budget), groups_(groups.begin(), groups.end()), options_(options) {
  QUIRE_CHECK(!groups.empty() && options.largest.value >= 1);
}

SegmentPool::~SegmentPool() = default;

TileCount SegmentPool::class_for(TileCount tiles) const {
  return std::min(size_class(std::min(tiles, options_.largest)), options_.largest);
}

Result<SegmentSet*> SegmentPool::take(TileCount tiles) {
  const TileCount max_tiles = class_for(tiles);
  const auto listed = warm_of_class_.find(max_tiles.value);
  if (listed == warm_of_class_.end()) return reserve(max_tiles);
  // The one that was put last: what the processor's caches still hold of it is worth most.
  SegmentSet& set = *listed->second.back();
  unlist_warm(set);
  set.put_at_ = SegmentSet::kNotPut;
  set.places = 0;
  set.places_read = 0;
  set.end = TileIndex(0);
  if (set.warm_bytes().value > 0) list_warm_in_use(set);
  return &set;
}

Result<SegmentSet*> SegmentPool::reserve(TileCount max_tiles) {
  std::vector<Segment> segments;
  segments.reserve(groups_.size());
  for (const LayerGroupSpec& group : groups_) {
    QUIRE_TRY(Segment segment, Segment::reserve(*port_, *budget_, group, max_tiles));
    segments.push_back(std::move(segment));
  }
  sets_.push_back(std::unique_ptr<SegmentSet>(new SegmentSet(*this, next_id_++, std::move(segments))));
  sets_.back()->place_ = sets_.size() - 1;
  return sets_.back().get();
}

void SegmentPool::put(SegmentSet* set) {
  QUIRE_CHECK(set != nullptr && set->pool_ == this && set->put_at_ == SegmentSet::kNotPut);
  unlist_warm_in_use(*set);
  set->put_at_ = puts_++;
  for (Segment& segment : set->segments_) segment.set_purpose({0, segment.max_tiles().value}, Purpose::kWarm);
  if (set->backed_bytes().value == 0) {
    release(*set);
    return;
  }
  warm_.emplace(set->put_at_, set);
  warm_of_class_[set->max_tiles().value].push_back(set);
  warm_list_tables_ += set->page_table_bytes();
  if (warm_.size() <= options_.warm_sets) return;
  SegmentSet& oldest = *warm_.begin()->second;
  unlist_warm(oldest);
  release(oldest);
}

Bytes SegmentPool::shed(Bytes bytes) {
  Bytes freed;
  while (freed < bytes && !warm_.empty()) {
    SegmentSet& oldest = *warm_.begin()->second;
    unlist_warm(oldest);
    freed += release(oldest);
  }
  while (freed < bytes && !warm_in_use_.empty()) {
    SegmentSet& set = *warm_in_use_.back();
    for (Segment& segment : set.segments_) freed += segment.give_back_warm(bytes - freed);
    if (set.warm_bytes().value == 0) unlist_warm_in_use(set);
  }
  return freed;
}

Bytes SegmentPool::page_tables_for(TileCount tiles) const {
  QUIRE_CHECK(tiles.value >= 0);
  const int64_t whole = tiles.value / options_.largest.value;
  const TileCount rest(tiles.value % options_.largest.value);
  const Bytes of_whole(whole == 0 ? 0 : saturating_product(whole, page_tables_of_one(options_.largest).value));
  const Bytes of_rest = rest.value == 0 ? Bytes(0) : page_tables_of_one(class_for(rest));
  return of_whole.value > INT64_MAX - of_rest.value ? Bytes(INT64_MAX) : of_whole + of_rest;
}

// Tables of n contiguous bytes that begin on a granule: most when they begin on the last granule that a table reaches.
Bytes SegmentPool::page_tables_of_one(TileCount max_tiles) const {
  const port::PageTables shape = port_->page_tables();
  const int64_t granule = port_->granule().value;
  int64_t total = 0;
  for (const LayerGroupSpec& group : groups_) {
    const int64_t records = saturating_product(group.tile_record.value, max_tiles.value);
    if (records > INT64_MAX - granule) return Bytes(INT64_MAX);
    const int64_t bytes = saturating_product(round_up(records, granule), static_cast<int64_t>(group.layers.size()));
    if (bytes > INT64_MAX - 2 * shape.reach.value) return Bytes(INT64_MAX);
    total += ceil_div(bytes + shape.reach.value - granule, shape.reach.value);
  }
  return Bytes(saturating_product(total, shape.table.value));
}

void SegmentPool::list_warm_in_use(SegmentSet& set) {
  if (set.warm_in_use_place_ != SegmentSet::kNowhere) return;
  set.warm_in_use_place_ = warm_in_use_.size();
  warm_in_use_.push_back(&set);
}

void SegmentPool::unlist_warm_in_use(SegmentSet& set) {
  const size_t place = std::exchange(set.warm_in_use_place_, SegmentSet::kNowhere);
  if (place == SegmentSet::kNowhere) return;
  SegmentSet* const last = warm_in_use_.back();
  warm_in_use_.pop_back();
  if (last == &set) return;
  warm_in_use_[place] = last;
  last->warm_in_use_place_ = place;
}

// It is the oldest or the youngest of its class: the warm list is left at its ends only.
void SegmentPool::unlist_warm(SegmentSet& set) {
  warm_list_tables_ -= set.page_table_bytes();
  warm_.erase(set.put_at_);
  const auto of_class = warm_of_class_.find(set.max_tiles().value);
  if (of_class->second.front() == &set) {
    of_class->second.pop_front();
  } else {
    QUIRE_CHECK(of_class->second.back() == &set);
    of_class->second.pop_back();
  }
  if (of_class->second.empty()) warm_of_class_.erase(of_class);
}

Bytes SegmentPool::release(SegmentSet& set) {
  const Bytes freed = set.backed_bytes() + set.page_table_bytes();
  const size_t place = set.place_;
  std::swap(sets_[place], sets_.back());
  sets_[place]->place_ = place;
  sets_.pop_back();
  return freed;
}

std::string SegmentPool::verify() const {
  Bytes warm;
  Bytes tables;
  size_t listed = 0;
  for (const std::unique_ptr<SegmentSet>& set : sets_) {
    if (std::string fault = verify_set(*set); !fault.empty()) return fault;
    warm += set->warm_bytes();
    if (set->put_at_ == SegmentSet::kNotPut) continue;
    tables += set->page_table_bytes();
    ++listed;
  }
  if (warm != budget_->backed(Purpose::kWarm)) return "K9: the budget's warm bytes are not those of the sets\n" + dump();
  if (tables != warm_list_tables_) return "K9: the page tables of the warm list are counted wrongly\n" + dump();
  size_t of_classes = 0;
  for (const auto& [max_tiles, sets] : warm_of_class_) of_classes += sets.size();
  if (listed != warm_.size() || listed != of_classes) return "K1: the warm list has other sets than the classes\n" + dump();
  return {};
}

std::string SegmentPool::verify_set(const SegmentSet& set) const {
  for (const Segment& segment : set.segments_) {
    if (std::string fault = segment.verify(); !fault.empty()) return fault;
  }
  const bool is_listed = set.warm_in_use_place_ != SegmentSet::kNowhere;
  if (sets_[set.place_].get() != &set) return fmt::format("K2: set {} is not where it says\n{}", set.id_, dump());
  if (is_listed && warm_in_use_[set.warm_in_use_place_] != &set)
    return fmt::format("K2: set {} is not listed\n{}", set.id_, dump());
  if (set.put_at_ == SegmentSet::kNotPut) {
    if (is_listed || set.warm_bytes().value == 0) return {};
    return fmt::format("K1: set {} is in use and has warm tiles that shed() would not find\n{}", set.id_, dump());
  }
  const auto found = warm_.find(set.put_at_);
  if (found == warm_.end() || found->second != &set) return fmt::format("K2: set {} is not on the warm list\n{}", set.id_, dump());
  if (is_listed || set.warm_bytes() != set.backed_bytes()) {
    return fmt::format("K1: set {} is on the warm list and in use\n{}", set.id_, dump());
  }
  return {};
}

std::string SegmentPool::dump() const {
  std::vector<const SegmentSet*> sorted;
  for (const std::unique_ptr<SegmentSet>& set : sets_) sorted.push_back(set.get());
  std::sort(sorted.begin(), sorted.end(), [](const SegmentSet* a, const SegmentSet* b) { return a->id_ < b->id_; });
  std::string text;
  for (const SegmentSet* set : sorted) {
    text += set->put_at_ == SegmentSet::kNotPut
                ? fmt::format("set {} in use places {} end {}\n", set->id_, set->places, set->end.value)
                : fmt::format("set {} warm since {}\n", set->id_, set->put_at_);
    for (const Segment& segment : set->segments_) text += "  " + segment.dump();
  }
  return text;
}

}  // namespace quire::kv
