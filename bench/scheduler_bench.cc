// What the scheduler costs a step: plan(), computed() for everybody and step_took(), with 256 jobs that decode and 10,000 that
// wait. Meant to stay below 0.5 µs a running job and step (items are running jobs), however many wait and of however many tenants.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace quire::sched {
namespace {

constexpr int64_t kRunning = 256;
constexpr int64_t kWaiting = 10'000;
constexpr int64_t kPrompt = 500;
constexpr int64_t kMaxNew = 1'000'000;

// 20 KiB a token, in tiles; finds nothing for anybody.
class Memory : public MemoryView {
 public:
  Usage usage() const override { return {.limit = limit, .held = held, .evictable = Bytes(0)}; }
  Bytes growth(TokenCount from, TokenCount to) const override {
    return Bytes((tiles_for(to) - tiles_for(from)).value * kTileTokens * 20 * 1024);
  }
  Offer offer(JobId, std::span<const JobId>) const override { return {}; }

  Bytes limit{int64_t{1} << 50};
  Bytes held;
};

class Load {
 public:
  // `asked`: there is room for those who run, but for nobody else, so that the waiting are asked in vain; otherwise the memory is
  // full to the last byte.
  Load(Reserve reserve, int64_t tenants, bool asked)
      : scheduler_({.reserve = reserve, .max_running = 1000, .step_tokens = TokenCount(8192), .ageing_ns = int64_t{1} << 50}),
        tenants_(tenants),
        tokens_(kRunning, 0) {
    for (int64_t i = 0; i < kRunning; ++i) submit(i, kPrompt, kMaxNew);
    for (int i = 0; i < 100; ++i) step();
    const int64_t all = kRunning * (kPrompt + kMaxNew);
    for (int64_t i = 0; i < kWaiting; ++i) submit(kRunning + i, asked ? all - 1 : kPrompt, 1);
    memory_.limit = memory_.growth(TokenCount(0), TokenCount(all));
    memory_.held = asked ? memory_.growth(TokenCount(0), TokenCount(kPrompt)) * kRunning : memory_.limit;
  }

  size_t step() {
    now_ns_ += 1'000'000;
    const StepPlan plan = scheduler_.plan(now_ns_, memory_);
    for (const StepPlan::Open& open : plan.opened) scheduler_.opened(open.job, TokenCount(0));
    StepSize size;
    for (const StepPlan::Work& work : plan.work) {
      int64_t& tokens = tokens_.at(static_cast<size_t>(work.job.value));
      tokens += work.tokens.value;
      scheduler_.computed(work.job, work.tokens, TokenCount(tokens >= kPrompt ? 1 : 0));
      (work.decode ? size.decode_rows : size.prefill_rows) += work.tokens.value;
      size.attended += tokens;
    }
    scheduler_.step_took(size, 1'000'000);
    return plan.work.size();
  }

 private:
  void submit(int64_t id, int64_t prompt, int64_t max_new) {
    scheduler_.submit({.id = JobId(id),
                       .tenant = std::to_string(id % tenants_),
                       .priority = static_cast<int>(id % 3),
                       .arrival_ns = now_ns_,
                       .prompt = TokenCount(prompt),
                       .max_new = TokenCount(max_new),
                       .max_new_asked = true});
  }

  Scheduler scheduler_;
  Memory memory_;
  int64_t tenants_;
  std::vector<int64_t> tokens_;  // computed, by job
  int64_t now_ns_ = 0;
};

void BM_Step(benchmark::State& state) {
  Load load(static_cast<Reserve>(state.range(0)), state.range(1), state.range(2) == 1);
  for (int i = 0; i < 10; ++i) {
    if (load.step() != static_cast<size_t>(kRunning)) return state.SkipWithError("not everybody decodes");
  }
  for (auto _ : state) benchmark::DoNotOptimize(load.step());
  state.SetItemsProcessed(state.iterations() * kRunning);
}
BENCHMARK(BM_Step)
    ->ArgNames({"reserve", "tenants", "asked"})
    ->ArgsProduct({{0, 1, 2}, {1, 100, 10'000}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::sched
