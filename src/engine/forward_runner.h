// The real model behind the step loop.
#pragma once

#include "engine/model_runner.h"
#include "model/forward.h"

namespace quire::engine {

class ForwardRunner final : public ModelRunner {
 public:
  // The forward pass and the configuration it was made for must outlive the runner.
  ForwardRunner(model::Forward& forward, const model::ModelConfig& config) : forward_(forward), config_(config) {}

  [[nodiscard]] int max_rows() const override { return forward_.max_rows(); }
  [[nodiscard]] int max_logit_rows() const override { return forward_.max_logit_rows(); }
  [[nodiscard]] int layers() const override { return static_cast<int>(config_.layers.size()); }
  void run(std::span<const model::SequenceChunk> chunks) override { forward_.run(chunks); }
  [[nodiscard]] std::span<const float> logits(std::span<const int> rows) override { return forward_.logits(rows); }
  [[nodiscard]] int vocabulary() const override { return config_.vocabulary; }

 private:
  model::Forward& forward_;
  const model::ModelConfig& config_;
};

}  // namespace quire::engine
