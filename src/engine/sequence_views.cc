#include "engine/sequence_views.h"

namespace quire::engine {

std::span<const std::span<const kernels::KvPiece>> SequenceViews::of(const kv::KvCache& cache, kv::SequenceId sequence,
                                                                     int layers) {
  if (const int64_t version = cache.runs_version(sequence); version != version_) {
    rebuild(cache, sequence, layers);
    version_ = version;
  }
  return layers_;
}

void SequenceViews::rebuild(const kv::KvCache& cache, kv::SequenceId sequence, int layers) {
  size_t pieces = 0;
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    pieces += cache.groups()[group].layers.size() * cache.runs(sequence, group).size();
  }
  pieces_.clear();
  pieces_.reserve(pieces);  // the spans stay where they are
  layers_.assign(static_cast<size_t>(layers), {});
  for (size_t group = 0; group < cache.groups().size(); ++group) {
    const std::span<const kv::Run> runs = cache.runs(sequence, group);
    const std::vector<int>& group_layers = cache.groups()[group].layers;
    for (size_t index = 0; index < group_layers.size(); ++index) {
      const size_t first = pieces_.size();
      for (const kv::Run& run : runs) {
        pieces_.push_back({.base = run.base + static_cast<int64_t>(index) * run.layer_stride,
                           .tile_stride = run.tile_stride,
                           .first_tile = run.first_tile.value,
                           .tiles = run.tiles.value});
      }
      layers_[static_cast<size_t>(group_layers[index])] = std::span(pieces_).subspan(first);
    }
  }
}

}  // namespace quire::engine
