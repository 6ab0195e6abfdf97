// A segment: one virtual reservation that holds the tile records of all layers of a layer group over a run of tiles.
//
//   | stripe of layer 0: tile 0, tile 1, ... tile max-1 | stripe of layer 1: ... | ...
//
// Each stripe begins on a granule and is contiguous: the record of tile t is at base + t x stride. All stripes hold the same tiles
// [first_tile, end_tile); the rest is only addresses.
//
// States of a tile: reserved -> backed (back; its bytes are zero, in checked builds 0xFF, a NaN of every float format, so that
// reading a lane that nobody wrote shows) -> given back (what lies before a window, or what was backed for a step that did not
// happen). The reservation is released by the destructor.
//
//   K1  charge(live)  == layers x granules of [first_tile, end_tile) x granule == what port.query says
//   K7  0 <= first_tile <= end_tile <= max_tiles; what is not backed is never read (reading it would back it, and verify() sees
//   that)
//
// A granule with parts of several tiles is charged with its first and freed with its last. Page tables are charged when first used
// and freed with the reservation, as the kernel does. Only the owner thread calls any of this.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "kv/budget.h"
#include "kv/layer_group.h"
#include "port/vm.h"

namespace quire::kv {

// What kernels read: the record of tile t of one layer begins at base + t x tile_stride.
struct Stripe {
  std::byte* base = nullptr;
  int64_t tile_stride = 0;  // bytes
};

class Segment {
 public:
  // Reserves addresses for `max_tiles` > 0 tiles; nothing is backed or charged. `port` and `budget` must outlive the segment. An
  // error is the port's, with the numbers.
  [[nodiscard]] static Result<Segment> reserve(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles);

  Segment(Segment&& other) = default;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment() { release(); }

  [[nodiscard]] TileIndex first_tile() const { return first_; }
  // One past the last backed tile, counted from tile 0 of the segment.
  [[nodiscard]] TileCount end_tile() const { return end_; }
  [[nodiscard]] TileCount max_tiles() const { return max_tiles_; }
  [[nodiscard]] Bytes backed_bytes() const { return live_.bytes(); }
  [[nodiscard]] Bytes page_table_bytes() const { return tables_.bytes(); }

  // Backs the tiles up to `end` <= max_tiles, all of them or none: after kNoSpace (the budget or the port has no room) or an error
  // the segment is as it was. Nothing happens when they are backed already.
  [[nodiscard]] Result<Space> back(TileCount end);

  // Gives back all tiles before `tile`. At most end_tile; nothing happens when they are gone already.
  void give_back_before(TileIndex tile);

  // Gives back all tiles from `end` on. At least first_tile; nothing happens when there are none.
  void give_back_from(TileCount end);

  // The stripe of the group's layer number `layer_in_group` (an index into LayerGroupSpec::layers).
  [[nodiscard]] Stripe stripe(int layer_in_group) const;

  // Empty when K1 and K7 hold, otherwise which does not, with a dump. Asks the port about every granule: for tests and checked
  // builds.
  [[nodiscard]] std::string verify() const;

  // The state in lines that can be compared.
  [[nodiscard]] std::string dump() const;

 private:
  Segment(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles, Bytes stripe_bytes,
          port::Reservation reservation);

  [[nodiscard]] GranuleRun held_granules() const { return granules_of_tiles(record_, port_->granule(), first_, end_); }
  [[nodiscard]] port::VmRange range_of(int layer_in_group, GranuleRun run) const;
  [[nodiscard]] Bytes table_bytes_for(int64_t granules_touched) const;
  [[nodiscard]] Result<Space> back_granules(GranuleRun run);
  void give_back_granules(GranuleRun run, int layers);
  void poison_tiles(TileCount begin, TileCount end);
  void release();

  port::Vm* port_;
  std::string name_;
  int layers_;
  Bytes record_;
  TileCount max_tiles_;
  Bytes stripe_bytes_;
  port::Reservation reservation_;
  TileIndex first_;
  TileCount end_;
  int64_t granules_touched_ = 0;  // of each stripe, from its beginning: how far page tables were ever needed
  Charge live_;
  Charge tables_;
};

}  // namespace quire::kv
