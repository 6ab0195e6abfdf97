#include "kv/sequence_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace quire::kv {

Result<SequenceMemory> SequenceMemory::create(port::Vm& port, Budget& budget, std::span<const LayerGroupSpec> groups,
                                              TokenCount max_tokens, TileCount backing_quantum) {
  QUIRE_CHECK(max_tokens.value > 0 && backing_quantum.value >= 1);
  SequenceMemory memory(budget, groups, max_tokens, backing_quantum);
  for (const LayerGroupSpec& group : groups) {
    QUIRE_TRY(Segment segment, Segment::reserve(port, budget, group, tiles_for(max_tokens)));
    memory.segments_.push_back(std::move(segment));
  }
  return memory;
}

SequenceMemory::SequenceMemory(Budget& budget, std::span<const LayerGroupSpec> groups, TokenCount max_tokens,
                               TileCount backing_quantum)
    : budget_(&budget), groups_(groups.begin(), groups.end()), max_tokens_(max_tokens), backing_quantum_(backing_quantum) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    const std::vector<int>& layers = groups_[group].layers;
    for (size_t index = 0; index < layers.size(); ++index) {
      const auto layer = static_cast<size_t>(layers[index]);
      QUIRE_CHECK(layers[index] >= 0);
      if (places_.size() <= layer) places_.resize(layer + 1);
      QUIRE_CHECK(places_[layer].group < 0, fmt::format("layer {} is in two groups", layer));
      places_[layer] = {static_cast<int>(group), static_cast<int>(index)};
    }
  }
}

Result<Space> SequenceMemory::prepare(TokenCount next_length) {
  QUIRE_CHECK(next_length <= max_tokens_, fmt::format("{} tokens of {}", next_length.value, max_tokens_.value));
  const TileCount tiles = tiles_for(next_length);
  std::vector<TileCount> ends_before;
  for (Segment& segment : segments_) {
    ends_before.push_back(segment.end_tile());
    const Result<Space> space = back_group(segment, tiles);
    if (space.ok() && *space == Space::kOk) continue;
    for (size_t group = 0; group < ends_before.size(); ++group) segments_[group].give_back_from(ends_before[group]);
    return space;
  }
  return Space::kOk;
}

Result<Space> SequenceMemory::back_group(Segment& segment, TileCount tiles) const {
  if (tiles <= segment.end_tile()) return Space::kOk;
  const TileCount ahead = std::min(TileCount(round_up(tiles.value, backing_quantum_.value)), segment.max_tiles());
  Result<Space> space = segment.back(ahead);
  if (space.ok() && *space == Space::kNoSpace && ahead > tiles) return segment.back(tiles);
  return space;
}

void SequenceMemory::trim(TokenCount length) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    segments_[group].give_back_before(std::min(first_tile_needed(groups_[group], length), TileIndex(tiles_for(length).value)));
  }
}

const SequenceMemory::Place& SequenceMemory::place_of(int layer) const {
  QUIRE_CHECK(layer >= 0 && layer < static_cast<int>(places_.size()) && places_[static_cast<size_t>(layer)].group >= 0,
              fmt::format("layer {} has no KV", layer));
  return places_[static_cast<size_t>(layer)];
}

Stripe SequenceMemory::stripe(int layer) const {
  const Place& place = place_of(layer);
  return segments_[static_cast<size_t>(place.group)].stripe(place.layer_in_group);
}

TileIndex SequenceMemory::first_tile(int layer) const { return segments_[static_cast<size_t>(place_of(layer).group)].first_tile(); }

Bytes SequenceMemory::backed_bytes() const {
  Bytes sum;
  for (const Segment& segment : segments_) sum += segment.backed_bytes();
  return sum;
}

Bytes SequenceMemory::page_table_bytes() const {
  Bytes sum;
  for (const Segment& segment : segments_) sum += segment.page_table_bytes();
  return sum;
}

Bytes SequenceMemory::used_bytes(TokenCount length) const {
  Bytes sum;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const int64_t held = std::min(length.value, segments_[group].end_tile().value * kTileTokens);
    const int64_t tokens = held - segments_[group].first_tile().value * kTileTokens;
    sum += bytes_per_token(groups_[group]) * std::max<int64_t>(0, tokens);
  }
  return sum;
}

std::string SequenceMemory::verify() const {
  for (const Segment& segment : segments_) {
    if (std::string broken = segment.verify(); !broken.empty()) return broken;
  }
  return budget_->verify();
}

std::string SequenceMemory::dump() const {
  std::string text = fmt::format("sequence max_tokens {} backing_quantum {}\n", max_tokens_.value, backing_quantum_.value);
  for (const Segment& segment : segments_) text += segment.dump();
  return text;
}

}  // namespace quire::kv
