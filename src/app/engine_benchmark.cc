#include "app/engine_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "port/clock.h"

namespace quire::app {
namespace {

// Ordinary tokens at random: speed does not depend on which they are.
class RandomText {
 public:
  explicit RandomText(const engine::Engine& engine) {
    for (TokenId id = 0; id < engine.config().vocabulary; ++id) {
      if (engine.tokenizer().contains(id) && !engine.tokenizer().is_control(id)) ordinary_.push_back(id);
    }
    if (ordinary_.empty()) ordinary_.push_back(0);
  }

  void append(std::vector<TokenId>& tokens, int64_t count, uint32_t seed) const {
    std::mt19937 random(seed);
    for (; count > 0; --count) tokens.push_back(ordinary_[random() % ordinary_.size()]);
  }

 private:
  std::vector<TokenId> ordinary_;
};

// Bytes that a decoding step must read at least: all weights (the embedding only where it is the output), and the keys and values,
// those that all share once.
double bytes_of_step(const engine::Engine& engine, const EngineLoad& load) {
  double bytes = static_cast<double>(engine.weight_bytes().value);
  if (!engine.config().tied_output) bytes -= static_cast<double>(engine.embedding_bytes().value);
  const int64_t own = load.prompt + load.reply / 2;
  for (const kv::LayerGroupSpec& group : engine.layer_groups()) {
    const int64_t seen = std::min(group.window.value_or(INT64_MAX), load.shared_prefix + own);
    const int64_t seen_own = std::min(seen, own);
    bytes += static_cast<double>(kv::bytes_per_token(group).value) * static_cast<double>(seen - seen_own + seen_own * load.users);
  }
  return bytes;
}

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// One step as it was seen from outside.
struct Step {
  int64_t ended_ns;
  int64_t tokens;
  Bytes allocated;  // since the beginning
};

class Run {
 public:
  Run(engine::Engine& engine, const EngineLoad& load, const sched::SchedulerOptions& scheduler)
      : load_(load), text_(engine), loop_(engine.runner(), engine.tokenizer(), engine.cache(), options(engine, load, scheduler)) {}

  Status compute_shared() {
    if (load_.shared_prefix == 0) return {};
    std::vector<TokenId> prompt = shared();
    text_.append(prompt, 1, 1);
    QUIRE_TRY(const auto stream, submit(std::move(prompt), 1));
    while (loop_.step()) {
    }
    return failure(*stream);
  }

  Status start() {
    began_ns_ = port::monotonic_ns();
    before_ = loop_.statistics();
    for (int user = 0; user < load_.users; ++user) {
      std::vector<TokenId> prompt = shared();
      text_.append(prompt, load_.prompt, 1000 + static_cast<uint32_t>(user));
      prompt_tokens_ += static_cast<int64_t>(prompt.size());
      QUIRE_TRY(auto stream, submit(std::move(prompt), load_.reply));
      streams_.push_back(std::move(stream));
    }
    first_ns_.assign(streams_.size(), 0);
    last_ns_.assign(streams_.size(), 0);
    return {};
  }

  // Until all have ended, or memory says no and somebody asks for that.
  Status drive(MemoryLimit* limit) {
    while (loop_.step()) {
      Step step{.ended_ns = port::monotonic_ns(), .tokens = 0, .allocated = loop_.statistics().memory.allocated};
      for (size_t user = 0; user < streams_.size(); ++user) {
        while (const auto piece = streams_[user]->try_next()) {
          if (piece->tokens.empty()) continue;
          step.tokens += static_cast<int64_t>(piece->tokens.size());
          if (first_ns_[user] == 0) first_ns_[user] = step.ended_ns;
          last_ns_[user] = step.ended_ns;
        }
      }
      steps_.push_back(step);
      if (limit != nullptr && look_for_limit(*limit)) return {};
    }
    for (const auto& stream : streams_) QUIRE_TRY_STATUS(failure(*stream));
    return {};
  }

  [[nodiscard]] EngineMeasurement result() const {
    EngineMeasurement measured;
    measured.prompt_tokens = prompt_tokens_;
    for (const Step& step : steps_) measured.new_tokens += step.tokens;
    const int64_t all_started = *std::max_element(first_ns_.begin(), first_ns_.end());
    const int64_t first_done = *std::min_element(last_ns_.begin(), last_ns_.end());
    const int64_t all_done = *std::max_element(last_ns_.begin(), last_ns_.end());
    measured.prefill_tps = static_cast<double>(prompt_tokens_) / seconds(all_started - began_ns_);
    measured.total_tps = static_cast<double>(prompt_tokens_ + measured.new_tokens) / seconds(all_done - began_ns_);
    decoding(all_started, first_done, measured);
    measured.statistics = loop_.statistics();
    return measured;
  }

 private:
  static engine::StepLoopOptions options(const engine::Engine& engine, const EngineLoad& load, sched::SchedulerOptions scheduler) {
    engine::StepLoopOptions options = engine.loop_options();
    scheduler.step_tokens = options.scheduler.step_tokens;
    scheduler.max_running = std::max(scheduler.max_running, load.users);
    options.scheduler = scheduler;
    return options;
  }

  std::vector<TokenId> shared() const {
    std::vector<TokenId> tokens;
    text_.append(tokens, load_.shared_prefix, 7);
    return tokens;
  }

  Result<std::shared_ptr<engine::ReplyStream>> submit(std::vector<TokenId> prompt, int64_t reply) {
    return loop_.submit({.prompt = std::move(prompt),
                         .reply = {.sampling = {.temperature = 0}, .max_tokens = TokenCount(reply), .ignore_end = true}});
  }

  static Status failure(const engine::ReplyStream& stream) {
    if (stream.result().error) return *stream.result().error;
    return {};
  }

  bool look_for_limit(MemoryLimit& limit) const {
    const engine::LoopStatistics now = loop_.statistics();
    if (now.memory.evicted > before_.memory.evicted) limit.what = "eviction";
    if (now.jobs.refusals > before_.jobs.refusals) limit.what = "refusal";
    if (now.jobs.suspensions > before_.jobs.suspensions) limit.what = "suspension";
    if (now.recomputed_tokens > before_.recomputed_tokens) limit.what = "recomputation";
    if (limit.what.empty() && now.jobs.waiting > now.jobs.following && first_ns_.back() == 0 && steps_.size() > 1 &&
        now.jobs.running + now.jobs.waiting == streams_.size() && running_before_ == now.jobs.running) {
      limit.what = "waiting";
    }
    running_before_ = now.jobs.running;
    limit.running = now.jobs.running;
    return !limit.what.empty();
  }

  void decoding(int64_t from, int64_t to, EngineMeasurement& measured) const {
    std::vector<double> steps_ms;
    int64_t tokens = 0;
    Bytes allocated_before;
    Bytes allocated_at_start;
    int64_t ended_before = from;
    for (const Step& step : steps_) {
      if (step.ended_ns > from && step.ended_ns <= to) {
        const double took = seconds(step.ended_ns - ended_before);
        tokens += step.tokens;
        steps_ms.push_back(took * 1e3);
        const auto allocated = static_cast<double>((step.allocated - allocated_before).value);
        measured.allocation_mbps_max = std::max(measured.allocation_mbps_max, allocated / took / 1e6);
      } else if (step.ended_ns <= from) {
        allocated_at_start = step.allocated;
      }
      if (step.ended_ns <= to) {
        ended_before = step.ended_ns;
        allocated_before = step.allocated;
      }
    }
    if (steps_ms.empty()) return;
    std::sort(steps_ms.begin(), steps_ms.end());
    measured.step_ms_p50 = steps_ms[steps_ms.size() / 2];
    measured.step_ms_p99 = steps_ms[std::min(steps_ms.size() - 1, steps_ms.size() * 99 / 100)];
    measured.decode_tps = static_cast<double>(tokens) / seconds(to - from);
    measured.allocation_mbps = static_cast<double>((allocated_before - allocated_at_start).value) / seconds(to - from) / 1e6;
  }

  const EngineLoad load_;
  RandomText text_;
  engine::StepLoop loop_;
  std::vector<std::shared_ptr<engine::ReplyStream>> streams_;
  std::vector<int64_t> first_ns_;  // by user: the end of the step that gave him a first token
  std::vector<int64_t> last_ns_;
  std::vector<Step> steps_;
  int64_t began_ns_ = 0;
  int64_t prompt_tokens_ = 0;
  engine::LoopStatistics before_;
  mutable size_t running_before_ = 0;
};

}  // namespace

Result<EngineMeasurement> measure(engine::Engine& engine, engine::BandwidthProbe& probe, const EngineLoad& load,
                                  const sched::SchedulerOptions& scheduler, bool keep_cache, MemoryLimit* limit) {
  if (!keep_cache) engine.cache().clear();
  Run run(engine, load, scheduler);
  QUIRE_TRY_STATUS(run.compute_shared());
  const double bandwidth_before = probe.measure();
  QUIRE_TRY_STATUS(run.start());
  QUIRE_TRY_STATUS(run.drive(limit));
  if (limit != nullptr && !limit->what.empty()) return EngineMeasurement{};
  EngineMeasurement measured = run.result();
  const double bandwidth = (bandwidth_before + probe.measure()) / 2;
  measured.memory_gbps = bandwidth / 1e9;
  measured.bandwidth_share = bytes_of_step(engine, load) * measured.decode_tps / load.users / bandwidth;
  return measured;
}

}  // namespace quire::app
