// What a model is, read from a file's metadata: the numbers and switches that the forward pass follows.
//
// Architectures are data: a table (architecture.h) says which keys each one has, which of them change the computation and how its
// layers differ from the plain one. A file whose metadata or tensors are not covered by its table is refused, never run wrongly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "kernels/elementwise.h"

namespace quire::model {

// How positions become angles: angle(position, i) = position / position_divisor * base^(-2i / dims) / frequency_factor[i].
// (Su et al., RoFormer, 2021; frequency factors as in Llama 3.1: tensor rope_freqs.weight.)
struct RopeConfig {
  double base = 10000;
  double position_divisor = 1;  // linear scaling

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct LayerConfig {
  int64_t window = 0;  // a query at position p sees (p - window, p]; 0 = everything up to p
  RopeConfig rope;
};

struct ModelConfig {
  std::string architecture;  // "llama", "gemma3"
  std::string name;          // for people; may be empty
  int64_t context_length = 0;
  int embedding = 0;     // width of the residual stream
  int feed_forward = 0;  // width of the gated hidden layer
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;  // outputs of the last product
  float rms_epsilon = 0;
  float embedding_scale = 1;  // token embeddings are multiplied by it
  float attention_scale = 0;  // queries are multiplied by it
  int rope_dims = 0;          // rotated values of each head
  kernels::RopePairs rope_pairs = kernels::RopePairs::kAdjacent;
  kernels::Gate gate = kernels::Gate::kSilu;
  bool qk_norm = false;       // RMS norm of each query and key head before RoPE
  bool post_norms = false;    // RMS norm of the attention's and the feed-forward's output before it is added
  bool rope_factors = false;  // the file has frequency factors (llama)
  bool tied_output = false;   // the output matrix is the token embedding
  std::vector<LayerConfig> layers;
};

// Reads the configuration and checks that every key of the architecture is one that Quire understands and that the values make
// sense together. Errors name the key, its value and what is supported.
[[nodiscard]] Result<ModelConfig> read_config(const gguf::File& file);

}  // namespace quire::model
