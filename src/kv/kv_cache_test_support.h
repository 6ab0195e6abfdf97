// What tests of the cache share: texts, layer groups, and lanes that are written as a forward pass would write them, each with a
// fingerprint of all tokens up to its own. Whatever is freed, aliased or copied wrongly shows as a wrong fingerprint.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kv/kv_cache.h"

namespace quire::kv {

using Tokens = std::vector<TokenId>;

// `count` tokens that no text of another number has.
inline Tokens text(int number, int64_t count) {
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(number * 1'000'000 + static_cast<TokenId>(i));
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Tokens slice(const Tokens& tokens, int64_t begin, int64_t end) { return {tokens.begin() + begin, tokens.begin() + end}; }
inline Tokens first(const Tokens& tokens, int64_t count) { return {tokens.begin(), tokens.begin() + count}; }

inline LayerGroupSpec full_group(int layers, int64_t record) {
  LayerGroupSpec group{.name = "full", .layers = {}, .tile_record = Bytes(record), .window = {}};
  for (int layer = 0; layer < layers; ++layer) group.layers.push_back(layer);
  return group;
}

inline LayerGroupSpec window_group(int layer, int64_t record, int64_t positions) {
  return {.name = "window", .layers = {layer}, .tile_record = Bytes(record), .window = positions};
}

inline uint64_t fingerprint(std::span<const TokenId> tokens) {
  uint64_t hash = 1469598103934665603ULL;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<uint64_t>(token + 1)) * 1099511628211ULL;
  return hash;
}

// Eight bytes of a tile record; null where no run has the position.
inline std::byte* lane(const KvCache& cache, SequenceId id, size_t group, size_t layer, int64_t position) {
  const int64_t tile = position / kTileTokens;
  for (const Run& run : cache.runs(id, group)) {
    if (tile < run.first_tile.value || tile >= run.first_tile.value + run.tiles.value) continue;
    const int64_t tile_offset = (tile - run.first_tile.value) * run.tile_stride;
    return run.base + static_cast<int64_t>(layer) * run.layer_stride + tile_offset + position % kTileTokens * 8;
  }
  return nullptr;
}

// Writes the last token of `held`, in all groups and layers.
inline void write_lane(const KvCache& cache, std::span<const LayerGroupSpec> groups, SequenceId id, std::span<const TokenId> held) {
  const uint64_t value = fingerprint(held);
  for (size_t group = 0; group < groups.size(); ++group) {
    for (size_t layer = 0; layer < groups[group].layers.size(); ++layer) {
      const uint64_t own = value + group * 1000 + layer;
      std::byte* place = lane(cache, id, group, layer, static_cast<int64_t>(held.size()) - 1);
      ASSERT_NE(place, nullptr) << "no run has position " << held.size() - 1;
      std::memcpy(place, &own, sizeof(own));
    }
  }
}

// Empty when the lane at `position` of all the group's layers is that of a sequence that holds `held`.
inline std::string lane_fault(const KvCache& cache, std::span<const LayerGroupSpec> groups, SequenceId id, size_t group,
                              std::span<const TokenId> held, int64_t position) {
  const uint64_t value = fingerprint(held.first(static_cast<size_t>(position) + 1));
  for (size_t layer = 0; layer < groups[group].layers.size(); ++layer) {
    const std::byte* place = lane(cache, id, group, layer, position);
    if (place == nullptr) return fmt::format("group {}: no run has position {}", group, position);
    uint64_t found = 0;
    std::memcpy(&found, place, sizeof(found));
    if (found != value + group * 1000 + layer) {
      return fmt::format("group {} layer {}: a foreign lane at position {} of {}", group, layer, position, held.size());
    }
  }
  return {};
}

}  // namespace quire::kv
