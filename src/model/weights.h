// The weights of a model in memory, packed for the kernels.
//
// Life: the tensors of the file are matched against the configuration (every tensor must be known and of the right shape), one
// region of anonymous memory is taken for all of them, and each tensor is packed into it by all threads, after which the file's
// pages are given back. So memory holds the weights once, plus one tensor of the file at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "gguf/gguf.h"
#include "kernels/products.h"
#include "model/config.h"
#include "port/file.h"
#include "port/memory.h"
#include "port/threads.h"

namespace quire::model {

using Vector = std::span<const float>;

struct LayerWeights {
  Vector attention_norm;                   // [embedding]
  Vector q_norm;                           // [head_dim], with qk_norm
  Vector k_norm;                           // [head_dim], with qk_norm
  Vector post_attention_norm;              // [embedding], with post_norms
  Vector feed_forward_norm;                // [embedding]
  Vector post_feed_forward_norm;           // [embedding], with post_norms
  kernels::PackedMatrix q;                 // heads * head_dim outputs
  kernels::PackedMatrix k;                 // kv_heads * head_dim
  kernels::PackedMatrix v;                 // kv_heads * head_dim
  kernels::PackedMatrix attention_output;  // embedding
  kernels::PackedMatrix gate;              // feed_forward
  kernels::PackedMatrix up;                // feed_forward
  kernels::PackedMatrix down;              // embedding
};

// Called on the loading thread after each tensor: bytes of the file packed so far, and of all tensors.
using LoadProgress = std::function<void(Bytes done, Bytes total)>;

class Weights {
 public:
  // Packs the tensors of `file`, which must be the content of `mapping`.
  [[nodiscard]] static Result<std::unique_ptr<const Weights>> load(const gguf::File& file, const port::MappedFile& mapping,
                                                                   const ModelConfig& config, port::ThreadTeam& team,
                                                                   const LoadProgress& progress);

  // Checks that the file has exactly the tensors that the configuration needs, in their shapes, without packing anything; returns
  // the bytes that load() would take.
  [[nodiscard]] static Result<Bytes> check(const gguf::File& file, const ModelConfig& config);

  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  kernels::PackedMatrix embedding;  // vocabulary outputs: row t is the embedding of token t
  kernels::PackedMatrix output;     // vocabulary outputs; the embedding when the model ties them
  Vector output_norm;               // [embedding]
  Vector rope_factors;              // [rope_dims / 2], or empty
  std::vector<LayerWeights> layers;

  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  friend class WeightPlan;
  Weights() = default;

  Bytes bytes_;
  port::AnonymousMemory memory_;
};

}  // namespace quire::model
