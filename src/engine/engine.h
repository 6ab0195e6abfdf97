// Everything that one model needs to answer: its weights packed, its tokenizer and chat template, a team of threads, the working
// memory of the forward pass and the memory of its KV cache.
//
// Life: create() maps the file, reads and checks its metadata, packs the weights and gives the file back. Requests are answered by
// a step loop over runner() and cache() (step_loop.h), which ends before the engine. One thread at a time computes: the loop's, or
// who scores (score.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "chat/template.h"
#include "engine/forward_runner.h"
#include "engine/memory_ceiling.h"
#include "engine/step_loop.h"
#include "kernels/kernels.h"
#include "kv/kv_cache.h"
#include "model/forward.h"
#include "model/weights.h"
#include "port/posix_vm.h"
#include "port/threads.h"
#include "tokenizer/tokenizer.h"

namespace quire::engine {

struct EngineOptions {
  std::string model_path = {};
  int threads = 0;                              // 0: as many as the process may keep busy
  const kernels::KernelSet* kernels = nullptr;  // null: the fastest of this processor
  kernels::KvFormat kv_format = kernels::KvFormat::kF16;
  int chunk = 512;                 // tokens of a prompt that one pass computes
  std::string chat_template = {};  // Jinja source that replaces the model's; empty: the model's
  // Bytes that the KV cache may take at most; nothing: what the machine and the control group leave. While it runs it takes less
  // where they leave less.
  std::optional<Bytes> kv_memory = {};
  bool share = true;  // beginnings that were computed are found again
};

class Engine {
 public:
  // Errors begin with the model's path.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                              const model::LoadProgress& progress = {});

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const model::ModelConfig& config() const { return config_; }
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Null for a model without one.
  [[nodiscard]] const chat::Template* chat_template() const { return template_ ? &*template_ : nullptr; }
  [[nodiscard]] const kernels::KernelSet& kernels() const { return kernels_; }
  [[nodiscard]] const std::vector<kv::LayerGroupSpec>& layer_groups() const { return groups_; }
  [[nodiscard]] Bytes weight_bytes() const { return weights_->bytes(); }
  [[nodiscard]] Bytes embedding_bytes() const;
  [[nodiscard]] int threads() const { return team_.size(); }
  [[nodiscard]] port::ThreadTeam& team() { return team_; }
  [[nodiscard]] model::Forward& forward() { return *forward_; }
  [[nodiscard]] port::Vm& vm() { return vm_; }
  [[nodiscard]] kv::KvCache& cache() { return *cache_; }
  [[nodiscard]] ModelRunner& runner() { return *runner_; }
  // What the KV cache may hold now.
  [[nodiscard]] Bytes kv_ceiling() const { return ceiling_->now(cache_->usage().backed); }
  // For a step loop over this engine: the model's context, passes as large as the engine's, and its ceiling.
  [[nodiscard]] StepLoopOptions loop_options() const;

 private:
  explicit Engine(const EngineOptions& options);
  Status load(const EngineOptions& options, const model::LoadProgress& progress);
  Status make_cache(const EngineOptions& options, Bytes left);
  [[nodiscard]] kv::SegmentPoolOptions segments(Bytes& limit);

  port::ThreadTeam team_;
  const kernels::KernelSet& kernels_;
  port::PosixVm vm_;
  model::ModelConfig config_;
  std::unique_ptr<const model::Weights> weights_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
  std::optional<chat::Template> template_;
  std::vector<kv::LayerGroupSpec> groups_;
  std::unique_ptr<model::Forward> forward_;
  std::optional<ForwardRunner> runner_;
  std::optional<kv::KvCache> cache_;
  std::optional<MemoryCeiling> ceiling_;
};

}  // namespace quire::engine
