// What admission counts on: growth_bytes() and Match::pinned are enough, to the byte of the limit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kv/kv_cache_test_support.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  // In [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

// Records fill granules in half of the runs.
std::vector<LayerGroupSpec> any_groups(Draw& draw, int64_t granule) {
  const int64_t unit = draw.between(0, 1) == 0 ? granule : 64;
  std::vector<LayerGroupSpec> groups;
  const int64_t count = draw.between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    LayerGroupSpec group = full_group(static_cast<int>(draw.between(1, 6)), unit * draw.between(1, 4480 / unit));
    if (draw.between(0, 2) == 0) group.window = draw.between(1, 300);
    groups.push_back(group);
  }
  return groups;
}

// In steps of at most `step` tokens. False: there was no room.
bool grow_to(KvCache& cache, SequenceId id, const Tokens& tokens, int64_t step) {
  const auto end = static_cast<int64_t>(tokens.size());
  for (int64_t length = cache.length(id).value; length < end;) {
    const int64_t next = std::min(length + step, end);
    const Growth growth{.sequence = id, .length = TokenCount(next)};
    const Result<Room> room = cache.prepare(std::span(&growth, 1));
    if (!room.ok() || room->space == Space::kNoSpace) return false;
    cache.append(id, std::span(tokens).subspan(static_cast<size_t>(length), static_cast<size_t>(next - length)));
    length = next;
  }
  return true;
}

class KvCacheGrowth : public ::testing::TestWithParam<int64_t> {};  // bytes of a granule

TEST_P(KvCacheGrowth, IsEnoughForASequenceAlone) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    port::SimVm vm({.granule = Bytes(GetParam())});
    const TileCount largest(draw.between(0, 2) == 0 ? draw.between(1, 8) : INT64_MAX);
    KvCache cache(vm, any_groups(draw, GetParam()), {.limit = Bytes(0), .segments = {.largest = largest}});
    const Tokens tokens = text(1, draw.between(1, 1500));
    const int64_t step = draw.between(1, 200);
    const TokenCount end(static_cast<int64_t>(tokens.size()));
    cache.set_limit(cache.growth_bytes(TokenCount(0), end, TokenCount(step)));
    const auto id = cache.open("", tokens, end);
    ASSERT_TRUE(id.ok() && *id);
    EXPECT_TRUE(grow_to(cache, **id, tokens, step));
    cache.close(**id, KvCache::Keep::kDrop);
  }
}

TEST_P(KvCacheGrowth, IsEnoughBehindAHit) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    port::SimVm vm({.granule = Bytes(GetParam())});
    const TileCount largest(draw.between(0, 2) == 0 ? draw.between(1, 8) : INT64_MAX);
    KvCache cache(vm, any_groups(draw, GetParam()), {.limit = Bytes(INT64_MAX), .segments = {.largest = largest}});
    const Tokens old = text(1, draw.between(1, 700));
    const auto before = cache.open("", old, TokenCount(static_cast<int64_t>(old.size()) + draw.between(0, 100)));
    ASSERT_TRUE(before.ok() && *before && grow_to(cache, **before, old, 64));
    cache.close(**before, KvCache::Keep::kCache);
    const Tokens tokens = first(old, draw.between(1, static_cast<int64_t>(old.size()))) + text(2, draw.between(1, 700));
    const TokenCount end(static_cast<int64_t>(tokens.size()));
    const int64_t step = draw.between(1, 200);
    const Match match = cache.match("", tokens);
    // Joining what is known already leaves granules that two sets need a part of.
    const auto fills = [&](const LayerGroupSpec& group) { return group.tile_record.value % GetParam() == 0; };
    const bool joins = match.known.value / kTileTokens > match.reusable.value / kTileTokens;
    if (joins && !std::all_of(cache.groups().begin(), cache.groups().end(), fills)) continue;
    const Usage usage = cache.usage();
    cache.set_limit(usage.backed - usage.evictable + match.pinned + cache.growth_bytes(match.reusable, end, TokenCount(step)));
    const auto id = cache.open("", tokens, end);
    ASSERT_TRUE(id.ok() && *id);
    EXPECT_TRUE(grow_to(cache, **id, tokens, step));
    cache.close(**id, KvCache::Keep::kDrop);
  }
}

// The tile of the last tokens has room for more: no byte is asked for.
TEST_P(KvCacheGrowth, IsNothingInsideATile) {
  port::SimVm vm({.granule = Bytes(GetParam())});
  KvCache cache(vm, {full_group(2, 4096), window_group(2, 4096, 100)}, {.limit = Bytes(1 << 20)});
  for (int64_t from = 1; from <= 64; ++from) {
    for (int64_t to = from; to <= 130; ++to) {
      const bool new_tiles = ceil_div(to, kTileTokens) > ceil_div(from, kTileTokens);
      EXPECT_EQ(cache.growth_bytes(TokenCount(from), TokenCount(to), TokenCount(1)).value > 0, new_tiles) << from << " to " << to;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Granules, KvCacheGrowth, ::testing::Values(64, 512, 4096));

}  // namespace
}  // namespace quire::kv
