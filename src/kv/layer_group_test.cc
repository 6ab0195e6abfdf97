#include "kv/layer_group.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire::kv {
namespace {

LayerGroupSpec group_of(int layers, int64_t record, std::optional<int64_t> window = {}) {
  LayerGroupSpec group{
      .name = "g", .layers = std::vector<int>(static_cast<size_t>(layers)), .tile_record = Bytes(record), .window = window};
  std::iota(group.layers.begin(), group.layers.end(), 0);
  return group;
}

constexpr Bytes kPage{4096};

TEST(LayerGroup, SizesOfAModelWithThirtyLayersAndThreeKvHeadsOf64) {
  // 3 heads x 64 dimensions x 32 positions x 2 (K and V) x 2 bytes.
  const LayerGroupSpec group = group_of(30, 3 * 64 * 32 * 2 * 2);
  EXPECT_EQ(group.tile_record, Bytes(24 * 1024));
  EXPECT_EQ(tile_bytes(group), Bytes(720 * 1024));
  EXPECT_EQ(bytes_per_token(group), Bytes(23040));  // 22.5 KiB
  EXPECT_EQ(bytes_needed(group, TokenCount(0), kPage), Bytes(0));
  EXPECT_EQ(bytes_needed(group, TokenCount(1), kPage), Bytes(720 * 1024));
  EXPECT_EQ(bytes_needed(group, TokenCount(32), kPage), Bytes(720 * 1024));
  EXPECT_EQ(bytes_needed(group, TokenCount(33), kPage), Bytes(2 * 720 * 1024));
  EXPECT_EQ(bytes_needed(group, TokenCount(8192), kPage), Bytes(256 * 720 * 1024));
}

TEST(LayerGroup, RecordsThatDoNotFillGranulesShareThem) {
  const LayerGroupSpec group = group_of(2, 1536);
  EXPECT_EQ(bytes_needed(group, TokenCount(32), kPage), Bytes(2 * 4096));
  EXPECT_EQ(bytes_needed(group, TokenCount(64), kPage), Bytes(2 * 4096));
  EXPECT_EQ(bytes_needed(group, TokenCount(96), kPage), Bytes(2 * 2 * 4096));
  EXPECT_EQ(granules_of_tiles(Bytes(1536), kPage, TileIndex(2), TileCount(3)), (GranuleRun{0, 2}));
  EXPECT_EQ(granules_of_tiles(Bytes(1536), kPage, TileIndex(3), TileCount(5)), (GranuleRun{1, 2}));
  EXPECT_EQ(granules_of_tiles(Bytes(1536), kPage, TileIndex(3), TileCount(3)), (GranuleRun{0, 0}));
  EXPECT_EQ(granules_of_tiles(Bytes(4096 * 6), kPage, TileIndex(2), TileCount(3)), (GranuleRun{12, 18}));
}

// By definition, not by formula: a tile is needed when some query at `length` or later sees one of its positions.
TEST(LayerGroup, AWindowNeedsTheTilesThatLaterQueriesSee) {
  for (const int64_t window : {1, 2, 31, 32, 33, 64, 100}) {
    const LayerGroupSpec group = group_of(1, 4096, window);
    for (int64_t length = 0; length < 300; ++length) {
      int64_t first_position = length;  // the first query at or after `length` sees the most
      while (first_position > 0 && first_position - 1 >= length - window + 1) --first_position;
      EXPECT_EQ(first_tile_needed(group, TokenCount(length)).value, first_position / 32)
          << "window " << window << " length " << length;
      const int64_t end = (length + 31) / 32;
      EXPECT_EQ(tiles_needed(group, TokenCount(length)).value, std::max<int64_t>(0, end - first_position / 32));
    }
  }
}

TEST(LayerGroup, AWindowBoundsTheBytes) {
  const LayerGroupSpec group = group_of(15, 32 * 1024, 512);
  int64_t most = 0;
  for (int64_t length = 0; length < 5000; ++length) most = std::max(most, bytes_needed(group, TokenCount(length), kPage).value);
  EXPECT_EQ(most, 17 * tile_bytes(group).value) << "the window's tiles and one that it half covers";
}

TEST(LayerGroup, GroupsAddUp) {
  const std::vector<LayerGroupSpec> groups = {group_of(3, 32 * 1024), group_of(15, 32 * 1024, 512)};
  EXPECT_EQ(bytes_needed(groups, TokenCount(20'000), kPage), Bytes(3 * 625 * 32 * 1024 + 15 * 16 * 32 * 1024));
}

TEST(LayerGroup, AbsurdShapesSaturate) {
  const LayerGroupSpec group = group_of(1000, INT64_C(1) << 60);
  EXPECT_EQ(tile_bytes(group), Bytes(INT64_MAX));
  EXPECT_EQ(bytes_needed(group, TokenCount(INT64_MAX / 2), kPage), Bytes(INT64_MAX));
  EXPECT_EQ(bytes_needed(std::vector{group, group}, TokenCount(64), kPage), Bytes(INT64_MAX));
  EXPECT_EQ(saturating_product(INT64_C(1) << 31, INT64_C(1) << 31), INT64_C(1) << 62);
  EXPECT_EQ(saturating_product(INT64_C(1) << 32, INT64_C(1) << 31), INT64_MAX);
}

}  // namespace
}  // namespace quire::kv
