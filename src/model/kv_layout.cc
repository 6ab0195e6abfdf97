#include "model/kv_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace quire::model {

kernels::AttentionShape attention_shape(const ModelConfig& config, size_t layer, kernels::KvFormat format) {
  return {.heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .format = format,
          .scale = config.attention_scale,
          .window = config.layers[layer].window};
}

std::vector<kv::LayerGroupSpec> layer_groups(const ModelConfig& config, kernels::KvFormat format) {
  std::vector<kv::LayerGroupSpec> groups;
  std::vector<int64_t> windows;
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    const int64_t window = config.layers[layer].window;
    const auto known = std::find(windows.begin(), windows.end(), window);
    if (known == windows.end()) {
      windows.push_back(window);
      groups.push_back(
          {.name = window == 0 ? "full" : fmt::format("window {}", window),
           .layers = {},
           .tile_record = Bytes(static_cast<int64_t>(kernels::tile_record_bytes(attention_shape(config, layer, format)))),
           .window = window == 0 ? std::nullopt : std::optional<int64_t>(window)});
      groups.back().layers.push_back(static_cast<int>(layer));
      continue;
    }
    groups[static_cast<size_t>(known - windows.begin())].layers.push_back(static_cast<int>(layer));
  }
  return groups;
}

}  // namespace quire::model
