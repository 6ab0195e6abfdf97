// The KV cache's shape, as the model sees it: which layers form a layer group, how large their tile records are, and the shape that
// the attention kernels read.
#pragma once

#include <vector>

#include "kernels/attention.h"
#include "kv/layer_group.h"
#include "model/config.h"

namespace quire::model {

// The shape of one layer's attention over records of that format.
[[nodiscard]] kernels::AttentionShape attention_shape(const ModelConfig& config, size_t layer, kernels::KvFormat format);

// The layer groups: layers with the same lifetime, that is, with the same window. In the order of their first layers.
[[nodiscard]] std::vector<kv::LayerGroupSpec> layer_groups(const ModelConfig& config, kernels::KvFormat format);

}  // namespace quire::model
