// Layer groups: layers whose KV has the same shape and lifetime, as numbers of bytes. And the arithmetic of their memory, one for
// the allocator, the planner and `quire inspect`.
//
// Products of sizes that do not fit 63 bits saturate at INT64_MAX, so that an absurd shape from a file compares as "never fits".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace quire::kv {

struct LayerGroupSpec {
  std::string name;         // "full", "window": for tables and dumps
  std::vector<int> layers;  // the model's layer indices, ascending, at least one
  Bytes tile_record;        // > 0: K and V of one layer, all KV heads, over one tile (32 positions)
  // Positions that a query sees, its own included: the query at p sees [p - window + 1, p]. Nothing: all of [0, p].
  std::optional<int64_t> window;
};

// All layers of the group, one tile.
[[nodiscard]] Bytes tile_bytes(const LayerGroupSpec& group);

// All layers of the group, one token (rounded up where a record has padding).
[[nodiscard]] Bytes bytes_per_token(const LayerGroupSpec& group);

// The first tile that any query at a position >= `length` sees. The tiles before it are of no use to a sequence that has `length`
// tokens, all of them computed.
[[nodiscard]] TileIndex first_tile_needed(const LayerGroupSpec& group, TokenCount length);

// Tiles that a sequence of `length` tokens needs: [first_tile_needed, tiles_for(length)).
[[nodiscard]] TileCount tiles_needed(const LayerGroupSpec& group, TokenCount length);

// Physical bytes that a sequence of `length` tokens holds in the group when its memory comes in granules.
[[nodiscard]] Bytes bytes_needed(const LayerGroupSpec& group, TokenCount length, Bytes granule);

// The same over all groups.
[[nodiscard]] Bytes bytes_needed(std::span<const LayerGroupSpec> groups, TokenCount length, Bytes granule);

// Granules [first, end) of a stripe.
struct GranuleRun {
  int64_t first = 0;
  int64_t end = 0;

  [[nodiscard]] int64_t count() const { return end - first; }
  friend bool operator==(const GranuleRun&, const GranuleRun&) = default;
};

// Which granules of a stripe hold the records of the tiles [first, end). Records that do not fill granules share them: a granule
// belongs to the run as long as one of its tiles does. No tiles, no granules.
[[nodiscard]] GranuleRun granules_of_tiles(Bytes tile_record, Bytes granule, TileIndex first, TileCount end);

// a x b for sizes >= 0, INT64_MAX where it does not fit.
[[nodiscard]] int64_t saturating_product(int64_t a, int64_t b);

}  // namespace quire::kv
