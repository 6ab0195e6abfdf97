// The table of architectures: which metadata keys each has, and the switches that make its layers.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "model/config.h"

namespace quire::model {

// What Quire does with a key "<architecture>.<name>".
enum class KeyUse {
  kRead,      // read by read_config
  kHarmless,  // describes, and changes nothing in the computation
  kMustBeOff  // a feature that Quire does not compute: allowed only as 0, false, "" or an empty array
};

struct KeyRule {
  std::string_view name;  // without the architecture's prefix
  KeyUse use;
};

struct Architecture {
  std::string_view name;
  std::span<const KeyRule> keys;  // beside those that all architectures have
  kernels::RopePairs rope_pairs;
  kernels::Gate gate;
  bool qk_norm;
  bool post_norms;
  bool frequency_factors;  // may have the tensor rope_freqs.weight
  double default_rope_base;
  // Fills in what differs from the plain model: windows, RoPE bases, scales. Runs after the common keys were read.
  Status (*specialize)(const gguf::File& file, ModelConfig& config);

  // The rule for a key (without the prefix), or null for one that Quire does not know.
  [[nodiscard]] const KeyRule* rule_for(std::string_view key) const;
};

// The architecture of that name, or an error that lists the supported ones.
[[nodiscard]] Result<const Architecture*> find_architecture(std::string_view name);

}  // namespace quire::model
