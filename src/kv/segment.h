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
//   K1  for each purpose: charge == layers x granules of that purpose x granule; all of them == what port.query says. A granule that
//       holds parts of several tiles is charged to the first purpose (in Purpose's order) that one of them has
//   K7  what is not backed is never read (reading it would back it, and verify() sees that)
//
// Page tables are charged when first needed and freed with the reservation, as the kernel does. Only the owner thread calls any of
// this; between need() and commit() a helper backs ranges() at the port.
#pragma once

#include <cstddef>
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

class Segment {
 public:
  // Reserves addresses for `max_tiles` > 0 tiles; nothing is backed or charged. `port` and `budget` must outlive the segment. An
  // error is the port's, with the numbers.
  [[nodiscard]] static Result<Segment> reserve(port::Vm& port, Budget& budget, const LayerGroupSpec& group, TileCount max_tiles);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  [[nodiscard]] TileCount max_tiles() const;
  // Of one tile; nothing: it is free.
  [[nodiscard]] std::optional<Purpose> purpose(TileIndex tile) const;
  [[nodiscard]] Bytes backed_bytes() const;  // of tiles: without page tables
  [[nodiscard]] Bytes backed_bytes(Purpose purpose) const;
  [[nodiscard]] Bytes page_table_bytes() const;

  // Bytes that must be promised before the free tiles of `run` are backed: their granules and new page tables. 0: all are backed.
  [[nodiscard]] Bytes need(TileRun run) const;
  // Appends what the port must back for them; nothing where need() is 0.
  void ranges(TileRun run, std::vector<port::VmRange>& ranges) const;
  // They are backed: all tiles of `run` serve `purpose` from now on. `promise` holds at least need(run).
  void commit(TileRun run, Purpose purpose, Promise& promise);
  // The port refused some of ranges(run): none of them stays backed.
  void undo(TileRun run);

  // The four steps at once: all tiles of `run` or none. After kNoSpace (the budget or the port has no room) or an error the segment
  // is as it was.
  [[nodiscard]] Result<Space> back(TileRun run, Purpose purpose);

  // The tiles of `run` that are backed serve `purpose` from now on.
  void set_purpose(TileRun run, Purpose purpose);

  // All tiles of `run` are free from now on.
  void give_back(TileRun run);

  [[nodiscard]] Stripes stripes() const;
  [[nodiscard]] port::Vm& port() const;
  [[nodiscard]] const port::Reservation& reservation() const;

  // Empty when K1 and K7 hold, otherwise which does not, with a dump. Asks the port about every granule: for tests and checked
  // builds.
  [[nodiscard]] std::string verify() const;

  // The state in lines that can be compared.
  [[nodiscard]] std::string dump() const;
};

}  // namespace quire::kv
