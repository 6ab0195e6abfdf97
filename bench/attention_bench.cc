// Attention against the machine's roofs: the read bandwidth for decoding over private contexts, the multiply-add peak for many
// queries over one span (a shared beginning, prefill). Meant to reach 70 % of the first and 75 % of the second. Then what sharing
// is worth: a decode step of sequences with one beginning in common (cascade) beside the same step over copies of it; and what a
// step's plan costs.
//
//   attention_bench                                       all cases, 1 and 2 threads
//   attention_bench --case decode --model smollm2 --threads 2 --isa avx2
//   attention_bench --case cascade,plan --model smollm2 --threads 2
//   attention_bench --smoke                               seconds, small contexts: that it still runs
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/roofs.h"
#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/kernels.h"
#include "port/clock.h"
#include "port/memory.h"
#include "port/threads.h"

namespace quire::kernels {
namespace {

struct Options {
  std::vector<std::string> cases = {"decode", "shared", "prefill", "cascade", "plan"};
  std::vector<std::string> models = {"smollm2", "llama-8b", "gemma3-270m"};
  std::vector<int> contexts = {512, 2048, 8192};
  std::vector<int> threads = {1, 2};
  std::vector<int> users = {1, 8, 32};
  std::string isa;
  std::string format = "f16";
  double seconds = 0.4;   // of each line
  size_t cold_mib = 256;  // tile records that decoding walks through: more than the caches hold
  bool smoke = false;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "attention_bench: %s\n", message.c_str());
  std::exit(2);
}

AttentionShape shape_of(const std::string& model, const std::string& format) {
  AttentionShape shape;
  if (model == "smollm2") {
    shape.heads = 9, shape.kv_heads = 3, shape.head_dim = 64;
  } else if (model == "llama-8b") {
    shape.heads = 32, shape.kv_heads = 8, shape.head_dim = 128;
  } else if (model == "gemma3-270m") {
    shape.heads = 4, shape.kv_heads = 1, shape.head_dim = 256;
  } else {
    fail("no model '" + model + "': smollm2, llama-8b, gemma3-270m");
  }
  shape.format = format == "f32" ? KvFormat::kF32 : KvFormat::kF16;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return shape;
}

port::AnonymousMemory allocate(size_t bytes) {
  auto memory = port::AnonymousMemory::allocate(Bytes(static_cast<int64_t>(bytes)));
  if (!memory) fail(memory.error().message);
  return std::move(*memory);
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2001) * 0.001f - 1.0f;
  return values;
}

// Contexts of many sequences, one after the other in memory.
struct Contexts {
  AttentionShape shape;
  int tokens;
  int sequences;
  size_t record;
  port::AnonymousMemory memory;

  Contexts(const KernelSet& set, const AttentionShape& a_shape, int a_tokens, int a_sequences)
      : shape(a_shape), tokens(a_tokens), sequences(a_sequences), record(tile_record_bytes(shape)) {
    memory = allocate(static_cast<size_t>(sequences) * tiles() * record);
    std::byte* first = memory.bytes().data();
    const auto row = static_cast<size_t>(shape.kv_heads * shape.head_dim);
    const std::vector<float> kv = random_floats(kTileTokens * row, 3);
    for (int head = 0; head < shape.kv_heads; ++head) {
      const float* values = kv.data() + head * shape.head_dim;
      set.attention.store_kv(shape, first, head, 0, kTileTokens, values, values, static_cast<int64_t>(row));
    }
    for (size_t i = 1; i < static_cast<size_t>(sequences) * tiles(); ++i) std::memcpy(first + i * record, first, record);
  }

  [[nodiscard]] size_t tiles() const { return static_cast<size_t>(ceil_div(tokens, kTileTokens)); }
  [[nodiscard]] KvPiece piece(int sequence) {
    return {memory.bytes().data() + static_cast<size_t>(sequence) * tiles() * record, static_cast<int64_t>(record), 0,
            static_cast<int64_t>(tiles())};
  }
};

struct Rates {
  double seconds = 1e30;
  double bandwidth = 0;  // bytes a second that reading alone reaches
  double peak = 0;       // multiply-adds a second that registers alone reach
};

// The best of short runs, each beside its roofs.
template <typename Run>
Rates measure(const KernelSet& set, port::ThreadTeam& team, Contexts& contexts, double seconds, Run run) {
  Rates best;
  const double end = port::monotonic_seconds() + seconds;
  do {
    best.bandwidth =
        std::max(best.bandwidth, bench::read_bandwidth(team, contexts.memory.bytes().data(), contexts.memory.bytes().size()));
    if (set.arithmetic == Arithmetic::kFused)
      best.peak = std::max(best.peak, bench::multiply_add_peak(team, set.isa == Isa::kAvx2 ? 256 : 512));
    for (int i = 0; i < 4; ++i) {
      const double begin = port::monotonic_seconds();
      run();
      best.seconds = std::min(best.seconds, port::monotonic_seconds() - begin);
    }
  } while (port::monotonic_seconds() < end);
  return best;
}

void print_line(const std::string& name, int threads, const Rates& rates, double bytes, double multiply_adds) {
  std::printf("%-46s %2d threads %10.1f us", name.c_str(), threads, rates.seconds * 1e6);
  if (bytes > 0) {
    std::printf("  %5.1f GB/s = %5.1f %% of %5.1f", bytes / rates.seconds * 1e-9, 100 * bytes / rates.seconds / rates.bandwidth,
                rates.bandwidth * 1e-9);
  }
  std::printf("  %6.1f G multiply-adds/s", multiply_adds / rates.seconds * 1e-9);
  if (rates.peak > 0) std::printf(" = %4.1f %% of %.0f", 100 * multiply_adds / rates.seconds / rates.peak, rates.peak * 1e-9);
  std::printf("\n");
  std::fflush(stdout);
}

// Sequences of a step: their pieces, queries and answers.
struct Step {
  AttentionShape shape;
  std::vector<float> q;
  std::vector<float> out;
  std::vector<std::vector<KvPiece>> pieces;
  std::vector<std::span<const KvPiece>> layers;
  std::vector<AttentionInput> inputs;
  AttentionPlan plan;
  port::AnonymousMemory scratch;

  // The last `rows` positions of sequences of `tokens` tokens.
  Step(const AttentionShape& a_shape, int users, int tokens, int rows, int threads)
      : shape(a_shape), pieces(static_cast<size_t>(users)), layers(pieces.size()), inputs(pieces.size()) {
    const auto row = static_cast<int64_t>(shape.heads) * shape.head_dim;
    q = random_floats(static_cast<size_t>(users * rows * row), 5);
    out.resize(q.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      AttentionInput& input = inputs[i];
      input.layers = std::span(&layers[i], 1);
      input.first_position = tokens - rows;
      input.count = rows;
      input.q = q.data() + static_cast<int64_t>(i) * rows * row;
      input.out = out.data() + static_cast<int64_t>(i) * rows * row;
      input.q_stride = input.out_stride = row;
    }
    scratch = allocate(attention_scratch_floats(shape, users * rows, threads) * sizeof(float));
  }

  // After a change of pieces.
  void make_plan(int threads) {
    for (size_t i = 0; i < pieces.size(); ++i) layers[i] = pieces[i];
    plan.make(shape, inputs, 0, threads);
  }
  void run(const KernelSet& set, port::ThreadTeam& team) {
    team.run([&](port::TeamMember& me) { attend(set, plan, inputs, 0, reinterpret_cast<float*>(scratch.bytes().data()), me); });
  }
};

// `rows` positions at the end of each of `users` contexts, other contexts in each run.
void run_attend_case(const Options& options, const KernelSet& set, const std::string& label, Contexts& contexts, int users,
                     int rows, int threads, bool memory_bound) {
  const AttentionShape& shape = contexts.shape;
  port::ThreadTeam team(threads);
  Step step(shape, users, contexts.tokens, rows, team.size());
  int next = 0;
  const Rates rates = measure(set, team, contexts, options.seconds, [&] {
    for (auto& pieces : step.pieces) pieces = {contexts.piece(next++ % contexts.sequences)};
    step.make_plan(team.size());
    step.run(set, team);
  });
  const double bytes = static_cast<double>(users) * static_cast<double>(contexts.tiles() * contexts.record);
  const double seen = static_cast<double>(rows) * (contexts.tokens - rows) + static_cast<double>(rows) * (rows + 1) / 2;
  print_line(label, team.size(), rates, memory_bound ? bytes : 0, users * seen * shape.heads * shape.head_dim * 2);
}

// Seconds of one run, in turns: the median of each and that of their ratios.
struct Compared {
  double first = 0;
  double second = 0;
  double ratio = 0;  // second / first
};

template <typename First, typename Second>
Compared compare(double seconds, First first, Second second) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  const double end = port::monotonic_seconds() + seconds;
  do {
    const double begin = port::monotonic_seconds();
    first();
    const double middle = port::monotonic_seconds();
    second();
    b.push_back(port::monotonic_seconds() - middle);
    a.push_back(middle - begin);
    ratios.push_back(b.back() / a.back());
  } while (port::monotonic_seconds() < end);
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  return {median(a), median(b), median(ratios)};
}

// A decode step of `users` that share their first `shared` tokens and have `own` others each, over shared records and over copies.
void run_cascade_case(const Options& options, const KernelSet& set, const std::string& model, int users, int shared, int own,
                      int threads) {
  const AttentionShape shape = shape_of(model, options.format);
  const int shared_tiles = shared / kTileTokens;
  Contexts contexts(set, shape, shared_tiles * kTileTokens + own, users);
  port::ThreadTeam team(threads);
  Step cascade(shape, users, contexts.tokens, 1, team.size());
  Step copies(shape, users, contexts.tokens, 1, team.size());
  for (int i = 0; i < users; ++i) {
    const KvPiece all = contexts.piece(i);
    copies.pieces[static_cast<size_t>(i)] = {all};
    KvPiece beginning = contexts.piece(0);
    beginning.tiles = shared_tiles;
    const KvPiece rest{all.base + shared_tiles * all.tile_stride, all.tile_stride, shared_tiles, all.tiles - shared_tiles};
    cascade.pieces[static_cast<size_t>(i)] = {beginning, rest};
  }
  cascade.make_plan(team.size());
  copies.make_plan(team.size());
  double bandwidth = 0;
  for (int i = 0; i < 3; ++i) {
    bandwidth = std::max(bandwidth, bench::read_bandwidth(team, contexts.memory.bytes().data(), contexts.memory.bytes().size()));
  }
  const Compared times = compare(
      4 * options.seconds, [&] { cascade.run(set, team); }, [&] { copies.run(set, team); });
  std::printf("cascade %s %d users, %d shared + %d own  %2d threads  shared %8.1f us, copies %8.1f us: %.2f times, at %.0f GB/s\n",
              model.c_str(), users, shared, own, team.size(), times.first * 1e6, times.second * 1e6, times.ratio, bandwidth * 1e-9);
  std::fflush(stdout);
}

void run_cascade(const Options& options, const KernelSet& set, const std::string& model) {
  for (const int threads : options.threads) {
    if (options.smoke) {
      run_cascade_case(options, set, model, 4, 256, 32, threads);
      continue;
    }
    run_cascade_case(options, set, model, 32, 2000, 64, threads);
    run_cascade_case(options, set, model, 8, 2000, 512, threads);
    run_cascade_case(options, set, model, 32, 2000, 512, threads);
    run_cascade_case(options, set, model, 256, 2000, 64, threads);
  }
}

// What a plan costs for 256 sequences in four pieces each, shared by all, by halves, by eighths, and their own.
void run_plan(const Options& options, const KernelSet& set, const std::string& model) {
  const AttentionShape shape = shape_of(model, options.format);
  const int users = 256;
  Contexts contexts(set, shape, 512, 1);
  const KvPiece any = contexts.piece(0);
  Step step(shape, users, 2048, 1, 2);
  for (int i = 0; i < users; ++i) {
    const auto piece = [&](int64_t first_tile, int64_t number) {
      return KvPiece{any.base + number * (int64_t{1} << 30), any.tile_stride, first_tile, 16};  // never read
    };
    step.pieces[static_cast<size_t>(i)] = {piece(0, 1), piece(16, 2 + i % 2), piece(32, 4 + i % 8), piece(48, 16 + i)};
  }
  double best = 1e30;
  const double end = port::monotonic_seconds() + options.seconds;
  do {
    const double begin = port::monotonic_seconds();
    step.make_plan(2);
    best = std::min(best, port::monotonic_seconds() - begin);
  } while (port::monotonic_seconds() < end);
  std::printf("plan    %s %d sequences in 4 pieces: %.1f us\n", model.c_str(), users, best * 1e6);
}

void run_decode(const Options& options, const KernelSet& set, const std::string& model) {
  const AttentionShape shape = shape_of(model, options.format);
  for (const int tokens : options.contexts) {
    const size_t bytes = static_cast<size_t>(ceil_div(tokens, kTileTokens)) * tile_record_bytes(shape);
    const int sequences = std::max(options.smoke ? 1 : 32, static_cast<int>((options.cold_mib << 20) / bytes));
    Contexts contexts(set, shape, tokens, sequences);
    for (const int threads : options.threads) {
      for (const int users : options.users) {
        const std::string label = "decode  " + model + " " + std::to_string(tokens) + " tokens, users " + std::to_string(users);
        run_attend_case(options, set, label, contexts, users, 1, threads, true);
      }
    }
  }
}

void run_prefill(const Options& options, const KernelSet& set, const std::string& model) {
  const AttentionShape shape = shape_of(model, options.format);
  for (const int tokens : options.contexts) {
    Contexts contexts(set, shape, tokens, 1);
    for (const int threads : options.threads) {
      const std::string label = "prefill " + model + " last 512 of " + std::to_string(tokens);
      run_attend_case(options, set, label, contexts, 1, std::min(tokens, 512), threads, false);
    }
  }
}

// 32 users' queries over the spans of one shared node, all in one call a span.
void run_shared(const Options& options, const KernelSet& set, const std::string& model) {
  const AttentionShape shape = shape_of(model, options.format);
  const int users = 32;
  const int group = shape.heads / shape.kv_heads;
  Contexts contexts(set, shape, options.contexts.front(), 1);
  const auto partial = static_cast<size_t>(partial_floats(shape.head_dim));
  const std::vector<float> q = random_floats(static_cast<size_t>(users * group * shape.head_dim), 5);
  for (const int threads : options.threads) {
    port::ThreadTeam team(threads);
    std::vector<float> partials(static_cast<size_t>(team.size() * users * group) * partial);
    const int spans = contexts.tokens / kSpanTokens;
    const Rates rates = measure(set, team, contexts, options.seconds, [&] {
      team.run([&](port::TeamMember& me) {
        std::vector<SpanQuery> queries;
        for (int i = 0; i < users * group; ++i) {
          queries.push_back({q.data() + static_cast<size_t>(i * shape.head_dim), contexts.tokens + i,
                             partials.data() + static_cast<size_t>(me.index * users * group + i) * partial});
        }
        for (int task = me.index; task < spans * shape.kv_heads; task += me.count) {
          SpanTiles span;
          span.first_position = task % spans * kSpanTokens;
          for (int i = 0; i < kSpanTiles; ++i) {
            span.tile[i] = contexts.piece(0).base + static_cast<size_t>(task % spans * kSpanTiles + i) * contexts.record;
          }
          set.attention.attend_span(shape, span, task / spans, queries.data(), users * group);
        }
      });
    });
    print_line("shared  " + model + " 32 users, " + std::to_string(contexts.tokens) + " tokens", team.size(), rates, 0,
               static_cast<double>(users) * spans * kSpanTokens * shape.heads * shape.head_dim * 2);
  }
}

void run_all(const Options& options, const KernelSet& set) {
  for (const std::string& name : options.cases) {
    for (const std::string& model : options.models) {
      if (name == "decode") {
        run_decode(options, set, model);
      } else if (name == "shared") {
        run_shared(options, set, model);
      } else if (name == "prefill") {
        run_prefill(options, set, model);
      } else if (name == "cascade") {
        run_cascade(options, set, model);
      } else if (name == "plan") {
        run_plan(options, set, model);
      } else {
        fail("no case '" + name + "': decode, shared, prefill, cascade, plan");
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  using namespace quire::kernels;
  Options options;
  CLI::App app("Attention against the read bandwidth and the multiply-add peak of this machine.");
  app.add_option("--case", options.cases, "decode, shared, prefill, cascade, plan")->delimiter(',');
  app.add_option("--model", options.models, "smollm2, llama-8b, gemma3-270m")->delimiter(',');
  app.add_option("--context", options.contexts, "tokens, a multiple of 128 for the shared case")->delimiter(',');
  app.add_option("--users", options.users, "of the decode case")->delimiter(',');
  app.add_option("--threads", options.threads)->delimiter(',');
  app.add_option("--format", options.format, "of tile records: f16 or f32");
  app.add_option("--isa", options.isa, "instead of the fastest of this processor");
  app.add_option("--seconds", options.seconds, "of each line");
  app.add_option("--cold-mib", options.cold_mib, "tile records that decoding walks through");
  app.add_flag("--smoke", options.smoke, "small");
  CLI11_PARSE(app, argc, argv);
  if (options.smoke) {
    options.contexts = {128};
    options.users = {1};
    options.seconds = 0.001;
    options.cold_mib = 1;
  }
  const auto isa = options.isa.empty() ? best_kernel_set().isa : isa_from(options.isa);
  const KernelSet* set = isa ? kernel_set(*isa) : nullptr;
  if (set == nullptr) fail("this processor has no '" + options.isa + "'");
  std::printf("%s\n", std::string(to_string(set->isa)).c_str());
  run_all(options, *set);
  return 0;
}
