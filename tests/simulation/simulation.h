// One run of the real cache, scheduler and step loop over simulated memory, with a fake model and a virtual clock: everything that
// happens depends on the seed alone.
//
// After every step: verify() of all parts, the fake model's findings, the ledger against the simulated machine. At the end: a quiet
// phase in which everybody must be answered, every reply compared with what its prompt gets alone, and all memory given back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "port/sim_vm.h"
#include "tests/simulation/client.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/traffic.h"
#include "tokenizer/tokenizer.h"

namespace quire::simulation {

struct Outcome {
  std::string failure;  // empty: none
  uint64_t trace_hash = 0;

  int64_t requests = 0;
  int64_t steps = 0;
  int64_t virtual_ns = 0;
  int64_t refused = 0, cut = 0, cancelled = 0, late = 0;
  engine::LoopStatistics statistics;
};

class Simulation {
 public:
  // The tokenizer must outlive it. `narrate`: what happens goes to stdout.
  Simulation(const Scenario& scenario, const tokenizer::Tokenizer& tokenizer, bool narrate);
  ~Simulation();

  // Once.
  [[nodiscard]] Outcome run();

 private:
  // What happens outside of the steps.
  void happen();
  void deliver(EventKind kind);
  void submit(engine::Request request);
  void cancel_somebody();
  void become_quiet();
  void read_all();

  // The steps, and what is checked after each.
  [[nodiscard]] bool all_over() const;
  void step();
  void go_to_next_moment();
  void check_step(bool busy);
  void check_memory();
  void check_clients();

  // The end.
  void check_drained();
  void judge();
  void judge_fit(const Client& client);
  void judge_elders();
  void judge_reuse();
  void judge_work();

  // Bytes that so many tokens need alone.
  [[nodiscard]] Bytes need(TokenCount length) const;
  [[nodiscard]] bool chance(uint32_t one_in) { return random_.below(one_in) == 0; }
  void fail(const std::string& what);
  void note(std::string_view what, std::initializer_list<int64_t> numbers);

  const Scenario scenario_;
  const tokenizer::Tokenizer& tokenizer_;
  const bool narrate_;
  test_support::Random random_;
  std::vector<TokenId> alphabet_;
  FakeLaw law_;
  int64_t clock_ns_ = 1'000'000'000;
  Bytes budget_;
  Bytes ceiling_;
  Bytes followed_ceiling_;  // what the loop was told last: it asks now and then
  Bytes highest_told_;      // a ceiling that dips refuses nobody, so that what was told before a request came counts too

  port::SimVm vm_;
  FakeModel model_;
  std::unique_ptr<kv::KvCache> cache_;
  std::unique_ptr<engine::StepLoop> loop_;
  Traffic traffic_;
  std::vector<std::unique_ptr<Client>> clients_;  // all that ever came

  int events_left_ = 0;
  int64_t next_event_ns_ = 0;
  bool quiet_ = false;
  bool limit_fell_ = false;  // ever
  int64_t quiet_since_ns_ = 0;
  int64_t last_progress_ns_ = 0;  // when a token came or a request ended
  int64_t longest_step_ns_ = 0;
  int64_t steps_without_time_ = 0;
  Bytes backed_before_;
  Outcome outcome_;
};

}  // namespace quire::simulation
