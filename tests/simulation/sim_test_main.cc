// quire-sim-test --seed N | --seeds A..B [--verbose] [--twice]: deterministic simulation of the engine (simulation.h).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/simulation/simulation.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_models.h"
#include "tokenizer/vocabulary_gguf.h"

namespace {

using namespace quire;

// What a failed check and a wild pointer leave is the seed.
char failing_seed[64] = "";

extern "C" void say_seed(int signal) {
  (void)!write(STDERR_FILENO, failing_seed, sizeof failing_seed);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

tokenizer::Tokenizer make_tokenizer() {
  test_support::GgufWriter writer;
  test_support::add_tiny_bpe_tokenizer(writer);
  const std::vector<std::byte> bytes = writer.bytes();
  const gguf::File file = gguf::File::parse(bytes).value();
  return tokenizer::Tokenizer::create(tokenizer::vocabulary_from(file).value()).value();
}

simulation::Outcome run_seed(uint64_t seed, const tokenizer::Tokenizer& tokenizer, bool verbose) {
  std::snprintf(failing_seed, sizeof failing_seed, "\nsimulation of seed %llu\n", static_cast<unsigned long long>(seed));
  const simulation::Scenario scenario = simulation::make_scenario(seed);
  if (verbose) fmt::print("seed {}\n{}", seed, scenario.describe());
  return simulation::Simulation(scenario, tokenizer, verbose).run();
}

struct Seeds {
  uint64_t first = 0;
  uint64_t last = 199;
};

bool parse_seeds(const std::string& text, Seeds& seeds) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return false;
  return CLI::detail::lexical_cast(text.substr(0, dots), seeds.first) &&
         CLI::detail::lexical_cast(text.substr(dots + 2), seeds.last) && seeds.first <= seeds.last;
}

void report(uint64_t seed, const simulation::Outcome& outcome) {
  const engine::LoopStatistics& done = outcome.statistics;
  fmt::print(
      "seed {}: trace {:016x}, {} requests, {} steps, {} ms; {} tokens of prompts, {} reused, {} computed ({} again), {} "
      "generated; "
      "{} suspensions, {} refused, {} cut, {} cancelled, {} late\n",
      seed, outcome.trace_hash, outcome.requests, outcome.steps, outcome.virtual_ns / 1'000'000, done.prompt_tokens,
      done.reused_tokens, done.computed_tokens, done.recomputed_tokens, done.generated_tokens, done.jobs.suspensions,
      outcome.refused, outcome.cut, outcome.cancelled, outcome.late);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Deterministic simulation of the engine over simulated memory; a seed replays to the same trace.");
  uint64_t seed = 0;
  std::string range;
  bool verbose = false;
  bool twice = false;
  auto* one = app.add_option("--seed", seed, "run this seed");
  app.add_option("--seeds", range, "run the seeds A..B, both included")->excludes(one);
  app.add_flag("--verbose", verbose, "say what happens");
  app.add_flag("--twice", twice, "run each seed twice and compare the traces");
  CLI11_PARSE(app, argc, argv);
  Seeds seeds;
  if (*one) seeds = {seed, seed};
  if (!range.empty() && !parse_seeds(range, seeds)) {
    fmt::print(stderr, "--seeds {}: write two numbers as 0..199\n", range);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGTERM}) std::signal(signal, say_seed);

  const tokenizer::Tokenizer tokenizer = make_tokenizer();
  int failed = 0;
  for (uint64_t current = seeds.first; current <= seeds.last; ++current) {
    const simulation::Outcome outcome = run_seed(current, tokenizer, verbose);
    std::string failure = outcome.failure;
    if (twice && failure.empty() && run_seed(current, tokenizer, false).trace_hash != outcome.trace_hash) {
      failure = "a second run had another trace";
    }
    if (verbose || *one) report(current, outcome);
    if (failure.empty()) continue;
    ++failed;
    fmt::print("seed {} FAILED: {}\n", current, failure);
  }
  fmt::print("{} of {} seeds failed\n", failed, seeds.last - seeds.first + 1);
  return failed == 0 ? 0 : 1;
}
