// A segment: one virtual reservation that holds the tile records of all layers of a layer group over a run of tiles.
//
//   | stripe of layer 0: tile 0, tile 1, ... tile max-1 | stripe of layer 1: ... | ...
//
// Each stripe begins on a granule and is contiguous: the record of tile t is at base + t x stride. All stripes hold the same tiles;
// the rest is only addresses. Tiles are numbered from the segment's own beginning.
//
// Life of a tile: free -> backed for a purpose (its bytes hold anything; in checked builds 0xFF, a NaN of every float format, so
// that reading a lane that nobody wrote shows) -> other purposes -> given back: free. The reservation is released by the
// destructor.
//
//   K1  for each purpose: charge == layers x granules of that purpose x granule; all of them == what port.query says. A granule
//   that
//       holds parts of several tiles is charged to the first purpose (in Purpose's order) that one of them has
//   K7  what is not backed is never read (reading it would back it, and verify() sees that)
//
// Page tables are charged when first needed and freed with the reservation, as the kernel does. Only the owner thread calls any of
// this; between need() and commit() a helper backs ranges() at the port.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/budget.h"
#include "kv/layer_group.h"
#include "port/vm.h"

namespace quire::kv {

// What kernels read: the record of tile t of layer l (an index into LayerGroupSpec::layers) begins at
// base + l x layer_stride + t x tile_stride.
struct Stripes {
  std::byte* base = nullptr;
  int64_t layer_stride = 0;  // bytes
  int64_t tile_stride = 0;   // bytes
};

// Tiles [first, end) of a segment.
struct TileRun {
  int64_t first = 0;
  int64_t end = 0;

  [[nodiscard]] int64_t count() const { return end - first; }
  friend bool operator==(const TileRun&, const TileRun&) = default;
};

// Whoever must know where warm memory is.
class WarmListener {
 public:
  // A segment that had no warm bytes has some now.
  virtual void became_warm() = 0;

 protected:
  ~WarmListener() = default;
};

class Segment {
 public:
  // Reserves addresses for `max_tiles` > 0 tiles; nothing is backed or charged. `port` and `budget` must outlive the segment. An
  // error is the port's, with the numbers.
  [[nodiscard]] static Result<Segment> reserve(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  [[nodiscard]] TileCount max_tiles() const { return TileCount(static_cast<int64_t>(tile_purposes_.size())); }
  // Of one tile; nothing: it is free.
  [[nodiscard]] std::optional<Purpose> purpose(TileIndex tile) const;
  [[nodiscard]] Bytes backed_bytes() const;  // of tiles: without page tables
  [[nodiscard]] Bytes backed_bytes(Purpose purpose) const { return charge_.bytes(purpose); }
  [[nodiscard]] Bytes page_table_bytes() const { return charge_.bytes(Purpose::kPageTables); }

  // Bytes that must be promised before the free tiles of `run` are backed: their granules and new page tables. 0: all are backed.
  [[nodiscard]] Bytes need(TileRun run) const;
  // Appends what the port must back for them; nothing where need() is 0.
  void ranges(TileRun run, std::vector<port::VmRange>& ranges) const;
  // They are backed (by whoever called the port for ranges(run)): all tiles of `run` serve `purpose` from now on. `promise` holds
  // at least need(run).
  void commit(TileRun run, Purpose purpose, Promise& promise);
  // The port refused some of ranges(run), or nobody asked it: none of them stays backed. (Page tables that it made for them are not
  // charged.)
  void undo(TileRun run);

  // The four steps at once: all tiles of `run` or none. After kNoSpace (the budget or the port has no room) or an error the segment
  // is as it was.
  [[nodiscard]] Result<Space> back(TileRun run, Purpose purpose);

  // The tiles of `run` that are backed serve `purpose` from now on.
  void set_purpose(TileRun run, Purpose purpose);

  // All tiles of `run` are free from now on.
  void give_back(TileRun run);
  // Warm tiles become free, from the segment's end on, until `bytes` are, or all warm bytes. Answers the bytes that it freed.
  Bytes give_back_warm(Bytes bytes);

  // Who is told of warm bytes; nobody: nullptr. Must outlive the segment.
  void set_warm_listener(WarmListener* listener) { warm_listener_ = listener; }

  [[nodiscard]] Stripes stripes() const { return {reservation_.base(), stripe_bytes_.value, record_.value}; }
  [[nodiscard]] port::Vm& port() const { return *port_; }
  [[nodiscard]] const port::Reservation& reservation() const { return reservation_; }

  // Empty when K1 and K7 hold, otherwise which does not, with a dump. Asks the port about every granule: for tests and checked
  // builds.
  [[nodiscard]] std::string verify() const;

  // The state in lines that can be compared.
  [[nodiscard]] std::string dump() const;

 private:
  // A tile's or unit's purpose as a number; free comes behind all of them, so that the first purpose is the minimum.
  using Use = uint8_t;
  static constexpr Use kFree = kPurposes;

  // Units [first, end) of a stripe. A unit is what is charged as a whole: the record of a tile where it fills granules, otherwise a
  // granule.
  struct UnitRun {
    int64_t first = 0;
    int64_t end = 0;

    [[nodiscard]] int64_t count() const { return end - first; }
  };
  using UnitCounts = std::array<int64_t, kPurposes + 1>;  // of one stripe, by use

  Segment(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles, Bytes stripe_bytes,
          port::Reservation reservation);

  void check_run(TileRun run) const;
  [[nodiscard]] UnitRun units_of(TileRun run) const;
  [[nodiscard]] TileRun tiles_of_unit(int64_t unit) const;
  [[nodiscard]] Use use_of_unit(int64_t unit) const;
  [[nodiscard]] port::VmRange range_of(int layer_in_group, UnitRun units) const;
  [[nodiscard]] Bytes bytes_of(int64_t units) const { return unit_bytes_ * (units * layers_); }
  [[nodiscard]] Bytes table_bytes_for(int64_t units_touched) const;
  [[nodiscard]] Bytes new_table_bytes(int64_t units_touched) const;

  // Calls take(UnitRun) for the maximal runs of free units that `run` needs, in order.
  template <typename Take>
  void for_each_missing(TileRun run, Take take) const;
  // How far page tables are needed once `run` is backed.
  [[nodiscard]] int64_t units_touched_with(TileRun run) const;
  void count_units(UnitRun units, int64_t sign, UnitCounts& counts) const;
  // Gives the tiles of `run` another use (the free ones only with a promise) and settles the charge.
  void assign(TileRun run, Use use, Promise* promise);
  void settle(const UnitCounts& change, Promise* promise);
  void give_back_units(UnitRun units);
  void poison_unused(TileRun run);
  [[nodiscard]] std::string verify_charge() const;
  [[nodiscard]] std::string verify_backing(int layer_in_group) const;

  port::Vm* port_;
  std::string name_;
  int layers_;
  Bytes record_;
  Bytes unit_bytes_;
  Bytes stripe_bytes_;
  port::Reservation reservation_;
  std::vector<Use> tile_purposes_;
  int64_t units_touched_ = 0;  // of each stripe, from its beginning: how far page tables were ever needed
  Charge charge_;
  WarmListener* warm_listener_ = nullptr;
};

}  // namespace quire::kv
