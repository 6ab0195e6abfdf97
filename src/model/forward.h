// The forward pass: tokens in, hidden states and logits out, keys and values stored on the way.
//
// A pass takes chunks of one or more sequences, any number of tokens each; their rows are computed together, and every row's bits
// are those that it would have alone (docs/arithmetic.md). All threads of a team walk through the layers together and meet at
// barriers between the steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/attention_plan.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/weights.h"
#include "port/memory.h"
#include "port/threads.h"

namespace quire::model {

// The next tokens of a sequence and where their keys and values go.
struct SequenceChunk {
  std::span<const TokenId> tokens;  // at least one; every id below the vocabulary's size
  TokenPos first_position;
  // For each layer the tiles of the sequence, ascending, without gaps from the first that a token sees to the last token's.
  // Backed by memory; what lies before first_position was stored by earlier passes. Layers with the same window have the same tiles
  // in the same pieces, and where two chunks share records in one of them they share them in all.
  std::span<const std::span<const kernels::KvPiece>> layers;
};

class Forward {
 public:
  // Takes memory for passes of at most `max_rows` tokens. All arguments must outlive the object.
  [[nodiscard]] static Result<std::unique_ptr<Forward>> create(const ModelConfig& config, const Weights& weights,
                                                               const kernels::KernelSet& kernels, kernels::KvFormat kv_format,
                                                               int max_rows, port::ThreadTeam& team);

  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  // Computes the chunks, at most max_rows tokens in all. The rows are the chunks' tokens in order.
  void run(std::span<const SequenceChunk> chunks);

  // Logits of these rows of the last pass, in any order, at most max_logit_rows() at once: [rows][vocabulary]. The output matrix is
  // read once for all of them. Valid until the next call of run or logits.
  [[nodiscard]] std::span<const float> logits(std::span<const int> rows);

  [[nodiscard]] int max_rows() const { return max_rows_; }
  // As many rows as 64 MiB hold, at least 16 and at most 256; never more than max_rows().
  [[nodiscard]] int max_logit_rows() const { return max_logit_rows_; }
  // Bytes of the working memory that create() reserves; it is backed as passes touch it.
  [[nodiscard]] Bytes workspace_bytes() const { return Bytes(static_cast<int64_t>(memory_.bytes().size())); }

 private:
  friend class Pass;

  // Rows of one tile of positions: the unit in which keys and values are stored.
  struct RowBlock {
    size_t chunk;
    int first_row;
    int rows;
    TokenPos position;
  };

  // Arrays in memory_. Widths are in floats, the stride from one row to the next.
  struct Rows {
    float* data = nullptr;
    int64_t stride = 0;
    [[nodiscard]] float* row(int64_t index) const { return data + index * stride; }
  };
  // Where one input of a product is prepared: f32 rows and their quantized form.
  struct Prepared {
    float* values = nullptr;
    std::byte* quantized = nullptr;
  };

  Forward(const ModelConfig& config, const Weights& weights, const kernels::KernelSet& kernels, kernels::KvFormat kv_format,
          int max_rows, port::ThreadTeam& team);
  Status allocate();
  void plan(std::span<const SequenceChunk> chunks);

  const ModelConfig& config_;
  const Weights& weights_;
  const kernels::KernelSet& kernels_;
  port::ThreadTeam& team_;
  const kernels::KvFormat kv_format_;
  const int max_rows_;
  const int max_logit_rows_;

  std::vector<kernels::AttentionShape> shapes_;  // by layer
  std::vector<size_t> first_alike_;              // by plan: the first layer with its shape
  std::vector<size_t> plan_of_layer_;
  std::vector<RopeFrequencies> ropes_;  // the distinct ones
  std::vector<size_t> rope_of_layer_;

  port::AnonymousMemory memory_;
  Rows residual_;                    // embedding
  Rows block_output_;                // embedding: what a block adds, before its post norm
  Rows q_;                           // heads * head_dim
  Rows k_, v_;                       // kv_heads * head_dim
  Rows attended_;                    // heads * head_dim
  Rows gate_, up_;                   // feed_forward
  std::vector<Rows> cos_, sin_;      // by rope: rope_dims / 2
  Rows logits_;                      // vocabulary; max_logit_rows_ rows
  Prepared shared_input_;            // max_rows rows, prepared by all members together
  std::vector<Prepared> own_input_;  // by member: one row tile, prepared by each for itself
  float* attention_scratch_ = nullptr;

  // The current pass.
  std::vector<SequenceChunk> chunks_;
  std::vector<RowBlock> blocks_;
  std::vector<kernels::AttentionInput> attention_;  // by chunk
  std::vector<kernels::AttentionPlan> plans_;       // of the layers with the same shape
  int rows_ = 0;
};

}  // namespace quire::model
