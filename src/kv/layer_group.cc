#include "kv/layer_group.h"

#include <algorithm>

namespace quire::kv {

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

Bytes tile_bytes(const LayerGroupSpec& group) {
  return Bytes(saturating_product(group.tile_record.value, static_cast<int64_t>(group.layers.size())));
}

Bytes bytes_per_token(const LayerGroupSpec& group) {
  const int64_t bytes = tile_bytes(group).value;
  return Bytes(bytes / kTileTokens + (bytes % kTileTokens != 0 ? 1 : 0));
}

TileIndex first_tile_needed(const LayerGroupSpec& group, TokenCount length) {
  if (!group.window) return TileIndex(0);
  return TileIndex(std::max<int64_t>(0, length.value - *group.window + 1) / kTileTokens);
}

TileCount tiles_needed(const LayerGroupSpec& group, TokenCount length) {
  // A query just behind a tile's end may need no tile at all (a window of one position).
  return TileCount(std::max<int64_t>(0, tiles_for(length).value - first_tile_needed(group, length).value));
}

Bytes bytes_needed(const LayerGroupSpec& group, TokenCount length, Bytes granule) {
  const TileIndex first = first_tile_needed(group, length);
  const TileCount end(first.value + tiles_needed(group, length).value);
  if (saturating_product(group.tile_record.value, end.value) > INT64_MAX - granule.value) return Bytes(INT64_MAX);
  const int64_t granules = granules_of_tiles(group.tile_record, granule, first, end).count();
  return Bytes(saturating_product(granules * granule.value, static_cast<int64_t>(group.layers.size())));
}

Bytes bytes_needed(std::span<const LayerGroupSpec> groups, TokenCount length, Bytes granule) {
  Bytes total;
  for (const LayerGroupSpec& group : groups) {
    const Bytes bytes = bytes_needed(group, length, granule);
    if (bytes.value > INT64_MAX - total.value) return Bytes(INT64_MAX);
    total += bytes;
  }
  return total;
}

GranuleRun granules_of_tiles(Bytes tile_record, Bytes granule, TileIndex first, TileCount end) {
  if (first.value >= end.value) return {};
  return {.first = first.value * tile_record.value / granule.value, .end = ceil_div(end.value * tile_record.value, granule.value)};
}

}  // namespace quire::kv
