// For tests: a memory and an engine that are obviously right and as slow as they like. They carry out the scheduler's plans and
// keep their own account of every job's state, to compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sched/cost_model.h"
#include "sched/scheduler.h"

namespace quire::sched {

// A byte a token, in tiles of `tile` tokens. Jobs of a family begin with the same `common` tokens, whose whole tiles are shared.
class NaiveMemory : public MemoryView {
 public:
  struct Sequence {
    int64_t known = 0;  // tokens that it has to compute or has computed
    int family = -1;
    int64_t common = 0;
    bool open = false;
    bool resting = false;
    int64_t length = 0;  // while open
    int64_t kept = 0;    // tokens that a closed one finds again, unless evicted
  };

  explicit NaiveMemory(int64_t bytes, int64_t tile = 32) : limit(bytes), tile_(tile) {}

  [[nodiscard]] int64_t up(int64_t tokens) const { return round_up(tokens, tile_); }
  [[nodiscard]] int64_t down(int64_t tokens) const { return tokens / tile_ * tile_; }

  [[nodiscard]] int64_t held() const {
    int64_t sum = 0;
    std::map<int, int64_t> shared;
    for (const auto& [id, sequence] : sequences) {
      if (!sequence.open) continue;
      const int64_t common = sequence.family < 0 ? 0 : down(std::min(sequence.common, sequence.length));
      if (common > 0) shared[sequence.family] = std::max(shared[sequence.family], common);
      sum += up(sequence.length) - common;
    }
    for (const auto& [family, tokens] : shared) sum += tokens;
    return sum;
  }
  // Evicts everything that nobody reads when there is no room for what is held and `cached` besides.
  void evict() {
    if (held() + cached() <= limit) return;
    for (auto& [id, sequence] : sequences) sequence.kept = 0;
    families.clear();
  }
  [[nodiscard]] int64_t cached() const {
    int64_t sum = 0;
    for (const auto& [id, sequence] : sequences) sum += sequence.open ? 0 : up(sequence.kept);
    for (const auto& [family, tokens] : families) sum += tokens;
    return sum;
  }
  [[nodiscard]] int64_t reusable(int64_t id) const {
    const Sequence& mine = sequences.at(id);
    int64_t found = mine.kept;
    if (mine.family >= 0) {
      const auto place = families.find(mine.family);
      if (place != families.end()) found = std::max(found, std::min(place->second, mine.common));
      for (const auto& [other, sequence] : sequences) {
        if (!sequence.open || sequence.family != mine.family) continue;
        found = std::max(found, std::min({sequence.common, sequence.length, mine.common}));
      }
    }
    return std::min(found, mine.known - 1);
  }

  Usage usage() const override { return {.limit = Bytes(limit), .held = Bytes(held()), .evictable = Bytes(cached())}; }
  Bytes growth(TokenCount from, TokenCount to) const override { return Bytes(up(to.value) - up(from.value)); }
  Offer offer(JobId id, std::span<const JobId> opening) const override {
    ++offers;
    Offer offer{.reusable = TokenCount(reusable(id.value)), .pinned = Bytes(up(reusable(id.value)))};
    const Sequence& mine = sequences.at(id.value);
    for (const auto& [other, sequence] : sequences) {
      const bool runs = sequence.open || std::count(opening.begin(), opening.end(), JobId(other)) > 0;
      const int64_t position = std::min({sequence.common, mine.common, mine.known - 1});
      if (other == id.value || mine.family < 0 || sequence.family != mine.family || !runs || sequence.resting) continue;
      if (position < offer.reusable.value + tile_ || position <= sequence.length) continue;
      offer.leader = JobId(other);
      offer.position = TokenCount(position);
      break;
    }
    return offer;
  }

  int64_t limit;
  std::map<int64_t, Sequence> sequences;
  std::map<int, int64_t> families;  // tokens of their beginning that are cached
  mutable int64_t offers = 0;

 private:
  int64_t tile_;
};

// Carries out plans and checks each: rules that hold for every plan, whatever the policy.
class NaiveEngine {
 public:
  enum class State { kWaiting, kRunning, kSuspended, kEnded };
  struct Job {
    JobSpec spec;
    State state = State::kWaiting;
    bool resting = false;
    int64_t length = 0;  // tokens that its reply will have
    int64_t generated = 0;
    int64_t max_new = 0;
    int64_t first_opened_step = -1;
    int64_t computed_first_step = -1;
    int64_t suspensions = 0;
    std::string ended_by = {};
  };

  NaiveEngine(const SchedulerOptions& options, int64_t limit, int64_t tile = 32)
      : options_(options), memory(limit, tile), scheduler(options) {}

  JobId submit(JobSpec spec, int64_t length, int family = -1, int64_t common = 0) {
    spec.id = JobId(static_cast<int64_t>(jobs.size()) + 1);
    spec.arrival_ns = now_ns;
    jobs[spec.id.value] = {.spec = spec, .length = length, .max_new = spec.max_new.value};
    memory.sequences[spec.id.value] = {.known = spec.prompt.value, .family = family, .common = std::min(common, spec.prompt.value)};
    scheduler.submit(spec);
    return spec.id;
  }
  void finish(JobId id, const std::string& why) {
    Job& job = jobs.at(id.value);
    ASSERT_NE(job.state, State::kEnded) << "job " << id.value << " ends twice: " << job.ended_by << ", " << why;
    close(id.value);
    job.state = State::kEnded;
    job.ended_by = why;
    memory.sequences.erase(id.value);
  }
  void cancel(JobId id) {
    scheduler.end(id);
    finish(id, "cancelled");
  }
  void rest(JobId id, bool resting) {
    jobs.at(id.value).resting = resting;
    memory.sequences.at(id.value).resting = resting;
    scheduler.set_resting(id, resting);
  }

  // One step; the plan, for directed tests.
  StepPlan step(int64_t ns = 1'000'000) {
    memory.offers = 0;
    const int64_t held_before = memory.held();
    StepPlan plan = scheduler.plan(now_ns, memory);
    ++steps;
    check(plan);
    for (const Refusal& refusal : plan.refused) finish(refusal.job, "refused");
    for (const auto& expired : plan.expired) finish(expired.job, expired.why == Expiry::kDeadline ? "deadline" : "stalled");
    for (const JobId id : plan.suspended) suspend(id);
    for (const auto& open : plan.opened) carry_out(open);
    std::vector<StepPlan::Work> work = plan.work;
    make_room(work);
    for (const auto& each : work) carry_out(each);
    scheduler.step_took(size_of(work), ns);
    now_ns += ns;
    EXPECT_EQ(scheduler.verify(), "") << scheduler.dump();
    EXPECT_LE(memory.held(), std::max(memory.limit, held_before));
    compare_counts();
    return plan;
  }

  [[nodiscard]] const Job& job(JobId id) const { return jobs.at(id.value); }
  [[nodiscard]] size_t count(State state) const {
    return static_cast<size_t>(
        std::count_if(jobs.begin(), jobs.end(), [&](const auto& each) { return each.second.state == state; }));
  }

  const SchedulerOptions options_;
  NaiveMemory memory;
  Scheduler scheduler;
  std::map<int64_t, Job> jobs;
  int64_t now_ns = 0;
  int64_t steps = 0;
  int64_t computed_tokens = 0;
  int64_t work_left_undone = 0;

 private:
  int64_t steps_over_ = 0;

  void close(int64_t id) {
    NaiveMemory::Sequence& sequence = memory.sequences.at(id);
    if (!sequence.open) return;
    const int64_t common = memory.down(std::min(sequence.common, sequence.length));
    if (sequence.family >= 0) memory.families[sequence.family] = std::max(memory.families[sequence.family], common);
    sequence.kept = sequence.length;
    sequence.open = false;
    sequence.length = 0;
    memory.evict();
  }
  void suspend(JobId id) {
    Job& job = jobs.at(id.value);
    ASSERT_EQ(job.state, State::kRunning) << "suspended although it does not run";
    close(id.value);
    job.state = State::kSuspended;
    ++job.suspensions;
  }

  void carry_out(const StepPlan::Open& open) {
    Job& job = jobs.at(open.job.value);
    ASSERT_EQ(job.state, open.resumed ? State::kSuspended : State::kWaiting);
    NaiveMemory::Sequence& sequence = memory.sequences.at(open.job.value);
    const int64_t reused = memory.reusable(open.job.value);
    sequence.open = true;
    sequence.length = reused;
    if (memory.held() > memory.limit) {
      sequence.open = false;
      sequence.length = 0;
      return scheduler.not_opened(open.job);
    }
    memory.evict();
    job.state = State::kRunning;
    job.max_new = open.max_new.value;
    ASSERT_LE(job.max_new, job.spec.max_new.value);
    ASSERT_TRUE(!job.spec.max_new_asked || job.max_new == job.spec.max_new.value);
    if (job.first_opened_step < 0) job.first_opened_step = steps;
    scheduler.opened(open.job, TokenCount(reused));
  }

  // As an engine does: while the memory has no room for the work, somebody goes.
  void make_room(std::vector<StepPlan::Work>& work) {
    std::erase_if(work, [&](const auto& each) { return jobs.at(each.job.value).state != State::kRunning; });
    for (auto& each : work) {
      const NaiveMemory::Sequence& sequence = memory.sequences.at(each.job.value);
      each.tokens = std::min(each.tokens, TokenCount(sequence.known - sequence.length));
    }
    while (!work.empty()) {
      for (const auto& each : work) memory.sequences.at(each.job.value).length += each.tokens.value;
      const bool fits = memory.held() <= memory.limit;
      for (const auto& each : work) memory.sequences.at(each.job.value).length -= each.tokens.value;
      if (fits) return;
      const std::optional<JobId> elder = scheduler.elder();
      const size_t running = count(State::kRunning);
      const std::optional<JobId> victim = scheduler.make_room();
      if (!victim) {
        EXPECT_EQ(running, 1u);
        ++work_left_undone;
        work.clear();
        return;
      }
      EXPECT_GE(running, 2u);
      EXPECT_NE(victim, elder) << "the elder was suspended although there was another";
      suspend(*victim);
      std::erase_if(work, [&](const auto& each) { return each.job == *victim; });
    }
  }

  void carry_out(const StepPlan::Work& work) {
    Job& job = jobs.at(work.job.value);
    NaiveMemory::Sequence& sequence = memory.sequences.at(work.job.value);
    sequence.length += work.tokens.value;
    computed_tokens += work.tokens.value;
    memory.evict();
    if (job.computed_first_step < 0) job.computed_first_step = steps;
    const bool chooses = sequence.length == sequence.known;
    scheduler.computed(work.job, work.tokens, TokenCount(chooses ? 1 : 0));
    if (!chooses) return;
    ++sequence.known;
    if (++job.generated < std::min(job.length, job.max_new)) return;
    scheduler.end(work.job);
    finish(work.job, "done");
  }

  [[nodiscard]] StepSize size_of(const std::vector<StepPlan::Work>& work) const {
    StepSize size;
    for (const auto& each : work) {
      (each.decode ? size.decode_rows : size.prefill_rows) += each.tokens.value;
      size.attended += attended_keys(0, each.tokens.value);
    }
    return size;
  }

  // S2 and what every plan must be.
  void check(const StepPlan& plan) {
    int64_t tokens = 0;
    bool prefill_came = false;
    std::map<int64_t, int> times;
    for (const auto& each : plan.work) {
      const Job& job = jobs.at(each.job.value);
      const bool opens =
          std::any_of(plan.opened.begin(), plan.opened.end(), [&](const auto& open) { return open.job == each.job; });
      EXPECT_TRUE(job.state == State::kRunning || opens) << "work for a job that does not run";
      EXPECT_FALSE(job.resting) << "work for a job whose reader rests";
      EXPECT_EQ(++times[each.job.value], 1);
      EXPECT_GE(each.tokens.value, 1);
      EXPECT_TRUE(!each.decode || (each.tokens.value == 1 && job.generated > 0));
      EXPECT_FALSE(each.decode && prefill_came) << "decode comes first";
      prefill_came |= !each.decode;
      tokens += each.tokens.value;
    }
    EXPECT_LE(tokens, options_.step_tokens.value);
    EXPECT_LE(memory.offers, 34);
    EXPECT_LE(scheduler.counts().running, static_cast<size_t>(options_.max_running));
    EXPECT_TRUE(plan.work.empty() || !plan.idle_until_ns);
  }

  // S1: the scheduler's states and the engine's are the same.
  void compare_counts() {
    const Scheduler::Counts counts = scheduler.counts();
    EXPECT_EQ(counts.waiting, count(State::kWaiting));
    EXPECT_EQ(counts.running, count(State::kRunning));
    EXPECT_EQ(counts.suspended, count(State::kSuspended));
    // A limit that falls is followed, a few plans later where sharing made estimates wrong; nothing grows past it.
    steps_over_ = memory.held() > memory.limit ? steps_over_ + 1 : 0;
    EXPECT_LE(steps_over_, 10) << scheduler.dump();
  }
};

}  // namespace quire::sched
