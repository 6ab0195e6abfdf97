#include "tests/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace quire::simulation {
namespace {

using engine::ReplyEnd;

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMostSteps = 200'000;

std::vector<TokenId> letters(const tokenizer::Tokenizer& tokenizer) {
  std::vector<TokenId> alphabet;
  for (char letter = 'a'; letter <= 'z'; ++letter) alphabet.push_back(tokenizer.encode(std::string(1, letter)).value().front());
  return alphabet;
}

FakeLawOptions law_options(const Scenario& scenario, const tokenizer::Tokenizer& tokenizer) {
  return {.seed = scenario.seed,
          .windows = scenario.windows,
          .alphabet = letters(tokenizer),
          .end_of_text = tokenizer.eos().value(),
          .ends_one_in = scenario.ends_one_in};
}

FakeModelOptions model_options(const Scenario& scenario, const tokenizer::Tokenizer& tokenizer) {
  FakeModelOptions options = scenario.model;
  options.vocabulary = static_cast<int>(tokenizer.vocab_size()) + 3;  // some models have more rows than tokens
  return options;
}

// A random time around the mean, often near 0.
int64_t pause_around(test_support::Random& random, int64_t mean_ns) {
  const auto parts = static_cast<int64_t>(random.below(1000));
  return mean_ns * parts / 1000 * parts / 300;
}

}  // namespace

Simulation::Simulation(const Scenario& scenario, const tokenizer::Tokenizer& tokenizer, bool narrate)
    : scenario_(scenario),
      tokenizer_(tokenizer),
      narrate_(narrate),
      random_(mix(scenario.seed)),
      alphabet_(letters(tokenizer)),
      law_(law_options(scenario, tokenizer)),
      vm_({.granule = scenario.granule, .real_memory = true}),
      model_(law_, model_options(scenario, tokenizer), clock_ns_),
      traffic_(scenario_, alphabet_, random_),
      events_left_(scenario.events) {
  {
    // The cache says itself what a full context needs.
    const kv::KvCache asked(vm_, scenario.groups, {.limit = Bytes(0), .share = true, .segments = scenario.segments});
    const TokenCount step = std::min(scenario.scheduler.step_tokens, TokenCount(model_.max_rows()));
    const Bytes full = asked.growth_bytes(TokenCount(0), scenario.context, step);
    budget_ = Bytes(static_cast<int64_t>(static_cast<double>(full.value) * scenario.budget_factor));
  }
  ceiling_ = followed_ceiling_ = highest_told_ = budget_;
  cache_ = std::make_unique<kv::KvCache>(
      vm_, scenario.groups, kv::KvCacheOptions{.limit = budget_, .share = scenario.share, .segments = scenario.segments});
  loop_ = std::make_unique<engine::StepLoop>(model_, tokenizer, *cache_,
                                             engine::StepLoopOptions{.scheduler = scenario.scheduler,
                                                                     .context = scenario.context,
                                                                     .stream_capacity = scenario.stream_capacity,
                                                                     .background_backing = scenario.background_backing,
                                                                     .now_ns = [this] { return clock_ns_; },
                                                                     .ceiling = [this] { return followed_ceiling_ = ceiling_; }});
  next_event_ns_ = last_progress_ns_ = clock_ns_;
}

Simulation::~Simulation() = default;

Bytes Simulation::need(TokenCount length) const {
  const TokenCount step = std::min(scenario_.scheduler.step_tokens, TokenCount(model_.max_rows()));
  return cache_->growth_bytes(TokenCount(0), length, step);
}

void Simulation::fail(const std::string& what) {
  if (outcome_.failure.empty()) {
    outcome_.failure = fmt::format("step {}, {} us: {}", outcome_.steps, (clock_ns_ - kSecond) / 1000, what);
  }
}

void Simulation::note(std::string_view what, std::initializer_list<int64_t> numbers) {
  uint64_t hash = mix(outcome_.trace_hash ^ static_cast<uint64_t>(clock_ns_));
  for (const char letter : what) hash = mix(hash ^ static_cast<uint64_t>(letter));
  for (const int64_t number : numbers) hash = mix(hash ^ static_cast<uint64_t>(number));
  outcome_.trace_hash = hash;
  if (!narrate_) return;
  std::printf("%9.3f ms %-10.*s", static_cast<double>(clock_ns_ - kSecond) / kMillisecond, static_cast<int>(what.size()),
              what.data());
  for (const int64_t number : numbers) std::printf(" %lld", static_cast<long long>(number));
  std::printf("\n");
}

Outcome Simulation::run() {
  while (outcome_.failure.empty()) {
    happen();
    read_all();
    if (quiet_ && all_over()) break;
    step();
    if (outcome_.steps > kMostSteps) fail("it does not come to an end");
  }
  if (outcome_.failure.empty()) check_drained();
  if (outcome_.failure.empty()) judge();
  outcome_.virtual_ns = clock_ns_ - kSecond;
  outcome_.requests = static_cast<int64_t>(clients_.size());
  note("end", {static_cast<int64_t>(model_.trace())});
  loop_.reset();
  cache_.reset();
  if (vm_.counters().reserved.value != 0 || vm_.counters().backed.value != 0) {
    fail(fmt::format("{} are still reserved, {} backed", format_bytes(vm_.counters().reserved),
                     format_bytes(vm_.counters().backed)));
  }
  return std::move(outcome_);
}

// --- What happens outside

void Simulation::happen() {
  while (!quiet_ && clock_ns_ >= next_event_ns_) {
    if (events_left_-- == 0) {
      become_quiet();
      return;
    }
    uint32_t total = 0;
    for (const uint32_t weight : scenario_.weights) total += weight;
    uint32_t drawn = random_.below(total);
    size_t kind = 0;
    while (drawn >= scenario_.weights[kind]) drawn -= scenario_.weights[kind++];
    deliver(static_cast<EventKind>(kind));
    next_event_ns_ += pause_around(random_, scenario_.pause_ns);
  }
}

void Simulation::deliver(EventKind kind) {
  switch (kind) {
    case EventKind::kCancel: return cancel_somebody();
    case EventKind::kCeiling: {
      const double lowest = scenario_.lowest_ceiling;
      const double part = chance(3) ? 1 : lowest + (1 - lowest) * random_.below(1000) / 1000;
      ceiling_ = Bytes(static_cast<int64_t>(static_cast<double>(budget_.value) * part));
      limit_fell_ = limit_fell_ || ceiling_ < budget_;
      return note("ceiling", {ceiling_.value});
    }
    case EventKind::kSystemMemory: {
      const int64_t part = chance(2) ? 1000 : 100 + random_.below(900);
      vm_.set_physical_limit(part == 1000 ? Bytes(INT64_MAX) : Bytes(budget_.value * part / 1000));
      limit_fell_ = limit_fell_ || part < 1000;
      return note("system", {part});
    }
    case EventKind::kClear: loop_->clear_cache(); return note("clear", {});
    case EventKind::kRest: next_event_ns_ += pause_around(random_, scenario_.pause_ns * 50); return;
    default:
      for (engine::Request& request : traffic_.requests(kind, clients_, clock_ns_)) submit(std::move(request));
  }
}

void Simulation::submit(engine::Request request) {
  auto client = std::make_unique<Client>(static_cast<int64_t>(clients_.size()), std::move(request), law_, tokenizer_,
                                         scenario_.context, model_.vocabulary());
  if (random_.below(10) < scenario_.slow_readers_in_ten) {
    client->slow = true;
    client->pause_ns = 1 + pause_around(random_, 200 * kMillisecond);
  }
  model_.expect(client->history());
  auto stream = loop_->submit(client->request());
  if (!stream.ok()) return fail(fmt::format("request {} is not taken: {}", client->id(), stream.error().message));
  client->submitted(*std::move(stream), clock_ns_);
  note("submit", {client->id(), static_cast<int64_t>(client->request().prompt.size()), client->request().reply.max_tokens.value,
                  client->expected().tokens});
  clients_.push_back(std::move(client));
}

// Often somebody who has no token yet: others may be waiting for what he computes.
void Simulation::cancel_somebody() {
  std::vector<Client*> candidates;
  const bool before_first = chance(2);
  for (const auto& client : clients_) {
    if (!client->over() && !client->cancelled() && (!before_first || client->got().empty())) candidates.push_back(client.get());
  }
  if (candidates.empty()) return;
  Client& client = *candidates[random_.below(static_cast<uint32_t>(candidates.size()))];
  client.cancel(chance(3));
  note("cancel", {client.id(), client.dropped()});
}

// Nobody comes any more, nobody is slow, and there is as much memory as ever.
void Simulation::become_quiet() {
  quiet_ = true;
  quiet_since_ns_ = last_progress_ns_ = clock_ns_;
  ceiling_ = budget_;
  vm_.set_physical_limit(Bytes(INT64_MAX));
  for (const auto& client : clients_) client->pause_ns = client->next_read_ns = 0;
  note("quiet", {});
}

void Simulation::read_all() {
  for (const auto& client : clients_) {
    if (client->over()) continue;
    const size_t before = client->got().size();
    if (client->read(clock_ns_) || client->over()) last_progress_ns_ = clock_ns_;
    if (client->got().size() > before) note("read", {client->id(), static_cast<int64_t>(client->got().size())});
    if (client->result()) note("ended", {client->id(), static_cast<int64_t>(client->result()->end), client->result()->suspensions});
  }
}

// --- The steps

bool Simulation::all_over() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->over(); });
}

void Simulation::step() {
  const int64_t began = clock_ns_;
  const bool busy = loop_->step();
  ++outcome_.steps;
  longest_step_ns_ = std::max(longest_step_ns_, clock_ns_ - began);
  outcome_.statistics = loop_->statistics();
  check_step(busy);
  if (!outcome_.failure.empty()) return;
  if (!busy) return go_to_next_moment();
  steps_without_time_ = clock_ns_ == began ? steps_without_time_ + 1 : 0;
  if (steps_without_time_ > 1000) fail("a thousand steps that computed nothing, each busy");
}

// Nothing to do: to the next thing that happens outside, or that the loop has said.
void Simulation::go_to_next_moment() {
  std::optional<int64_t> next = loop_->idle_until_ns();
  const auto consider = [&](int64_t moment) { next = std::min(next.value_or(moment), moment); };
  if (!quiet_) consider(next_event_ns_);
  for (const auto& client : clients_) {
    if (!client->over() && (client->next_read_ns > clock_ns_ || client->stream_ended())) consider(client->next_read_ns);
  }
  if (!next) return fail("nothing will ever happen again, and not all are answered");
  if (*next > clock_ns_) {
    clock_ns_ = *next;
    steps_without_time_ = 0;
  } else if (++steps_without_time_ > 1000) {
    fail("a thousand idle steps, each asking to be called at once");
  }
}

void Simulation::check_step(bool busy) {
  if (!model_.failure().empty()) return fail("the model: " + model_.failure());
  if (const std::string broken = loop_->verify(); !broken.empty()) return fail("verify: " + broken);
  check_memory();
  check_clients();
  const sched::Scheduler::Counts& jobs = outcome_.statistics.jobs;
  if (busy) {
    note("step", {static_cast<int64_t>(jobs.running), static_cast<int64_t>(jobs.waiting), static_cast<int64_t>(jobs.suspended),
                  outcome_.statistics.memory.backed.value, outcome_.statistics.computed_tokens});
  }
}

void Simulation::check_memory() {
  const kv::Usage usage = cache_->usage();
  const Bytes sum = usage.live + usage.shared + usage.cached + usage.warm + usage.page_tables;
  if (sum != usage.backed) return fail(fmt::format("the purposes sum to {}, backed are {}", sum.value, usage.backed.value));
  if (const Bytes real = vm_.counters().backed; real != usage.backed - usage.page_tables) {
    return fail(
        fmt::format("the machine backs {}, the ledger {} and page tables", real.value, (usage.backed - usage.page_tables).value));
  }
  if (usage.backed > usage.limit && usage.backed > backed_before_) {
    return fail(fmt::format("{} are backed, more than the limit of {} and than before, {}", usage.backed.value, usage.limit.value,
                            backed_before_.value));
  }
  backed_before_ = usage.backed;
  highest_told_ = std::max({highest_told_, usage.limit, followed_ceiling_});
  for (const auto& client : clients_) {
    if (client->gone_ns) continue;
    client->lowest_limit = std::min({client->lowest_limit, usage.limit, followed_ceiling_});
    client->highest_limit = highest_told_;
  }
}

void Simulation::check_clients() {
  constexpr int64_t kStandstill = 120 * kSecond;
  for (const auto& client : clients_) {
    if (client->gone_ns) continue;
    if (client->over()) {
      client->gone_ns = clock_ns_;
      model_.forget(client->history());
      continue;
    }
    if (client->cancelled()) {
      // The step has seen it: what is left is reading.
      while (client->read(clock_ns_)) {
      }
      if (!client->over()) return fail(fmt::format("request {} was cancelled before the step and goes on", client->id()));
      last_progress_ns_ = clock_ns_;
      continue;
    }
    const std::optional<int64_t> deadline = client->request().deadline_ns;
    if (deadline && clock_ns_ > *deadline + 2 * longest_step_ns_ + kMillisecond && client->pause_ns == 0) {
      return fail(fmt::format("request {} had a deadline {} us ago", client->id(), (clock_ns_ - *deadline) / 1000));
    }
  }
  if (clock_ns_ - last_progress_ns_ > kStandstill && !all_over()) fail("no token and no end for two minutes");
}

}  // namespace quire::simulation
