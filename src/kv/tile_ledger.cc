#include "kv/tile_ledger.h"

#include "base/check.h"

namespace quire::kv {
namespace {

TileRun tiles_of(std::span<const Place> run) { return {run.front().tile, run.back().tile + 1}; }

}  // namespace

Bytes page_tables_of(const SegmentSet& set) {
  Bytes sum;
  for (size_t group = 0; group < set.groups(); ++group) sum += set.segment(group).page_table_bytes();
  return sum;
}

void TileLedger::change_read(SegmentSet* set, int64_t places) {
  const bool before = set->places_read > 0;
  set->places_read += places;
  const bool after = set->places_read > 0;
  if (before && !after) cached_page_tables_ += page_tables_of(*set);
  if (!before && after) cached_page_tables_ -= page_tables_of(*set);
}

void TileLedger::add_readers(Node* node, int change) {
  const Purpose before = purpose_of(node->readers);
  node->readers += change;
  QUIRE_CHECK(node->readers >= 0);
  const Purpose after = purpose_of(node->readers);
  if (before == after) return;
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (windowed(group)) continue;
    for_each_run(node->places[group], [&](std::span<Place> run) {
      run.front().set->segment(group).set_purpose(tiles_of(run), after);
      if (before == Purpose::kCached) change_read(run.front().set, static_cast<int64_t>(run.size()));
      if (after == Purpose::kCached) change_read(run.front().set, -static_cast<int64_t>(run.size()));
    });
  }
}

void TileLedger::add_reader(Place& place, size_t group) {
  QUIRE_CHECK(place.set != nullptr && place.readers < INT32_MAX);
  const Purpose before = purpose_of(place.readers);
  const Purpose after = purpose_of(++place.readers);
  if (before == after) return;
  place.set->segment(group).set_purpose({place.tile, place.tile + 1}, after);
  if (before == Purpose::kCached) change_read(place.set, 1);
}

void TileLedger::remove_reader(Place& place, size_t group) {
  QUIRE_CHECK(place.set != nullptr && place.readers > 0);
  const Purpose before = purpose_of(place.readers);
  const Purpose after = purpose_of(--place.readers);
  if (place.readers == 0 && place.checkpoints == 0) {
    free_place(place, group, true);
    return;
  }
  if (before == after) return;
  place.set->segment(group).set_purpose({place.tile, place.tile + 1}, after);
  if (after == Purpose::kCached) change_read(place.set, -1);
}

void TileLedger::add_checkpoint(Place& place) {
  QUIRE_CHECK(place.set != nullptr && place.checkpoints < INT32_MAX);
  ++place.checkpoints;
}

void TileLedger::remove_checkpoint(Place& place, size_t group) {
  QUIRE_CHECK(place.set != nullptr && place.checkpoints > 0);
  --place.checkpoints;
  if (place.readers == 0 && place.checkpoints == 0) free_place(place, group, false);
}

void TileLedger::hold(SegmentSet* set) {
  // The page tables of a set just taken are no cache's.
  if (set->places == 0) {
    ++set->places_read;
  } else {
    change_read(set, 1);
  }
  ++set->places;
}

void TileLedger::release(SegmentSet* set) {
  change_read(set, -1);
  if (--set->places > 0) return;
  cached_page_tables_ -= page_tables_of(*set);
  pool_.put(set);
}

Place TileLedger::new_place(SegmentSet* set, int64_t tile, size_t group) {
  ++set->places;
  ++set->places_read;
  return {.set = set, .tile = static_cast<int32_t>(tile), .readers = windowed(group) ? 1 : 0};
}

void TileLedger::free_place(Place& place, size_t group, bool read) { free_run(std::span(&place, 1), group, read); }

void TileLedger::free_run(std::span<Place> run, size_t group, bool read) {
  SegmentSet* set = run.front().set;
  const auto count = static_cast<int64_t>(run.size());
  const TileRun tiles = tiles_of(run);
  for (Place& place : run) place = {};
  if (read) change_read(set, -count);
  set->places -= count;
  if (set->places > 0) {
    set->segment(group).give_back(tiles);
    return;
  }
  cached_page_tables_ -= page_tables_of(*set);
  pool_.put(set);
}

void TileLedger::free_from(Node* node, int64_t first) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<Place>& places = node->places[group];
    if (first >= static_cast<int64_t>(places.size())) continue;
    const std::span<Place> freed = std::span(places).subspan(static_cast<size_t>(first));
    if (windowed(group)) {
      for (Place& place : freed) {
        if (place.set != nullptr) free_place(place, group, place.readers > 0);
      }
    } else {
      for_each_run(freed, [&](std::span<Place> run) { free_run(run, group, node->readers > 0); });
    }
    places.resize(static_cast<size_t>(first));
  }
}

void TileLedger::join(Node* to, Node* from, int64_t tiles) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::span<Place> mine = std::span(to->places[group]).first(static_cast<size_t>(tiles));
    const std::span<Place> others = std::span(from->places[group]).first(static_cast<size_t>(tiles));
    if (!windowed(group)) {
      for_each_run(others, [&](std::span<Place> run) { free_run(run, group, true); });
      continue;
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      if (others[i].set == nullptr) continue;
      if (mine[i].set == nullptr) {
        std::swap(mine[i], others[i]);
        continue;
      }
      const int readers = others[i].readers;
      for (int reader = 0; reader < readers; ++reader) add_reader(mine[i], group);
      mine[i].checkpoints = mine[i].checkpoints + others[i].checkpoints;
      free_place(others[i], group, readers > 0);
    }
  }
}

}  // namespace quire::kv
