// Random lives of the scheduler with a naive memory and engine: arrivals, common beginnings, cancellations, slow readers,
// deadlines, limits that fall. After every step S1 to S4 and the plan's rules hold; in the end everything drains.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sched/naive_engine.h"
#include "tests/support/random.h"

namespace quire::sched {
namespace {

struct Weights {
  uint32_t arrive, cancel, rest, limit, deadline, family, asked, tenants, priorities, burst;
};

class Life {
 public:
  explicit Life(uint64_t seed) : random_(seed), weights_(draw_weights()), engine_(draw_options(), draw_limit()) {}

  // Everything that happened, as text: two lives of a seed are the same.
  std::string run() {
    const int steps = 300;
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      disturb();
      step();
    }
    drain();
    return std::move(trace_);
  }

  [[nodiscard]] const NaiveEngine& engine() const { return engine_; }
  [[nodiscard]] bool limit_fell() const { return limit_fell_; }

 private:
  bool with(uint32_t weight) { return random_.below(100) < weight; }

  Weights draw_weights() {
    const auto some = [&](uint32_t most) { return random_.below(3) == 0 ? 0 : 1 + random_.below(most); };
    return {.arrive = 1 + random_.below(60),
            .cancel = some(10),
            .rest = some(20),
            .limit = some(3),
            .deadline = some(10),
            .family = some(80),
            .asked = some(100),
            .tenants = 1 + random_.below(4),
            .priorities = some(3),
            .burst = some(20)};
  }
  SchedulerOptions draw_options() {
    const Reserve policies[] = {Reserve::kGuaranteed, Reserve::kExpected, Reserve::kOptimistic};
    return {.reserve = policies[random_.below(3)],
            .max_running = 1 + static_cast<int>(random_.below(30)),
            .step_tokens = TokenCount(1 + random_.below(300)),
            .resume_headroom = TokenCount(random_.below(40)),
            .ageing_ns = 50'000'000,
            .stall_limit_ns = 200'000'000};
  }
  int64_t draw_limit() { return full_limit_ = 500 + random_.below(3000); }

  void arrive() {
    const int family = with(weights_.family) ? static_cast<int>(random_.below(3)) : -1;
    JobSpec spec{.id = {},
                 .tenant = std::string(1, static_cast<char>('a' + random_.below(weights_.tenants))),
                 .tenant_weight = 1.0 + random_.below(2),
                 .priority = static_cast<int>(random_.below(weights_.priorities + 1)),
                 .prompt = TokenCount(1 + random_.below(with(10) ? 2500 : 400)),
                 .max_new = TokenCount(1 + random_.below(200)),
                 .max_new_asked = with(weights_.asked)};
    if (with(weights_.deadline)) spec.deadline_ns = engine_.now_ns + random_.below(300'000'000);
    engine_.submit(spec, 1 + random_.below(200), family, 300);
  }

  void disturb() {
    if (with(weights_.arrive)) arrive();
    if (with(weights_.burst)) {
      for (uint32_t i = random_.below(20); i > 0; --i) arrive();
    }
    for (const auto& [id, job] : engine_.jobs) {
      if (job.state == NaiveEngine::State::kEnded) continue;
      if (with(weights_.cancel) && with(10)) {
        engine_.cancel(JobId(id));
      } else if (with(weights_.rest)) {
        engine_.rest(JobId(id), !job.resting);
      }
    }
    if (with(weights_.limit)) {
      engine_.memory.limit = full_limit_ * (10 + random_.below(91)) / 100;
      limit_fell_ = true;
    }
  }

  // A step; idle time passes as the scheduler says.
  StepPlan step() {
    const std::optional<JobId> elder = engine_.scheduler.elder();
    const StepPlan plan = engine_.step();
    for (const auto& each : plan.work) note("w", each.job, each.tokens.value);
    for (const auto& each : plan.opened) note("o", each.job, each.max_new.value);
    for (const auto& each : plan.suspended) note("s", each, 0);
    for (const auto& each : plan.refused) note("r", each.job, each.needed.value);
    for (const auto& each : plan.expired) note("e", each.job, each.why == Expiry::kDeadline);
    if (elder && std::count(plan.suspended.begin(), plan.suspended.end(), *elder) > 0) {
      EXPECT_EQ(engine_.count(NaiveEngine::State::kRunning), 0u) << "the elder went before others";
    }
    return plan;
  }
  void note(const char* what, JobId job, int64_t number) {
    trace_ += what + std::to_string(job.value) + ":" + std::to_string(number) + " ";
  }

  // The quiet phase: readers read, the limit comes back, nobody else arrives. Every job ends.
  void drain() {
    engine_.memory.limit = full_limit_;
    for (const auto& [id, job] : engine_.jobs) {
      if (job.state != NaiveEngine::State::kEnded) engine_.rest(JobId(id), false);
    }
    int64_t idle = 0;
    for (int64_t i = 0; left() > 0 && !::testing::Test::HasFailure(); ++i) {
      ASSERT_LT(i, 200'000) << "does not drain\n" << engine_.scheduler.dump();
      const int64_t now = engine_.now_ns;
      const StepPlan plan = step();
      if (!plan.work.empty()) {
        idle = 0;
        continue;
      }
      // S3: nothing is done although jobs are left: there is a time to come back, and that does not go on for ever.
      ASSERT_TRUE(plan.idle_until_ns) << "idle for ever\n" << engine_.scheduler.dump();
      ASSERT_LT(++idle, 2000) << "spins\n" << engine_.scheduler.dump();
      engine_.now_ns = std::max({engine_.now_ns, now, *plan.idle_until_ns});
    }
    const Scheduler::Counts counts = engine_.scheduler.counts();
    EXPECT_EQ(counts.waiting + counts.running + counts.suspended, 0u);
    EXPECT_EQ(engine_.scheduler.elder(), std::nullopt);
  }
  [[nodiscard]] size_t left() const { return engine_.jobs.size() - engine_.count(NaiveEngine::State::kEnded); }

  test_support::Random random_;
  Weights weights_;
  int64_t full_limit_ = 0;
  NaiveEngine engine_;
  bool limit_fell_ = false;
  std::string trace_;
};

TEST(SchedulerModel, RandomLivesKeepTheRulesAndDrain) {
  int64_t suspensions = 0;
  for (uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life life(seed);
    const std::string trace = life.run();
    const NaiveEngine& engine = life.engine();
    if (engine.options_.reserve == Reserve::kGuaranteed && !life.limit_fell()) {
      EXPECT_EQ(engine.scheduler.counts().suspensions, 0) << "guaranteed, and the limit stayed";
    }
    suspensions += engine.scheduler.counts().suspensions;
    if (seed % 10 == 0) {
      EXPECT_EQ(Life(seed).run(), trace) << "a second life of the seed went otherwise";
    }
  }
  EXPECT_GT(suspensions, 100) << "the lives are too easy";
}

}  // namespace
}  // namespace quire::sched
