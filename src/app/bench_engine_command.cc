// quire bench engine: how fast many users' prompts are read and their replies written, what that takes of the memory, and where
// memory ends.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/command.h"
#include "app/engine_benchmark.h"
#include "app/model_flags.h"
#include "app/output.h"
#include "app/progress.h"
#include "port/machine.h"

namespace quire::app {
namespace {

struct BenchFlags {
  ModelFlags model;
  UserFlags user;
  std::string users = "1";
  EngineLoad load;
  int runs = 3;
  bool sweep = false;
  bool json = false;
};

constexpr int kMostUsers = 4096;

Result<std::vector<int>> user_counts(const std::string& text) {
  std::vector<int> counts;
  for (const char* at = text.data(); at <= text.data() + text.size();) {
    const char* end = std::find(at, text.data() + text.size(), ',');
    int count = 0;
    const auto [rest, failed] = std::from_chars(at, end, count);
    if (failed != std::errc() || rest != end || count < 1 || count > kMostUsers) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("--users: {} is no list of numbers from 1 to {}; write 1,8,32", one_line(text), kMostUsers));
    }
    counts.push_back(count);
    at = end + 1;
  }
  return counts;
}

// Of several runs the one whose decoding is the median.
EngineMeasurement median(std::vector<EngineMeasurement> runs) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.decode_tps < b.decode_tps; });
  EngineMeasurement middle = runs[runs.size() / 2];
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.prefill_tps < b.prefill_tps; });
  middle.prefill_tps = runs[runs.size() / 2].prefill_tps;
  return middle;
}

nlohmann::ordered_json to_json(const engine::Engine& engine, const EngineLoad& load, const EngineMeasurement& m) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes.value) / (1 << 20); };
  return {{"users", load.users},
          {"shared_prefix", load.shared_prefix},
          {"prompt", load.prompt},
          {"prompt_tokens", m.prompt_tokens},
          {"new_tokens", m.new_tokens},
          {"threads", engine.threads()},
          {"isa", kernels::to_string(engine.kernels().isa)},
          {"prefill_tps", m.prefill_tps},
          {"decode_tps", m.decode_tps},
          {"total_tps", m.total_tps},
          {"step_ms_p50", m.step_ms_p50},
          {"step_ms_p99", m.step_ms_p99},
          {"memory_gbps", m.memory_gbps},
          {"bandwidth_share", m.bandwidth_share},
          {"allocation_mbps", m.allocation_mbps},
          {"allocation_mbps_max", m.allocation_mbps_max},
          {"computed_tokens", m.statistics.computed_tokens},
          {"reused_tokens", m.statistics.reused_tokens},
          {"kv_peak_mib", mib(m.statistics.peak_memory.backed)},
          {"kv_peak_live_mib", mib(m.statistics.peak_memory.live)},
          {"kv_peak_shared_mib", mib(m.statistics.peak_memory.shared)},
          {"rss_mib", port::process_memory().peak_resident.value >> 20}};
}

Status check_context(const engine::Engine& engine, const EngineLoad& load) {
  const int64_t longest = load.shared_prefix + load.prompt + load.reply;
  if (longest <= engine.config().context_length) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("--shared-prefix, --prompt and --new are {} tokens together, the model was made for {}; ask for fewer", longest,
                  engine.config().context_length));
}

void print_header() {
  print_output("{:>6} {:>12} {:>12} {:>12} {:>9} {:>9} {:>10} {:>9} {:>9}\n", "users", "prefill t/s", "decode t/s", "total t/s",
               "step p50", "step p99", "alloc MB/s", "KV MiB", "of memory");
}

void print_row(const EngineLoad& load, const EngineMeasurement& m) {
  print_output("{:>6} {:>12.1f} {:>12.1f} {:>12.1f} {:>6.1f} ms {:>6.1f} ms {:>10.1f} {:>9} {:>7.0f} %\n", load.users,
               m.prefill_tps, m.decode_tps, m.total_tps, m.step_ms_p50, m.step_ms_p99, m.allocation_mbps,
               m.statistics.peak_memory.backed.value >> 20, 100 * m.bandwidth_share);
}

Status bench_users(engine::Engine& engine, engine::BandwidthProbe& probe, const BenchFlags& flags, const std::vector<int>& counts) {
  sched::SchedulerOptions scheduler;
  apply(flags.user, scheduler);
  // What comes first finds cold caches and processors at rest.
  const Result<EngineMeasurement> warm_up = measure(engine, probe, {.users = 1, .prompt = 32, .reply = 8}, scheduler);
  if (!warm_up.ok()) return warm_up.error();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  ProgressLine progress("measuring");
  for (size_t i = 0; i < counts.size(); ++i) {
    EngineLoad load = flags.load;
    load.users = counts[i];
    std::vector<EngineMeasurement> runs;
    for (int run = 0; run < flags.runs; ++run) {
      QUIRE_TRY(const EngineMeasurement measured, measure(engine, probe, load, scheduler));
      runs.push_back(measured);
      progress.update(static_cast<int64_t>(i) * flags.runs + run + 1, static_cast<int64_t>(counts.size()) * flags.runs);
    }
    const EngineMeasurement middle = median(std::move(runs));
    list.push_back(to_json(engine, load, middle));
    if (flags.json) continue;
    if (i == 0) print_header();
    print_row(load, middle);
  }
  if (flags.json) {
    print_output("{}\n", (counts.size() == 1 ? list[0] : list).dump());
    return {};
  }
  print_output(
      "{} tokens of prompt after {} shared ones, {} new; medians of {} runs, {}, {} threads, {:.0f} GB/s read, {} MiB resident\n",
      flags.load.prompt, flags.load.shared_prefix, flags.load.reply, flags.runs, kernels::to_string(engine.kernels().isa),
      engine.threads(), list.back()["memory_gbps"].get<double>(), list.back()["rss_mib"].get<int64_t>());
  return {};
}

// More and more users with contexts of the same length, until memory could not simply be had. The contexts of those who were there
// before are still cached, so that each size computes only the prompts of the newcomers.
Status sweep(engine::Engine& engine, engine::BandwidthProbe& probe, const BenchFlags& flags, int most) {
  sched::SchedulerOptions scheduler;
  apply(flags.user, scheduler);
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  MemoryLimit limit;
  ProgressLine progress("measuring");
  engine.cache().clear();
  for (int users = 1; limit.what.empty();) {
    EngineLoad load = flags.load;
    load.users = users;
    QUIRE_TRY(const EngineMeasurement measured, measure(engine, probe, load, scheduler, true, &limit));
    if (!limit.what.empty()) break;
    steps.push_back(to_json(engine, load, measured));
    if (!flags.json) {
      if (steps.size() == 1) print_header();
      print_row(load, measured);
    }
    progress.update(users, most);
    if (users == most) break;
    users = std::min(most, users < 64 ? users * 2 : users + 64);
  }
  const bool found = !limit.what.empty();
  if (flags.json) {
    nlohmann::ordered_json report = {
        {"sweep", steps}, {"limit", nullptr}, {"kv_limit_mib", engine.cache().usage().limit.value >> 20}};
    if (found) report["limit"] = {{"what", limit.what}, {"request", limit.running + 1}};
    print_output("{}\n", report.dump());
    return {};
  }
  if (found) {
    print_output("request {} is the first that needs {}: the KV cache of {} is full\n", limit.running + 1, limit.what,
                 format_bytes(engine.cache().usage().limit));
  } else {
    print_output("{} requests of {} tokens fit the KV cache of {} without eviction, suspension, recomputation or refusal\n", most,
                 flags.load.shared_prefix + flags.load.prompt + flags.load.reply, format_bytes(engine.cache().usage().limit));
  }
  return {};
}

Status bench_engine(const BenchFlags& flags) {
  QUIRE_TRY(const std::vector<int> counts, user_counts(flags.users));
  if (flags.sweep && counts.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument, "--sweep goes up to one number of --users, not a list");
  }
  QUIRE_TRY(const engine::EngineOptions options, engine_options(flags.model));
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load_engine(options));
  QUIRE_TRY_STATUS(check_context(*engine, flags.load));
  QUIRE_TRY(engine::BandwidthProbe probe, engine::BandwidthProbe::create(engine->team()));
  return flags.sweep ? sweep(*engine, probe, flags, counts.front()) : bench_users(*engine, probe, flags, counts);
}

}  // namespace

Command bench_engine_command(CLI::App& bench) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* line = bench.add_subcommand("engine", "Measure prefill and decode of a model for one or many users");
  add_model_flags(*line, flags->model);
  flags->user.itl_target_ms = 10'000;  // whole chunks: nobody waits here
  add_user_flags(*line, flags->user);
  line->add_option("--users", flags->users, "Users at once: a number, or several with commas; with --sweep the largest")
      ->capture_default_str();
  line->add_option("--shared-prefix", flags->load.shared_prefix,
                   "Tokens that all prompts begin with, computed before the clock starts")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  line->add_option("-p,--prompt", flags->load.prompt, "Tokens of each user's own prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  line->add_option("-n,--new", flags->load.reply, "New tokens of each user")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  line->add_option("--runs", flags->runs, "Runs of which the median is taken")->check(CLI::Range(1, 1000))->capture_default_str();
  line->add_flag("--sweep", flags->sweep, "More and more users, up to --users, until memory cannot simply be had");
  line->add_flag("--json", flags->json, "Print JSON: an object, or a list for several numbers of users");
  line->footer("Example: quire bench engine -m models/SmolLM2-135M-Instruct.Q4_1.gguf --users 1,8,32 --prompt 512 --new 64 --json");
  return {.line = line, .run = [flags] { return bench_engine(*flags); }};
}

}  // namespace quire::app
