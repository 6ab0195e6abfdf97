// What the KV cache costs a step: it must vanish beside the step itself (some milliseconds) and not grow with the number of users,
// of cached nodes or of bytes.
//
//   Decode     one step of many sequences: plan, back, commit, append. with_memory: the system really backs what is needed, which
//              an engine does beside the step before (back_us of it)
//   Lookup     match() of 8,000 tokens that are all there, in a tree of 100,000 nodes of several shapes
//   Eviction   steps that each need room, until a GiB of cache went: the longest plan() beside the median
//   OpenClose  a hit on a shared beginning of 1,500 tokens, and its end
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "kv/kv_cache.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

using Tokens = std::vector<TokenId>;

// SmolLM2's: 30 layers, f16 records of 24 KiB.
LayerGroupSpec smollm2() {
  LayerGroupSpec group{.name = "full", .layers = {}, .tile_record = Bytes(24576), .window = {}};
  for (int layer = 0; layer < 30; ++layer) group.layers.push_back(layer);
  return group;
}

// Of this process, which has one thread: other programs on the machine do not count.
double cpu_us() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) { return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec); };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

LayerGroupSpec one_page() { return {.name = "full", .layers = {0}, .tile_record = Bytes(4096), .window = {}}; }

std::unique_ptr<port::Vm> make_port(bool with_memory) {
  if (with_memory) return std::make_unique<port::PosixVm>();
  return std::make_unique<port::SimVm>(port::SimVmOptions{.virtual_limit = Bytes(int64_t{1} << 46)});
}

// `count` tokens that begin differently for each number.
Tokens text(int number, int64_t count) {
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back((number * 7919 + static_cast<TokenId>(i)) % 49152);
  return tokens;
}

SequenceId open(KvCache& cache, const Tokens& prompt, int64_t max_tokens) {
  const auto id = cache.open("", prompt, TokenCount(max_tokens));
  QUIRE_CHECK(id.ok() && *id);
  return **id;
}

void prepare(KvCache& cache, std::span<const Growth> growths) {
  const Result<Room> room = cache.prepare(growths);
  QUIRE_CHECK(room.ok() && room->space == Space::kOk);
}

// Opens and computes what is not there.
SequenceId prefill(KvCache& cache, const Tokens& prompt, int64_t max_tokens) {
  const SequenceId id = open(cache, prompt, max_tokens);
  const auto length = static_cast<size_t>(cache.length(id).value);
  const Growth growth{.sequence = id, .length = TokenCount(static_cast<int64_t>(prompt.size()))};
  prepare(cache, std::span(&growth, 1));
  cache.append(id, std::span(prompt).subspan(length));
  return id;
}

void decode(benchmark::State& state) {
  const auto sequences = state.range(0);
  const std::unique_ptr<port::Vm> port = make_port(state.range(1) != 0);
  constexpr int64_t kPrompt = 100;
  constexpr int64_t kTokens = 256;
  KvCache cache(*port, {smollm2()}, {.limit = Bytes(int64_t{1} << 42)});
  std::vector<Growth> growths;
  int64_t length = kPrompt + kTokens;
  double backing_us = 0;
  for (auto _ : state) {
    if (length == kPrompt + kTokens) {
      state.PauseTiming();
      for (const Growth& growth : growths) cache.close(growth.sequence, KvCache::Keep::kDrop);
      growths.clear();
      for (int i = 0; i < static_cast<int>(sequences); ++i) {
        // They cross the borders of tiles in different steps, as sequences do.
        growths.push_back({prefill(cache, text(i, kPrompt + i % kTileTokens), kPrompt + kTileTokens + kTokens), TokenCount(0)});
      }
      length = kPrompt;
      state.ResumeTiming();
    }
    ++length;
    for (Growth& growth : growths) growth.length = cache.length(growth.sequence) + TokenCount(1);
    BackingPlan plan;
    QUIRE_CHECK(cache.plan(growths, plan).space == Space::kOk);
    const double before_backing = cpu_us();
    plan.back();
    backing_us += cpu_us() - before_backing;
    const Result<Space> committed = cache.commit(std::move(plan));
    QUIRE_CHECK(committed.ok() && *committed == Space::kOk);
    const auto token = static_cast<TokenId>(length);
    for (const Growth& growth : growths) cache.append(growth.sequence, std::span(&token, 1));
  }
  const auto steps = static_cast<double>(state.iterations() * sequences);
  state.counters["of_a_sequence"] = benchmark::Counter(steps, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["back_us"] = benchmark::Counter(backing_us, benchmark::Counter::kAvgIterations);
  for (const Growth& growth : growths) cache.close(growth.sequence, KvCache::Keep::kDrop);
}
BENCHMARK(decode)
    ->Name("Decode")
    ->ArgNames({"sequences", "with_memory"})
    ->Args({256, 0})
    ->Args({32, 0})
    ->Args({256, 1})
    ->Unit(benchmark::kMicrosecond);

// A path of 8,000 tokens in 8,000 / `node_tokens` nodes: at the end of each begins another text too. The rest of the nodes are
// other texts, each below the root or behind a beginning that `per_beginning` share.
void lookup(benchmark::State& state) {
  constexpr int64_t kMatching = 8000;
  const int64_t node_tokens = state.range(0);
  const int nodes = static_cast<int>(state.range(1));
  const std::unique_ptr<port::Vm> port = make_port(false);
  KvCache cache(*port, {one_page()}, {.limit = Bytes(int64_t{1} << 44)});
  const Tokens path = text(1, kMatching + 1);
  cache.close(prefill(cache, path, kMatching + 1), KvCache::Keep::kCache);
  for (int64_t end = node_tokens; end < kMatching; end += node_tokens) {
    Tokens branch(path.begin(), path.begin() + end);
    branch.resize(branch.size() + 10, 49'999);
    cache.close(prefill(cache, branch, end + 10), KvCache::Keep::kCache);
  }
  for (int i = 0; i < nodes; ++i) {
    Tokens other(40, 50'000 + i % 1000);
    other.back() = i;
    std::fill(other.begin() + 20, other.begin() + 39, i / 1000);
    cache.close(prefill(cache, other, 40), KvCache::Keep::kCache);
  }
  for (auto _ : state) {
    const Match match = cache.match("", path);
    QUIRE_CHECK(match.reusable.value == kMatching);
    benchmark::DoNotOptimize(match);
  }
}
BENCHMARK(lookup)
    ->Name("Lookup")
    ->ArgNames({"node_tokens", "nodes"})
    ->Args({8000, 100'000})
    ->Args({800, 100'000})
    ->Args({32, 100'000})
    ->Args({800, 1000})
    ->Unit(benchmark::kMicrosecond);

// Each step needs memory for `tiles` new tiles, which cached texts of `tokens` tokens give up, as 256 decoding users do (8) or a
// chunk of a prompt does (16). Measured: plan(); what the rest of a step does is not part of it.
void eviction(benchmark::State& state) {
  constexpr Bytes kEvicted{int64_t{1} << 30};
  const int64_t tokens = state.range(0);
  const int64_t tiles = state.range(1);
  const std::unique_ptr<port::Vm> port = make_port(state.range(2) != 0);
  const Bytes tile = tile_bytes(smollm2());
  double longest = 0;
  double median = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto cache = std::make_unique<KvCache>(*port, std::vector{smollm2()}, KvCacheOptions{.limit = Bytes(int64_t{1} << 42)});
    for (int i = 0; cache->usage().backed < kEvicted + tile * 64; ++i) {
      cache->close(prefill(*cache, text(i, tokens), tokens), KvCache::Keep::kCache);
    }
    cache->set_limit(cache->usage().backed);
    const SequenceId id = open(*cache, text(1'000'003, 1), 1'000'000);
    Growth growth{.sequence = id, .length = TokenCount(0)};
    std::vector<double> steps;
    state.ResumeTiming();
    while (cache->usage().evicted < kEvicted) {
      growth.length += TokenCount(tiles * kTileTokens);
      BackingPlan plan;
      const double start = cpu_us();
      QUIRE_CHECK(cache->plan(std::span(&growth, 1), plan).space == Space::kOk);
      steps.push_back(cpu_us() - start);
      plan.back();
      const Result<Space> committed = cache->commit(std::move(plan));
      QUIRE_CHECK(committed.ok() && *committed == Space::kOk);
      cache->append(id, Tokens(static_cast<size_t>(tiles * kTileTokens), 7));
    }
    state.PauseTiming();
    std::sort(steps.begin(), steps.end());
    longest = steps.back();
    median = steps[steps.size() / 2];
    cache->close(id, KvCache::Keep::kDrop);
    cache.reset();
    state.ResumeTiming();
  }
  state.counters["plan_median_us"] = median;
  state.counters["plan_longest_us"] = longest;
}
BENCHMARK(eviction)
    ->Name("Eviction")
    ->ArgNames({"cached_tokens", "tiles", "with_memory"})
    ->Args({500, 8, 0})
    ->Args({500, 8, 1})
    ->Args({4000, 8, 1})
    ->Args({4000, 16, 1})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void open_close(benchmark::State& state) {
  const std::unique_ptr<port::Vm> port = make_port(state.range(0) != 0);
  KvCache cache(*port, {smollm2()}, {.limit = Bytes(int64_t{1} << 42)});
  const Tokens shared = text(1, 1500);
  Tokens prompt = shared;
  prompt.resize(1600, 3);
  cache.close(prefill(cache, shared, 1500), KvCache::Keep::kCache);
  const SequenceId other = open(cache, prompt, 2000);  // so that the hit is one of several, as in a busy server
  for (auto _ : state) {
    const SequenceId id = open(cache, prompt, 2000);
    cache.close(id, KvCache::Keep::kDrop);
  }
  cache.close(other, KvCache::Keep::kDrop);
}
BENCHMARK(open_close)->Name("OpenClose")->ArgNames({"with_memory"})->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::kv
