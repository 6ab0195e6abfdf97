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
      unit_bytes_(record_.value % port.granule().value == 0 ? record_ : port.granule()),
      stripe_bytes_(stripe_bytes),
      reservation_(std::move(reservation)),
      tile_purposes_(static_cast<size_t>(max_tiles.value), kFree),
      charge_(budget) {}

Segment::Segment(Segment&& other) noexcept = default;

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(port_, other.port_);
  std::swap(name_, other.name_);
  std::swap(layers_, other.layers_);
  std::swap(record_, other.record_);
  std::swap(unit_bytes_, other.unit_bytes_);
  std::swap(stripe_bytes_, other.stripe_bytes_);
  std::swap(reservation_, other.reservation_);
  std::swap(tile_purposes_, other.tile_purposes_);
  std::swap(units_touched_, other.units_touched_);
  std::swap(charge_, other.charge_);
  std::swap(warm_listener_, other.warm_listener_);
  return *this;
}

Segment::~Segment() {
  if (!reservation_.empty()) port_->release(std::move(reservation_));
}

std::optional<Purpose> Segment::purpose(TileIndex tile) const {
  QUIRE_CHECK(tile.value >= 0 && tile.value < max_tiles().value, fmt::format("tile {} of {}", tile.value, max_tiles().value));
  const Use use = tile_purposes_[static_cast<size_t>(tile.value)];
  if (use == kFree) return {};
  return static_cast<Purpose>(use);
}

Bytes Segment::backed_bytes() const {
  Bytes sum;
  for (size_t purpose = 0; purpose < kPurposes; ++purpose) sum += charge_.bytes(static_cast<Purpose>(purpose));
  return sum - page_table_bytes();
}

Bytes Segment::need(TileRun run) const {
  check_run(run);
  int64_t missing = 0;
  int64_t touched = units_touched_;
  for_each_missing(run, [&](UnitRun units) {
    missing += units.count();
    touched = std::max(touched, units.end);
  });
  return bytes_of(missing) + new_table_bytes(touched);
}

void Segment::ranges(TileRun run, std::vector<port::VmRange>& ranges) const {
  check_run(run);
  for_each_missing(run, [&](UnitRun units) {
    for (int layer = 0; layer < layers_; ++layer) ranges.push_back(range_of(layer, units));
  });
}

void Segment::commit(TileRun run, Purpose purpose, Promise& promise) {
  check_run(run);
  QUIRE_CHECK(purpose != Purpose::kPageTables);
  const int64_t touched = units_touched_with(run);
  charge_.absorb(promise, Purpose::kPageTables, new_table_bytes(touched));
  units_touched_ = touched;
  poison_unused(run);
  assign(run, static_cast<Use>(purpose), &promise);
}

void Segment::undo(TileRun run) {
  check_run(run);
  for_each_missing(run, [&](UnitRun units) { give_back_units(units); });
}

Result<Space> Segment::back(TileRun run, Purpose purpose) {
  Promise promise(charge_.budget());
  if (promise.take(need(run)) == Space::kNoSpace) return Space::kNoSpace;
  std::vector<port::VmRange> missing;
  ranges(run, missing);
  for (const port::VmRange& range : missing) {
    const Result<port::Backing> backing = port_->back(reservation_, range);
    if (backing.ok() && *backing == port::Backing::kBacked) continue;
    undo(run);
    if (!backing.ok()) return at("KV memory", backing.error());
    return Space::kNoSpace;
  }
  commit(run, purpose, promise);
  return Space::kOk;
}

void Segment::set_purpose(TileRun run, Purpose purpose) {
  check_run(run);
  QUIRE_CHECK(purpose != Purpose::kPageTables);
  assign(run, static_cast<Use>(purpose), nullptr);
}

void Segment::give_back(TileRun run) {
  check_run(run);
  const auto is_free = [this](int64_t tile) { return tile_purposes_[static_cast<size_t>(tile)] == kFree; };
  while (run.count() > 0 && is_free(run.first)) ++run.first;
  while (run.count() > 0 && is_free(run.end - 1)) --run.end;
  assign(run, kFree, nullptr);
  // Only the outermost units can hold tiles of others; a unit between may be free already, which the port permits.
  UnitRun freed = units_of(run);
  if (freed.count() > 0 && use_of_unit(freed.first) != kFree) ++freed.first;
  if (freed.count() > 0 && use_of_unit(freed.end - 1) != kFree) --freed.end;
  if (freed.count() > 0) give_back_units(freed);
}

Bytes Segment::give_back_warm(Bytes bytes) {
  bytes = std::min(bytes, backed_bytes(Purpose::kWarm));
  constexpr auto kWarm = static_cast<Use>(Purpose::kWarm);
  const Bytes before = backed_bytes(Purpose::kWarm);
  int64_t end = max_tiles().value;
  for (Bytes freed; freed < bytes; freed = before - backed_bytes(Purpose::kWarm)) {
    while (tile_purposes_[static_cast<size_t>(end - 1)] != kWarm) --end;
    // No more than it takes: where tiles share units, n tiles with free neighbours give back up to n x record / unit + 2 of them.
    const int64_t units = ceil_div((bytes - freed).value, bytes_of(1).value);
    const int64_t enough = unit_bytes_ == record_ ? units : 1 + std::max<int64_t>(0, units - 2) * unit_bytes_.value / record_.value;
    int64_t first = end;
    while (first > 0 && end - first < enough && tile_purposes_[static_cast<size_t>(first - 1)] == kWarm) --first;
    give_back({first, end});
    end = first;
  }
  return before - backed_bytes(Purpose::kWarm);
}

void Segment::check_run(TileRun run) const {
  QUIRE_CHECK(run.first >= 0 && run.first <= run.end && run.end <= max_tiles().value,
              fmt::format("tiles [{}, {}) of {}", run.first, run.end, max_tiles().value));
}

Segment::UnitRun Segment::units_of(TileRun run) const {
  if (unit_bytes_ == record_) return {run.first, run.end};
  const GranuleRun granules = granules_of_tiles(record_, unit_bytes_, TileIndex(run.first), TileCount(run.end));
  return {granules.first, granules.end};
}

TileRun Segment::tiles_of_unit(int64_t unit) const {
  if (unit_bytes_ == record_) return {unit, unit + 1};
  const int64_t begin = unit * unit_bytes_.value;
  return {begin / record_.value, std::min(ceil_div(begin + unit_bytes_.value, record_.value), max_tiles().value)};
}

Segment::Use Segment::use_of_unit(int64_t unit) const {
  const TileRun tiles = tiles_of_unit(unit);
  const auto first = tile_purposes_.begin() + tiles.first;
  return *std::min_element(first, first + tiles.count());
}

port::VmRange Segment::range_of(int layer_in_group, UnitRun units) const {
  return {stripe_bytes_ * layer_in_group + unit_bytes_ * units.first, unit_bytes_ * units.count()};
}

// Page tables of the first `units_touched` units of every stripe: the aligned stretches of addresses that they lie in, each counted
// once, also where one stripe's end and the next one's beginning share it.
Bytes Segment::table_bytes_for(int64_t units_touched) const {
  if (units_touched == 0) return Bytes(0);
  const port::PageTables shape = port_->page_tables();
  const auto reach = static_cast<uint64_t>(shape.reach.value);
  const auto base = reinterpret_cast<uintptr_t>(reservation_.base());
  uint64_t next_uncounted = 0;
  int64_t tables = 0;
  for (int layer = 0; layer < layers_; ++layer) {
    const uint64_t begin = base + static_cast<uint64_t>(stripe_bytes_.value) * static_cast<uint64_t>(layer);
    const uint64_t last = (begin + static_cast<uint64_t>(units_touched * unit_bytes_.value) - 1) / reach;
    const uint64_t first = std::max(begin / reach, next_uncounted);
    if (last < first) continue;
    next_uncounted = last + 1;
    tables += static_cast<int64_t>(next_uncounted - first);
  }
  return shape.table * tables;
}

Bytes Segment::new_table_bytes(int64_t units_touched) const {
  return units_touched == units_touched_ ? Bytes(0) : table_bytes_for(units_touched) - page_table_bytes();
}

template <typename Take>
void Segment::for_each_missing(TileRun run, Take take) const {
  const UnitRun units = units_of(run);
  UnitRun missing{units.first, units.first};
  for (int64_t unit = units.first; unit < units.end; ++unit) {
    if (use_of_unit(unit) == kFree) {
      missing.end = unit + 1;
      continue;
    }
    if (missing.count() > 0) take(missing);
    missing = {unit + 1, unit + 1};
  }
  if (missing.count() > 0) take(missing);
}

int64_t Segment::units_touched_with(TileRun run) const {
  int64_t touched = units_touched_;
  for_each_missing(run, [&](UnitRun units) { touched = std::max(touched, units.end); });
  return touched;
}

void Segment::count_units(UnitRun units, int64_t sign, UnitCounts& counts) const {
  for (int64_t unit = units.first; unit < units.end; ++unit) counts[use_of_unit(unit)] += sign;
}

void Segment::assign(TileRun run, Use use, Promise* promise) {
  const UnitRun units = units_of(run);
  UnitCounts change{};
  count_units(units, -1, change);
  for (int64_t tile = run.first; tile < run.end; ++tile) {
    Use& now = tile_purposes_[static_cast<size_t>(tile)];
    if (now != kFree || promise != nullptr) now = use;
  }
  count_units(units, 1, change);
  settle(change, promise);
  QUIRE_EXPENSIVE(verify_charge().empty(), verify_charge());
}

// Bytes move from the purposes that have fewer units to those that have more; then some are left over (given back), or some are
// missing (promised).
void Segment::settle(const UnitCounts& change, Promise* promise) {
  const bool was_warm = backed_bytes(Purpose::kWarm).value > 0;
  UnitCounts rest = change;
  for (size_t to = 0; to < kPurposes; ++to) {
    for (size_t from = 0; from < kPurposes && rest[to] > 0; ++from) {
      const int64_t moved = std::min(rest[to], -std::min<int64_t>(rest[from], 0));
      if (moved == 0) continue;
      charge_.move(static_cast<Purpose>(from), static_cast<Purpose>(to), bytes_of(moved));
      rest[from] += moved;
      rest[to] -= moved;
    }
  }
  for (size_t index = 0; index < kPurposes; ++index) {
    const auto purpose = static_cast<Purpose>(index);
    if (rest[index] < 0) charge_.give_back(purpose, bytes_of(-rest[index]));
    if (rest[index] > 0) charge_.absorb(*promise, purpose, bytes_of(rest[index]));
  }
  if (warm_listener_ != nullptr && !was_warm && backed_bytes(Purpose::kWarm).value > 0) warm_listener_->became_warm();
}

void Segment::give_back_units(UnitRun units) {
  for (int layer = 0; layer < layers_; ++layer) port_->give_back(reservation_, range_of(layer, units));
}

// What was free or warm holds nothing that anybody may read.
void Segment::poison_unused([[maybe_unused]] TileRun run) {
#if QUIRE_CHECK_LEVEL >= 1
  if (!port_->has_memory()) return;
  for (int64_t tile = run.first; tile < run.end; ++tile) {
    if (tile_purposes_[static_cast<size_t>(tile)] < static_cast<Use>(Purpose::kWarm)) continue;
    for (int layer = 0; layer < layers_; ++layer) {
      std::byte* record = reservation_.base() + stripe_bytes_.value * layer + tile * record_.value;
      std::memset(record, 0xFF, static_cast<size_t>(record_.value));
    }
  }
#endif
}

std::string Segment::verify() const {
  std::string fault = verify_charge();
  for (int layer = 0; layer < layers_ && fault.empty(); ++layer) fault = verify_backing(layer);
  return fault;
}

// K1, from the tiles' purposes alone.
std::string Segment::verify_charge() const {
  UnitCounts counts{};
  count_units(units_of({0, max_tiles().value}), 1, counts);
  for (size_t index = 0; index < kPurposes; ++index) {
    const auto purpose = static_cast<Purpose>(index);
    if (purpose == Purpose::kPageTables) continue;
    if (backed_bytes(purpose) != bytes_of(counts[index])) {
      return fmt::format("K1: {} is charged with {} bytes, its tiles need {}\n{}", to_string(purpose), backed_bytes(purpose).value,
                         bytes_of(counts[index]).value, dump());
    }
  }
  if (page_table_bytes() != table_bytes_for(units_touched_)) return "K1: page tables are charged wrongly\n" + dump();
  if (counts[static_cast<size_t>(Purpose::kPageTables)] != 0) return "K1: a tile serves as page table\n" + dump();
  return {};
}

// K1 and K7 of one stripe, as the port sees it.
std::string Segment::verify_backing(int layer_in_group) const {
  const int64_t units = units_of({0, max_tiles().value}).end;
  for (int64_t first = 0, end = 0; first < units; first = end) {
    const bool is_free = use_of_unit(first) == kFree;
    while (end < units && (use_of_unit(end) == kFree) == is_free) ++end;
    const Bytes charged = is_free ? Bytes(0) : unit_bytes_ * (end - first);
    const Bytes backed = port_->query(reservation_, range_of(layer_in_group, {first, end}));
    if (backed == charged) continue;
    return fmt::format("{}: layer {}: {} bytes are backed in units [{}, {}), where {} are charged\n{}", is_free ? "K7" : "K1",
                       layer_in_group, backed.value, first, end, charged.value, dump());
  }
  return {};
}

std::string Segment::dump() const {
  std::string text = fmt::format("segment {} layers {} record {} tiles {} touched {} page_tables {}", name_, layers_, record_.value,
                                 max_tiles().value, units_touched_, page_table_bytes().value);
  for (int64_t first = 0, end = 0; first < max_tiles().value; first = end) {
    const std::optional<Purpose> here = purpose(TileIndex(first));
    while (end < max_tiles().value && purpose(TileIndex(end)) == here) ++end;
    if (here) text += fmt::format(" [{}, {}) {}", first, end, to_string(*here));
  }
  return text + "\n";
}

}  // namespace quire::kv
