// What the step loop asks of a model: one forward pass over chunks of several sequences, and logits of some of its rows. The real
// one is model::Forward; simulations bring their own.
#pragma once

#include <span>

#include "base/units.h"
#include "model/forward.h"

namespace quire::engine {

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Rows that one pass can take.
  [[nodiscard]] virtual int max_rows() const = 0;
  // Rows that one call of logits() can take.
  [[nodiscard]] virtual int max_logit_rows() const = 0;
  [[nodiscard]] virtual int layers() const = 0;

  // Computes the chunks, at most max_rows() tokens in all. The rows are the chunks' tokens in order.
  virtual void run(std::span<const model::SequenceChunk> chunks) = 0;

  // Logits of these rows of the last pass: [rows][vocabulary]. Valid until the next call of run or logits.
  [[nodiscard]] virtual std::span<const float> logits(std::span<const int> rows) = 0;
  // Floats of a row of logits; at least the tokenizer's vocabulary.
  [[nodiscard]] virtual int vocabulary() const = 0;
};

}  // namespace quire::engine
