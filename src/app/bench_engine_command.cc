// quire bench engine: how fast one user's prompt is read and his reply written, and how much of the memory's speed that takes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "app/command.h"
#include "app/model_flags.h"
#include "app/output.h"
#include "app/progress.h"
#include "engine/bandwidth.h"
#include "engine/step_loop.h"
#include "port/machine.h"

namespace quire::app {
namespace {

struct BenchFlags {
  ModelFlags model;
  int64_t prompt = 512;
  int64_t reply = 128;
  int users = 1;
  int runs = 5;
  bool json = false;
};

struct Measurement {
  double prefill_tps;
  double decode_tps;
  double memory_gbps;      // mean of what was measured before and after the run
  double bandwidth_share;  // bytes that decoding must read, over what could be read in that time
};

// Ordinary tokens at random, the same for every run: speed does not depend on which they are.
std::vector<TokenId> random_prompt(const engine::Engine& engine, int64_t length) {
  std::vector<TokenId> ordinary;
  for (TokenId id = 0; id < engine.config().vocabulary; ++id) {
    if (engine.tokenizer().contains(id) && !engine.tokenizer().is_control(id)) ordinary.push_back(id);
  }
  if (ordinary.empty()) ordinary.push_back(0);
  std::mt19937 random(1);
  std::vector<TokenId> tokens;
  while (static_cast<int64_t>(tokens.size()) < length) tokens.push_back(ordinary[random() % ordinary.size()]);
  return tokens;
}

// Bytes that a decoding step must read at least: all weights (the embedding only where it is the output), and the keys and values.
double bytes_of_step(const engine::Engine& engine, TokenCount length) {
  double bytes = static_cast<double>(engine.weight_bytes().value);
  if (!engine.config().tied_output) bytes -= static_cast<double>(engine.embedding_bytes().value);
  for (const kv::LayerGroupSpec& group : engine.layer_groups()) {
    const int64_t seen = group.window ? std::min(*group.window, length.value) : length.value;
    bytes += static_cast<double>(kv::bytes_per_token(group).value) * static_cast<double>(seen);
  }
  return bytes;
}

Result<Measurement> measure_once(engine::Engine& engine, engine::BandwidthProbe& probe, const BenchFlags& flags,
                                 const std::vector<TokenId>& prompt) {
  engine::StepLoopOptions options = engine.loop_options();
  options.stream_capacity = static_cast<size_t>(flags.reply) + 1;  // nobody reads meanwhile
  engine::StepLoop loop(engine.runner(), engine.tokenizer(), engine.cache(), options);
  const double bandwidth_before = probe.measure();

  QUIRE_TRY(const std::shared_ptr<engine::ReplyStream> stream,
            loop.submit({.prompt = prompt,
                         .reply = {.sampling = {.temperature = 0}, .max_tokens = TokenCount(flags.reply), .ignore_end = true}}));
  while (loop.step()) {
  }
  const engine::ReplyResult& result = stream->result();
  if (result.error) return *result.error;
  const double prefill_seconds = static_cast<double>(result.first_token_ns - result.started_ns) * 1e-9;
  const double decode_seconds = static_cast<double>(result.ended_ns - result.first_token_ns) * 1e-9;

  const double bandwidth = (bandwidth_before + probe.measure()) / 2;
  const double decode_tps = flags.reply > 1 ? static_cast<double>(flags.reply - 1) / decode_seconds : 0;
  const TokenCount middle(flags.prompt + flags.reply / 2);
  return Measurement{.prefill_tps = static_cast<double>(flags.prompt) / prefill_seconds,
                     .decode_tps = decode_tps,
                     .memory_gbps = bandwidth / 1e9,
                     .bandwidth_share = bytes_of_step(engine, middle) * decode_tps / bandwidth};
}

double median(std::vector<Measurement> runs, double Measurement::*field) {
  std::sort(runs.begin(), runs.end(), [&](const Measurement& a, const Measurement& b) { return a.*field < b.*field; });
  return runs[runs.size() / 2].*field;
}

nlohmann::ordered_json to_json(const BenchFlags& flags, const engine::Engine& engine, const std::vector<Measurement>& runs) {
  return {{"users", flags.users},
          {"prompt_tokens", flags.prompt},
          {"new_tokens", flags.reply},
          {"threads", engine.threads()},
          {"isa", kernels::to_string(engine.kernels().isa)},
          {"runs", runs.size()},
          {"prefill_tps", median(runs, &Measurement::prefill_tps)},
          {"decode_tps", median(runs, &Measurement::decode_tps)},
          {"memory_gbps", median(runs, &Measurement::memory_gbps)},
          {"bandwidth_share", median(runs, &Measurement::bandwidth_share)},
          {"rss_mib", port::process_memory().peak_resident.value >> 20}};
}

Status bench_engine(const BenchFlags& flags) {
  QUIRE_TRY(engine::EngineOptions options, engine_options(flags.model));
  options.share = false;  // every run computes its prompt
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load_engine(options));
  if (flags.prompt + flags.reply > engine->config().context_length) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--prompt and --new are {} tokens together, the model was made for {}; ask for fewer",
                                  flags.prompt + flags.reply, engine->config().context_length));
  }
  QUIRE_TRY(engine::BandwidthProbe probe, engine::BandwidthProbe::create(engine->team()));
  const std::vector<TokenId> prompt = random_prompt(*engine, flags.prompt);
  ProgressLine progress("measuring");
  std::vector<Measurement> runs;
  for (int run = 0; run <= flags.runs; ++run) {
    QUIRE_TRY(const Measurement measured, measure_once(*engine, probe, flags, prompt));
    if (run > 0) runs.push_back(measured);  // the first one warms up
    progress.update(run + 1, flags.runs + 1);
  }
  const nlohmann::ordered_json report = to_json(flags, *engine, runs);
  if (flags.json) {
    print_output("{}\n", report.dump());
    return {};
  }
  print_output("prefill  {:>8.1f} tokens/s  ({} tokens)\n", report["prefill_tps"].get<double>(), flags.prompt);
  print_output("decode   {:>8.1f} tokens/s  ({} tokens)\n", report["decode_tps"].get<double>(), flags.reply);
  print_output("memory   {:>8.1f} GB/s read by {} threads; decoding needs {:.0f} % of it\n", report["memory_gbps"].get<double>(),
               engine->threads(), 100 * report["bandwidth_share"].get<double>());
  print_output("median of {} runs, {}, {} MiB resident at most\n", flags.runs, kernels::to_string(engine->kernels().isa),
               report["rss_mib"].get<int64_t>());
  return {};
}

}  // namespace

Command bench_engine_command(CLI::App& bench) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* line = bench.add_subcommand("engine", "Measure prefill and decode of a model");
  add_model_flags(*line, flags->model);
  line->add_option("-p,--prompt", flags->prompt, "Tokens of the prompt")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  line->add_option("-n,--new", flags->reply, "Tokens of the reply")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  line->add_option("--users", flags->users, "Users at once; this version runs one")->check(CLI::Range(1, 1))->capture_default_str();
  line->add_option("--runs", flags->runs, "Runs of which the median is taken")->check(CLI::Range(1, 1000))->capture_default_str();
  line->add_flag("--json", flags->json, "Print JSON");
  line->footer("Example: quire bench engine -m models/SmolLM2-135M-Instruct.Q4_1.gguf --prompt 512 --new 128 --users 1 --json");
  return {.line = line, .run = [flags] { return bench_engine(*flags); }};
}

}  // namespace quire::app
