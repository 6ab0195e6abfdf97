// What the thread team costs a forward pass: one fork and join a run, one barrier between dependent parts of a layer.
// Meant to stay below 1 µs (fork and join) and 300 ns (barrier) for two threads on two idle cores.
#include <benchmark/benchmark.h>

#include "port/threads.h"

namespace quire::port {
namespace {

void BM_ForkJoin(benchmark::State& state) {
  ThreadTeam team(static_cast<int>(state.range(0)));
  for (auto _ : state) team.run([](TeamMember& me) { benchmark::DoNotOptimize(me.index); });
}
BENCHMARK(BM_ForkJoin)->ArgName("threads")->Arg(1)->Arg(2)->Arg(8)->UseRealTime();

void BM_Barrier(benchmark::State& state) {
  constexpr int kBarriers = 1000;
  ThreadTeam team(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    team.run([](TeamMember& me) {
      for (int barrier = 0; barrier < kBarriers; ++barrier) me.barrier();
    });
  }
  state.SetItemsProcessed(state.iterations() * kBarriers);  // items are barriers
}
BENCHMARK(BM_Barrier)->ArgName("threads")->Arg(2)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace quire::port
