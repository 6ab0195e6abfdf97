#include "kv/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quire::kv {

Result<Segment> Segment::reserve(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles) {
  QUIRE_CHECK(!group.layers.empty() && group.tile_record.value > 0 && max_tiles.value > 0);
  const int64_t granule = port.granule().value;
  const int64_t records = saturating_product(group.tile_record.value, max_tiles.value);
  const int64_t stripe = records > INT64_MAX - granule ? INT64_MAX : round_up(records, granule);
  const Bytes all(saturating_product(stripe, static_cast<int64_t>(group.layers.size())));
  Result<port::Reservation> reservation = port.reserve(all);
  if (!reservation.ok()) {
    return at(fmt::format("KV of {} tokens ({} layers of group {})", saturating_product(max_tiles.value, kTileTokens),
                          group.layers.size(), group.name),
              reservation.error());
  }
  return Segment(port, budget, group, max_tiles, Bytes(stripe), std::move(reservation).value());
}

Segment::Segment(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles, Bytes stripe_bytes,
                 port::Reservation reservation)
    : port_(&port),
      name_(group.name),
      layers_(static_cast<int>(group.layers.size())),
      record_(group.tile_record),
      max_tiles_(max_tiles),
      stripe_bytes_(stripe_bytes),
      reservation_(std::move(reservation)),
      live_(budget, Purpose::kLive),
      tables_(budget, Purpose::kPageTables) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(port_, other.port_);
  std::swap(name_, other.name_);
  std::swap(layers_, other.layers_);
  std::swap(record_, other.record_);
  std::swap(max_tiles_, other.max_tiles_);
  std::swap(stripe_bytes_, other.stripe_bytes_);
  std::swap(reservation_, other.reservation_);
  std::swap(first_, other.first_);
  std::swap(end_, other.end_);
  std::swap(granules_touched_, other.granules_touched_);
  std::swap(live_, other.live_);
  std::swap(tables_, other.tables_);
  return *this;
}

void Segment::release() {
  if (!reservation_.empty()) port_->release(std::move(reservation_));
}

Result<Space> Segment::back(TileCount end) {
  QUIRE_CHECK(end <= max_tiles_, fmt::format("{} tiles of {}", end.value, max_tiles_.value));
  if (end <= end_) return Space::kOk;
  const GranuleRun before = held_granules();
  GranuleRun added = granules_of_tiles(record_, port_->granule(), first_, end);
  if (before.count() > 0) added.first = before.end;
  QUIRE_TRY(const Space space, back_granules(added));
  if (space == Space::kNoSpace) return space;
  poison_tiles(end_, end);
  end_ = end;
  QUIRE_EXPENSIVE(verify().empty(), verify());
  return Space::kOk;
}

// Promise, ask the port, commit. Whatever stops on the way leaves the promise to return itself and the port's part to be undone.
Result<Space> Segment::back_granules(GranuleRun run) {
  const Bytes live = port_->granule() * (run.count() * layers_);
  const int64_t touched = std::max(granules_touched_, run.end);
  const Bytes tables = table_bytes_for(touched) - tables_.bytes();
  Promise promise(live_.budget());
  if (promise.take(live + tables) == Space::kNoSpace) return Space::kNoSpace;
  for (int layer = 0; layer < layers_ && run.count() > 0; ++layer) {
    const Result<port::Backing> backing = port_->back(reservation_, range_of(layer, run));
    if (backing.ok() && *backing == port::Backing::kBacked) continue;
    give_back_granules(run, layer + 1);
    if (!backing.ok()) return at("KV memory", backing.error());
    return Space::kNoSpace;
  }
  live_.absorb(promise, live);
  tables_.absorb(promise, tables);
  granules_touched_ = touched;
  return Space::kOk;
}

void Segment::give_back_before(TileIndex tile) {
  QUIRE_CHECK(tile.value <= end_.value, fmt::format("tile {} of {}", tile.value, end_.value));
  if (tile <= first_) return;
  GranuleRun freed = held_granules();
  first_ = tile;
  const GranuleRun kept = held_granules();
  if (kept.count() > 0) freed.end = kept.first;
  give_back_granules(freed, layers_);
  live_.give_back(port_->granule() * (freed.count() * layers_));
  QUIRE_EXPENSIVE(verify().empty(), verify());
}

void Segment::give_back_from(TileCount end) {
  QUIRE_CHECK(end.value >= first_.value, fmt::format("tile {} before {}", end.value, first_.value));
  if (end >= end_) return;
  GranuleRun freed = held_granules();
  end_ = end;
  const GranuleRun kept = held_granules();
  if (kept.count() > 0) freed.first = kept.end;
  give_back_granules(freed, layers_);
  live_.give_back(port_->granule() * (freed.count() * layers_));
  QUIRE_EXPENSIVE(verify().empty(), verify());
}

void Segment::give_back_granules(GranuleRun run, int layers) {
  if (run.count() == 0) return;
  for (int layer = 0; layer < layers; ++layer) port_->give_back(reservation_, range_of(layer, run));
}

port::VmRange Segment::range_of(int layer_in_group, GranuleRun run) const {
  const Bytes granule = port_->granule();
  return {stripe_bytes_ * layer_in_group + granule * run.first, granule * run.count()};
}

// Page tables of the first `granules_touched` granules of every stripe: the aligned stretches of addresses that they lie in, each
// counted once, also where one stripe's end and the next one's beginning share it.
Bytes Segment::table_bytes_for(int64_t granules_touched) const {
  const port::PageTables shape = port_->page_tables();
  if (granules_touched == 0) return Bytes(0);
  const auto reach = static_cast<uint64_t>(shape.reach.value);
  const auto base = reinterpret_cast<uintptr_t>(reservation_.base());
  uint64_t next_uncounted = 0;
  int64_t tables = 0;
  for (int layer = 0; layer < layers_; ++layer) {
    const uint64_t begin = base + static_cast<uint64_t>(stripe_bytes_.value) * static_cast<uint64_t>(layer);
    const uint64_t last = begin + static_cast<uint64_t>(granules_touched * port_->granule().value) - 1;
    const uint64_t first_table = std::max(begin / reach, next_uncounted);
    if (last / reach < first_table) continue;
    next_uncounted = last / reach + 1;
    tables += static_cast<int64_t>(next_uncounted - first_table);
  }
  return shape.table * tables;
}

void Segment::poison_tiles([[maybe_unused]] TileCount begin, [[maybe_unused]] TileCount end) {
#if QUIRE_CHECK_LEVEL >= 1
  if (!port_->has_memory()) return;
  for (int layer = 0; layer < layers_; ++layer) {
    const Stripe part = stripe(layer);
    std::memset(part.base + begin.value * part.tile_stride, 0xFF, static_cast<size_t>((end - begin).value * part.tile_stride));
  }
#endif
}

Stripe Segment::stripe(int layer_in_group) const {
  QUIRE_DCHECK(layer_in_group >= 0 && layer_in_group < layers_);
  return {reservation_.base() + stripe_bytes_.value * layer_in_group, record_.value};
}

std::string Segment::verify() const {
  if (first_.value < 0 || first_.value > end_.value || end_ > max_tiles_) return "K7: tiles out of order\n" + dump();
  const GranuleRun run = held_granules();
  if (live_.bytes() != port_->granule() * (run.count() * layers_)) return "K1: charged is not what the tiles need\n" + dump();
  if (tables_.bytes() != table_bytes_for(granules_touched_)) return "K1: page tables are charged wrongly\n" + dump();
  for (int layer = 0; layer < layers_; ++layer) {
    const Bytes held = port_->query(reservation_, range_of(layer, run));
    const Bytes whole = port_->query(reservation_, {stripe_bytes_ * layer, stripe_bytes_});
    if (held != port_->granule() * run.count()) {
      return fmt::format("K1: layer {}: {} bytes of the charged granules are backed\n{}", layer, held.value, dump());
    }
    if (whole != held) {
      return fmt::format("K7: layer {}: {} bytes are backed that nobody is charged for\n{}", layer, (whole - held).value, dump());
    }
  }
  return {};
}

std::string Segment::dump() const {
  const GranuleRun run = held_granules();
  return fmt::format("segment {} layers {} record {} tiles [{}, {}) of {} granules [{}, {}) touched {} live {} page_tables {}\n",
                     name_, layers_, record_.value, first_.value, end_.value, max_tiles_.value, run.first, run.end,
                     granules_touched_, live_.bytes().value, tables_.bytes().value);
}

}  // namespace quire::kv
