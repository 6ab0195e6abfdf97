#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "sched/admission.h"
#include "sched/naive_engine.h"
#include "sched/step_work.h"

namespace quire::sched {
namespace {

using State = NaiveEngine::State;

constexpr int64_t kPlenty = 1'000'000'000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kNoEnd = 1'000'000;  // a reply that goes on until max_new

JobSpec spec(int64_t prompt, int64_t max_new, const std::string& tenant = "a", int priority = 0) {
  return {.id = {},
          .tenant = tenant,
          .priority = priority,
          .prompt = TokenCount(prompt),
          .max_new = TokenCount(max_new),
          .max_new_asked = true};
}

int64_t tokens_for(const StepPlan& plan, JobId job) {
  for (const auto& each : plan.work) {
    if (each.job == job) return each.tokens.value;
  }
  return 0;
}

void run_dry(NaiveEngine& engine, int most = 10'000) {
  for (int i = 0; i < most && engine.count(State::kEnded) < engine.jobs.size(); ++i) {
    const StepPlan plan = engine.step();
    if (plan.idle_until_ns) engine.now_ns = std::max(engine.now_ns, *plan.idle_until_ns);
  }
  EXPECT_EQ(engine.count(State::kEnded), engine.jobs.size()) << engine.scheduler.dump();
}

// --- Steps

TEST(Scheduler, NamesOfPolicies) {
  for (const Reserve reserve : {Reserve::kGuaranteed, Reserve::kExpected, Reserve::kOptimistic}) {
    EXPECT_EQ(parse_reserve(to_string(reserve)), reserve);
  }
  EXPECT_EQ(parse_reserve("Guaranteed"), std::nullopt);
}

TEST(Scheduler, DecodesFirstAndThenFillsTheStepWithPrompts) {
  NaiveEngine engine({.step_tokens = TokenCount(100), .itl_target_ms = 1e9}, kPlenty);
  const JobId first = engine.submit(spec(10, 50), kNoEnd);
  EXPECT_EQ(tokens_for(engine.step(), first), 10);
  const JobId second = engine.submit(spec(250, 50), kNoEnd);
  std::vector<int64_t> chunks;
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = engine.step();
    ASSERT_EQ(plan.work.size(), 2u);
    EXPECT_TRUE(plan.work[0].decode);
    EXPECT_EQ(plan.work[0].job, first);
    chunks.push_back(tokens_for(plan, second));
  }
  EXPECT_EQ(chunks, (std::vector<int64_t>{99, 99, 52}));
  const StepPlan plan = engine.step();
  EXPECT_TRUE(plan.work.at(0).decode && plan.work.at(1).decode);
}

TEST(Scheduler, AStepWithDecodingJobsStaysWithinTheTargetByTheMeasuredCosts) {
  SchedulerOptions options{.step_tokens = TokenCount(4096), .itl_target_ms = 100};
  NaiveEngine engine(options, kPlenty);
  // Steps of this machine take 2 ms and 1 ms a row.
  for (int i = 0; i < 300; ++i) {
    const int64_t rows = 1 + i * 7 % 100;
    engine.scheduler.step_took({.decode_rows = i % 2 == 0 ? rows : 0, .prefill_rows = i % 2 == 0 ? 0 : rows, .attended = rows},
                               (2 + rows) * kMs);
  }
  const JobId prompt = engine.submit(spec(5000, 10), kNoEnd);
  EXPECT_EQ(tokens_for(engine.scheduler.plan(0, engine.memory), prompt), 4096) << "nobody decodes: all that a step takes";

  NaiveEngine second(options, kPlenty);
  for (int i = 0; i < 10; ++i) second.submit(spec(10, 5000), kNoEnd);
  second.step();
  for (int i = 0; i < 300; ++i) {
    const int64_t rows = 1 + i * 7 % 100;
    second.scheduler.step_took({.decode_rows = i % 2 == 0 ? rows : 0, .prefill_rows = i % 2 == 0 ? 0 : rows, .attended = rows},
                               (2 + rows) * kMs);
  }
  const JobId late = second.submit(spec(5000, 10), kNoEnd);
  EXPECT_NEAR(static_cast<double>(tokens_for(second.scheduler.plan(0, second.memory), late)), 88, 6);
}

TEST(Scheduler, PromptsProgressHoweverLateTheStepIs) {
  NaiveEngine engine({.itl_target_ms = 0.001}, kPlenty);
  engine.submit(spec(10, 500), kNoEnd);
  engine.step();
  const JobId prompt = engine.submit(spec(200, 10), kNoEnd);
  EXPECT_EQ(tokens_for(engine.step(), prompt), kLeastPrefill);
}

TEST(Scheduler, WhereNotAllCanDecodeTheyTakeTurnsAndPromptsKeepAPart) {
  NaiveEngine engine({.step_tokens = TokenCount(16)}, kPlenty);
  std::vector<JobId> jobs;
  for (int i = 0; i < 40; ++i) jobs.push_back(engine.submit(spec(1, 100), kNoEnd));
  for (int i = 0; i < 3; ++i) engine.step();
  const JobId prompt = engine.submit(spec(100, 10), kNoEnd);
  for (int i = 0; i < 60; ++i) engine.step();
  EXPECT_NE(engine.job(prompt).computed_first_step, -1);
  int64_t least = kNoEnd;
  int64_t most = 0;
  for (const JobId job : jobs) {
    least = std::min(least, engine.job(job).generated);
    most = std::max(most, engine.job(job).generated);
  }
  EXPECT_GE(least, 15);
  EXPECT_LE(most - least, 8);
}

TEST(Scheduler, ARestingJobGetsNoWorkAndDelaysNobody) {
  NaiveEngine engine({}, kPlenty);
  const JobId slow = engine.submit(spec(10, 20), kNoEnd);
  const JobId other = engine.submit(spec(10, 20), kNoEnd);
  engine.step();
  engine.rest(slow, true);
  EXPECT_EQ(engine.scheduler.elder(), other) << "whoever rests does not want to run";
  for (int i = 0; i < 19; ++i) EXPECT_EQ(tokens_for(engine.step(), slow), 0);
  EXPECT_EQ(engine.job(other).ended_by, "done");
  const StepPlan idle = engine.step();
  EXPECT_TRUE(idle.work.empty());
  EXPECT_EQ(idle.idle_until_ns, std::nullopt) << "only the reader can change that";
  engine.rest(slow, false);
  run_dry(engine);
  EXPECT_EQ(engine.job(slow).ended_by, "done");
}

// --- Fairness

TEST(Scheduler, AHundredJobsOfOneTenantDelayAnothersFirstByNoMoreThanAStep) {
  for (const int64_t ahead : {0, 1, 30}) {
    NaiveEngine engine({.step_tokens = TokenCount(512), .ageing_ns = 5 * kMs}, kPlenty);
    for (int i = 0; i < 100; ++i) engine.submit(spec(3000, 50, "many"), kNoEnd);
    for (int64_t i = 0; i < ahead; ++i) engine.step();
    const JobId first = engine.submit(spec(100, 50, "one"), kNoEnd);
    const int64_t before = engine.steps;
    for (int i = 0; i < 3; ++i) engine.step();
    EXPECT_LE(engine.job(first).computed_first_step, before + 1);
    EXPECT_EQ(engine.job(first).generated, 3) << "its prompt took one step";
  }
}

TEST(Scheduler, TenantsShareByWeight) {
  NaiveEngine engine({.step_tokens = TokenCount(128), .itl_target_ms = 1e9}, kPlenty);
  for (int i = 0; i < 20; ++i) {
    JobSpec heavy = spec(1000, 1, "heavy");
    heavy.tenant_weight = 3;
    engine.submit(heavy, 1);
    engine.submit(spec(1000, 1, "light"), 1);
  }
  std::map<std::string, int64_t> computed;
  for (int i = 0; i < 80; ++i) {
    for (const auto& each : engine.step().work) computed[engine.job(each.job).spec.tenant] += each.tokens.value;
  }
  EXPECT_NEAR(static_cast<double>(computed["heavy"]) / static_cast<double>(computed["light"]), 3, 0.2);
}

TEST(Scheduler, IdlenessIsNoCredit) {
  NaiveEngine engine({.step_tokens = TokenCount(128), .itl_target_ms = 1e9}, kPlenty);
  engine.submit(spec(10, 1, "sleeper"), 1);
  engine.step();
  for (int i = 0; i < 40; ++i) engine.submit(spec(1000, 1, "busy"), 1);
  for (int i = 0; i < 100; ++i) engine.step();
  for (int i = 0; i < 40; ++i) engine.submit(spec(1000, 1, "sleeper"), 1);
  std::map<std::string, int64_t> computed;
  for (int i = 0; i < 40; ++i) {
    for (const auto& each : engine.step().work) computed[engine.job(each.job).spec.tenant] += each.tokens.value;
  }
  EXPECT_NEAR(static_cast<double>(computed["sleeper"]), static_cast<double>(computed["busy"]), 300);
}

TEST(Scheduler, LowPriorityWaitsButNotForEver) {
  SchedulerOptions options{.max_running = 1, .ageing_ns = 100 * kMs};
  NaiveEngine engine(options, kPlenty);
  const JobId low = engine.submit(spec(10, 4, "a", 5), kNoEnd);
  // A stream of urgent jobs, always one waiting.
  for (int i = 0; i < 2000 && engine.job(low).first_opened_step < 0; ++i) {
    if (engine.scheduler.counts().waiting < 3) engine.submit(spec(10, 4, i % 2 == 0 ? "a" : "b"), kNoEnd);
    engine.step();
  }
  EXPECT_GT(engine.job(low).first_opened_step, 100);
  EXPECT_LT(engine.job(low).first_opened_step, 600);  // 5 levels are 500 steps
}

// --- Admission

TEST(Scheduler, WhatCanNeverFitIsRefusedAtOnceWithBothNumbersAndTheOthersGoOn) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 1000, 1);
  std::vector<JobId> queue;
  for (int i = 0; i < 200; ++i) queue.push_back(engine.submit(spec(400, 100), kNoEnd));
  const JobId big = engine.submit(spec(900, 101), kNoEnd);
  const StepPlan plan = engine.step();
  ASSERT_EQ(plan.refused.size(), 1u);
  EXPECT_EQ(plan.refused[0].job, big);
  EXPECT_EQ(plan.refused[0].needed, Bytes(1001));
  EXPECT_EQ(plan.refused[0].available, Bytes(1000));
  EXPECT_EQ(plan.opened.size(), 2u);
  EXPECT_EQ(engine.scheduler.counts().refusals, 1);
  run_dry(engine, 30'000);
}

TEST(Scheduler, ALimitThatNobodyAskedForIsCutToWhatFits) {
  NaiveEngine engine({}, 1000, 1);
  JobSpec unasked = spec(900, 5000);
  unasked.max_new_asked = false;
  const JobId cut = engine.submit(unasked, kNoEnd);
  JobSpec too_long = spec(1000, 5000);
  too_long.max_new_asked = false;
  const JobId refused = engine.submit(too_long, kNoEnd);
  const StepPlan plan = engine.step();
  ASSERT_EQ(plan.opened.size(), 1u);
  EXPECT_EQ(plan.opened[0].max_new, TokenCount(100));
  EXPECT_EQ(engine.job(refused).ended_by, "refused");
  EXPECT_EQ(plan.refused[0].needed, Bytes(1001)) << "one new token is the least";
  run_dry(engine);
  EXPECT_EQ(engine.job(cut).generated, 100);
}

TEST(Scheduler, PoliciesAdmitWhatTheyReserve) {
  const auto opened = [](Reserve reserve, int observed) {
    NaiveEngine engine({.reserve = reserve}, 4000, 1);
    for (int i = 0; i < observed; ++i) engine.submit(spec(1, 400), 100);
    run_dry(engine);
    for (int i = 0; i < 20; ++i) engine.submit(spec(100, 400), kNoEnd);
    return engine.step().opened.size();
  };
  EXPECT_EQ(opened(Reserve::kGuaranteed, 0), 8u);   // 500 each
  EXPECT_EQ(opened(Reserve::kOptimistic, 0), 20u);  // 100 each
  EXPECT_EQ(opened(Reserve::kExpected, 0), 11u);    // 100 + 256 each, as nothing is known
  EXPECT_EQ(opened(Reserve::kExpected, 60), 19u);   // about 100 + 103
}

TEST(Scheduler, GuaranteedNeverSuspends) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 6000);
  for (int i = 0; i < 200; ++i) engine.submit(spec(100 + i * 7 % 1900, 10 + i % 60), kNoEnd);
  run_dry(engine, 100'000);
  EXPECT_EQ(engine.scheduler.counts().suspensions, 0);
  EXPECT_EQ(engine.scheduler.counts().refusals, 0);
}

TEST(Scheduler, OptimisticAdmitsMoreAndSuspendsTheYoungestOfTheLowestPriority) {
  NaiveEngine engine({.reserve = Reserve::kOptimistic}, 1000, 1);
  const JobId elder = engine.submit(spec(100, 300, "a", 1), kNoEnd);
  const JobId old_low = engine.submit(spec(100, 300, "a", 1), kNoEnd);
  const JobId young_low = engine.submit(spec(100, 300, "a", 1), kNoEnd);
  engine.step();
  const JobId young_urgent = engine.submit(spec(100, 300, "a", 0), kNoEnd);
  while (engine.scheduler.counts().suspensions == 0) engine.step();
  EXPECT_EQ(engine.job(young_low).suspensions, 1);
  while (engine.scheduler.counts().suspensions == 1) engine.step();
  EXPECT_EQ(engine.job(old_low).suspensions, 1);
  run_dry(engine);
  EXPECT_EQ(engine.job(elder).suspensions, 0);
  EXPECT_EQ(engine.job(young_urgent).suspensions, 0);
  EXPECT_LE(engine.scheduler.counts().suspensions, 6) << "thrashes";
}

TEST(Scheduler, TheSuspendedComeBackBeforeNewOnesOfTheirTenant) {
  NaiveEngine engine({.reserve = Reserve::kOptimistic}, 600, 1);
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(engine.submit(spec(100, 200), kNoEnd));
  while (engine.scheduler.counts().suspensions == 0) engine.step();
  const JobId late = engine.submit(spec(10, 10), kNoEnd);
  while (engine.job(late).first_opened_step < 0) {
    engine.step();
    ASSERT_LT(engine.steps, 5000);
  }
  for (const JobId job : jobs) EXPECT_NE(engine.job(job).state, State::kSuspended);
  run_dry(engine);
}

TEST(Scheduler, ResumingNeedsHeadroomForEverybody) {
  const auto suspensions = [](int64_t headroom) {
    NaiveEngine engine({.reserve = Reserve::kOptimistic, .resume_headroom = TokenCount(headroom)}, 320, 1);
    engine.submit(spec(100, 30), kNoEnd);
    engine.submit(spec(100, 150), kNoEnd);
    engine.submit(spec(100, 150), kNoEnd);
    run_dry(engine);
    return engine.scheduler.counts().suspensions;
  };
  // The third goes first. When the first has ended it would fit, but hardly for longer than a few steps.
  EXPECT_EQ(suspensions(50), 1);
  EXPECT_EQ(suspensions(0), 2) << "the test proves nothing";
}

// --- Overtaking (a big job that does not fit, small ones behind it)

TEST(Scheduler, SmallOnesOvertakeABigOneButBoundedly) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 1000, 1);
  const JobId holder = engine.submit(spec(800, 100), kNoEnd);
  engine.step();
  const JobId big = engine.submit(spec(400, 100), kNoEnd);
  int64_t overtakes = 0;
  int64_t before_holder_ended = 0;
  for (int i = 0; engine.job(big).first_opened_step < 0; ++i) {
    ASSERT_LT(i, 2000);
    if (engine.scheduler.counts().waiting < 4) engine.submit(spec(5, 5), kNoEnd);
    for (const auto& open : engine.step().opened) {
      if (open.job == big) break;
      ++overtakes;
    }
    if (engine.job(holder).state == State::kRunning) before_holder_ended = overtakes;
  }
  EXPECT_GT(before_holder_ended, 20) << "small ones go on while the big one waits";
  EXPECT_LE(overtakes, kMostOvertaken) << "but not for ever";
}

TEST(Scheduler, AHeadThatHasWaitedForALevelLetsNobodyPass) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed, .ageing_ns = 20 * kMs}, 1000, 1);
  engine.submit(spec(700, 200), kNoEnd);
  engine.step();
  const JobId big = engine.submit(spec(400, 100), kNoEnd);
  for (int i = 0; i < 25; ++i) engine.step();
  const JobId small = engine.submit(spec(5, 5), kNoEnd);
  engine.step();
  EXPECT_EQ(engine.job(small).state, State::kWaiting);
  // A more urgent one passes all the same.
  const JobId urgent = engine.submit(spec(5, 5, "a", -5), kNoEnd);
  engine.step();
  EXPECT_EQ(engine.job(urgent).state, State::kRunning);
  run_dry(engine);
  EXPECT_LE(engine.job(big).first_opened_step, engine.job(small).first_opened_step);
}

TEST(Scheduler, ManyThatDoNotFitHideNoneThatDoes) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed, .ageing_ns = 1'000'000 * kMs}, 1000, 1);
  engine.submit(spec(500, 400), kNoEnd);
  engine.step();
  for (int i = 0; i < 300; ++i) engine.submit(spec(500, 100), 5);
  const JobId small = engine.submit(spec(5, 5), kNoEnd);
  int i = 0;
  for (; engine.job(small).first_opened_step < 0 && i < 100; ++i) engine.step();
  EXPECT_LE(i, 300 / (kOffers / 2) + 2) << "all are asked in turn";
  run_dry(engine, 20'000);
}

TEST(Scheduler, WhoeverDidNotFitIsAskedAgain) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 1000, 1);
  const JobId holder = engine.submit(spec(400, 100), kNoEnd);
  engine.submit(spec(300, 20), kNoEnd);
  engine.step();
  const JobId head = engine.submit(spec(900, 50), kNoEnd);
  std::vector<JobId> others;
  for (int i = 0; i < 50; ++i)
    others.push_back(engine.submit(spec(190, 10, std::string(1, static_cast<char>('b' + i % 3))), kNoEnd));
  for (int i = 0; i < 60; ++i) engine.step();
  EXPECT_EQ(engine.job(holder).state, State::kRunning);
  EXPECT_EQ(engine.job(head).state, State::kWaiting);
  EXPECT_GE(engine.count(State::kEnded), 5u) << "two at a time fit since the second has ended";
}

TEST(Scheduler, OffersAreAskedForAFewOnly) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 1000, 1);
  for (int i = 0; i < 10'000; ++i)
    engine.scheduler.submit({.id = JobId(i + 1),
                             .tenant = std::to_string(i % 50),
                             .prompt = TokenCount(600),
                             .max_new = TokenCount(300),
                             .max_new_asked = true});
  for (int i = 0; i < 10'000; ++i) engine.memory.sequences[i + 1].known = 600;
  for (int i = 0; i < 20; ++i) {
    engine.memory.offers = 0;
    const StepPlan plan = engine.scheduler.plan(i, engine.memory);
    for (const auto& open : plan.opened) {
      engine.memory.sequences[open.job.value].open = true;
      engine.scheduler.opened(open.job, TokenCount(0));
    }
    EXPECT_LE(engine.memory.offers, kOffers);
  }
}

// --- Leaders and followers

TEST(Scheduler, OfManyThatBeginAlikeOneComputesTheBeginning) {
  NaiveEngine engine({.step_tokens = TokenCount(256)}, kPlenty);
  for (int i = 0; i < 64; ++i) engine.submit(spec(1028, 20), kNoEnd, 0, 1000);
  const StepPlan plan = engine.step();
  EXPECT_EQ(plan.opened.size(), 1u);
  EXPECT_EQ(engine.scheduler.counts().following, 31u);  // so many were asked, less the leader
  for (int i = 0; i < 2; ++i) engine.step();
  EXPECT_EQ(engine.scheduler.counts().following, 63u);
  run_dry(engine);
  // The beginning once; of each the rest of the prompt and the reply.
  EXPECT_LE(engine.computed_tokens, 1000 + 64 * (28 + 20));
}

TEST(Scheduler, WhenTheLeaderGoesAFollowerTakesOver) {
  for (const std::string how : {"cancelled", "resting"}) {
    NaiveEngine engine({.step_tokens = TokenCount(128)}, kPlenty);
    std::vector<JobId> jobs;
    for (int i = 0; i < 5; ++i) jobs.push_back(engine.submit(spec(1028, 5), kNoEnd, 0, 1000));
    for (int i = 0; i < 3; ++i) engine.step();
    if (how == "cancelled") {
      engine.cancel(jobs[0]);
    } else {
      engine.rest(jobs[0], true);
    }
    EXPECT_EQ(engine.scheduler.counts().following, 0u);
    EXPECT_EQ(engine.scheduler.verify(), "");
    engine.step();
    EXPECT_EQ(engine.job(jobs[1]).state, State::kRunning) << "the oldest follower";
    EXPECT_EQ(engine.scheduler.counts().following, 3u);
    engine.rest(jobs[1], true);
    engine.rest(jobs[1], false);
    if (how == "resting") engine.rest(jobs[0], false);
    run_dry(engine);
    EXPECT_LE(engine.computed_tokens, 1000 + 32 + 5 * (28 + 5) + (how == "resting" ? 1000 : 0));
  }
}

TEST(Scheduler, ALeaderIsAsUrgentAsHisMostUrgentFollower) {
  NaiveEngine engine({.step_tokens = TokenCount(64)}, kPlenty);
  const JobId leader = engine.submit(spec(2000, 5, "a", 9), kNoEnd, 0, 1900);
  engine.step();
  const JobId middle = engine.submit(spec(2000, 5, "b", 5), kNoEnd);
  engine.step();
  EXPECT_EQ(tokens_for(engine.step(), middle), 64);
  engine.submit(spec(2000, 5, "a", 1), kNoEnd, 0, 1900);
  engine.step();
  EXPECT_EQ(engine.scheduler.counts().following, 1u);
  EXPECT_EQ(tokens_for(engine.step(), leader), 64);
}

TEST(Scheduler, ALeaderThatWasNotOpenedAfterAllLeadsNobody) {
  NaiveEngine engine({}, kPlenty);
  for (int i = 0; i < 3; ++i) engine.submit(spec(500, 5), kNoEnd, 0, 400);
  const StepPlan plan = engine.scheduler.plan(0, engine.memory);
  ASSERT_EQ(plan.opened.size(), 1u);
  EXPECT_EQ(engine.scheduler.counts().following, 2u);
  engine.scheduler.not_opened(plan.opened[0].job);
  EXPECT_EQ(engine.scheduler.counts().following, 0u);
  EXPECT_EQ(engine.scheduler.counts().waiting, 3u);
  EXPECT_EQ(engine.scheduler.elder(), std::nullopt);
  EXPECT_EQ(engine.scheduler.verify(), "");
  engine.now_ns = 100 * kMs;
  run_dry(engine);
}

// --- Ends

TEST(Scheduler, DeadlinesEndJobsInAnyState) {
  NaiveEngine engine({.reserve = Reserve::kOptimistic, .step_tokens = TokenCount(64)}, 700, 1);
  const auto with_deadline = [](JobSpec job) {
    job.deadline_ns = 300 * kMs;
    return job;
  };
  engine.submit(spec(200, 400), kNoEnd);
  const JobId running = engine.submit(with_deadline(spec(100, 500, "b")), kNoEnd);
  const JobId suspended = engine.submit(with_deadline(spec(100, 500, "c", 1)), kNoEnd);
  const JobId resting = engine.submit(with_deadline(spec(20, 500, "c")), kNoEnd);
  for (int i = 0; i < 12; ++i) engine.step();
  engine.rest(resting, true);
  while (engine.job(suspended).state != State::kSuspended) engine.step();
  const JobId waiting = engine.submit(with_deadline(spec(600, 50, "d")), kNoEnd);
  const JobId leader = engine.submit(with_deadline(spec(3, 5, "e", 9)), kNoEnd);
  engine.step();
  ASSERT_LT(engine.now_ns, 300 * kMs);
  engine.now_ns = 300 * kMs;
  engine.step();
  for (const JobId job : {running, suspended, resting, waiting}) EXPECT_EQ(engine.job(job).ended_by, "deadline") << job.value;
  EXPECT_NE(engine.job(leader).state, State::kWaiting);
}

TEST(Scheduler, AnIdleSchedulerWakesForADeadline) {
  NaiveEngine engine({}, kPlenty);
  JobSpec job = spec(10, 10);
  job.deadline_ns = 5000 * kMs;
  const JobId id = engine.submit(job, kNoEnd);
  engine.step();
  engine.rest(id, true);
  EXPECT_EQ(engine.step().idle_until_ns, 5000 * kMs);
}

TEST(Scheduler, EndMayComeTwice) {
  NaiveEngine engine({}, kPlenty);
  const JobId job = engine.submit(spec(10, 10), kNoEnd);
  engine.cancel(job);
  engine.scheduler.end(job);
  engine.scheduler.set_resting(job, true);
  const StepPlan plan = engine.step();
  EXPECT_TRUE(plan.work.empty() && plan.opened.empty() && plan.refused.empty());
  EXPECT_EQ(plan.idle_until_ns, std::nullopt);
}

// --- Shortage

TEST(Scheduler, ALoneJobThatCannotGrowRestsAndEndsAfterTheStallLimit) {
  NaiveEngine engine({.stall_limit_ns = 1000 * kMs}, 1000, 1);
  const JobId job = engine.submit(spec(100, 800), kNoEnd);
  for (int i = 0; i < 200; ++i) engine.step();
  const JobId other = engine.submit(spec(30, 20), kNoEnd);
  engine.memory.limit = engine.memory.held();
  const int64_t begun = engine.now_ns;
  int plans = 0;
  while (engine.job(job).state != State::kEnded) {
    const StepPlan plan = engine.step(0);
    ASSERT_LT(++plans, 3000) << "spins";
    if (!plan.work.empty() || engine.job(job).state == State::kEnded) continue;
    ASSERT_TRUE(plan.idle_until_ns);
    ASSERT_GT(*plan.idle_until_ns, engine.now_ns);
    engine.now_ns = *plan.idle_until_ns;
  }
  EXPECT_EQ(engine.job(job).ended_by, "stalled");
  EXPECT_NEAR(static_cast<double>(engine.now_ns - begun), 1000.0 * kMs, 5.0 * kMs);
  run_dry(engine);
  EXPECT_EQ(engine.job(other).ended_by, "done");
}

TEST(Scheduler, AStalledJobGoesOnWhenTheLimitRises) {
  NaiveEngine engine({.stall_limit_ns = 1000 * kMs}, 1000, 1);
  const JobId job = engine.submit(spec(100, 300), kNoEnd);
  for (int i = 0; i < 20; ++i) engine.step();
  engine.memory.limit = engine.memory.held();
  for (int i = 0; i < 500; ++i) engine.step();
  EXPECT_EQ(engine.job(job).generated, 20);
  engine.memory.limit = 1000;
  run_dry(engine);
  EXPECT_EQ(engine.job(job).ended_by, "done");
  EXPECT_EQ(engine.job(job).generated, 300);
}

TEST(Scheduler, ALimitThatFallsSuspendsTheYoungAndTheElderFinishes) {
  NaiveEngine engine({.reserve = Reserve::kGuaranteed}, 2000, 1);
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(engine.submit(spec(200, 300, std::string(1, static_cast<char>('a' + i))), kNoEnd));
  for (int i = 0; i < 20; ++i) engine.step();
  ASSERT_EQ(engine.count(State::kRunning), 4u);
  engine.memory.limit = 550;
  const StepPlan plan = engine.step();
  EXPECT_EQ(plan.suspended, (std::vector<JobId>{jobs[3], jobs[2]}));
  run_dry(engine);
  EXPECT_EQ(engine.job(jobs[0]).suspensions, 0);
  for (const JobId job : jobs) EXPECT_EQ(engine.job(job).ended_by, "done");
}

TEST(Scheduler, ASuspendedJobThatTheLimitCannotHoldAnyMoreKeepsNobodyWaiting) {
  NaiveEngine engine({.stall_limit_ns = 500 * kMs}, 2000, 1);
  const JobId big = engine.submit(spec(1000, 500), kNoEnd);
  for (int i = 0; i < 5; ++i) engine.step();
  engine.memory.limit = 500;
  for (int i = 0; i < 3; ++i) engine.step();
  EXPECT_EQ(engine.job(big).state, State::kSuspended);
  const JobId small = engine.submit(spec(100, 20), kNoEnd);
  for (int i = 0; i < 30; ++i) engine.step();
  EXPECT_EQ(engine.job(small).ended_by, "done");
  run_dry(engine);
  EXPECT_EQ(engine.job(big).ended_by, "stalled");
}

TEST(Scheduler, ASlowReaderKeepsMemoryOnlyWhileNobodyNeedsIt) {
  NaiveEngine engine({.reserve = Reserve::kExpected}, 1000, 1);
  const JobId slow = engine.submit(spec(700, 200), kNoEnd);
  for (int i = 0; i < 10; ++i) engine.step();
  engine.rest(slow, true);
  for (int i = 0; i < 3000; ++i) engine.step();
  EXPECT_EQ(engine.job(slow).state, State::kRunning) << "nobody needed it";
  const JobId other = engine.submit(spec(600, 50), kNoEnd);
  for (int i = 0; i < 70; ++i) engine.step();
  EXPECT_EQ(engine.job(slow).state, State::kSuspended);
  EXPECT_EQ(engine.job(other).ended_by, "done");
  engine.rest(slow, false);
  run_dry(engine);
  EXPECT_EQ(engine.job(slow).generated, 200);
}

TEST(Scheduler, MakeRoomNeverTakesTheElderWhileThereIsAnother) {
  NaiveEngine engine({}, kPlenty);
  const JobId elder = engine.submit(spec(10, 100, "a", 9), kNoEnd);
  engine.step();
  const JobId second = engine.submit(spec(10, 100, "a", 0), kNoEnd);
  engine.step();
  const JobId third = engine.submit(spec(10, 100, "a", 0), kNoEnd);
  engine.step();
  EXPECT_EQ(engine.scheduler.elder(), elder);
  EXPECT_EQ(engine.scheduler.make_room(), third);
  EXPECT_EQ(engine.scheduler.make_room(), second);
  EXPECT_EQ(engine.scheduler.make_room(), std::nullopt);
  EXPECT_EQ(engine.scheduler.verify(), "");
}

TEST(Scheduler, DumpNamesStatesAndTheElder) {
  NaiveEngine engine({.max_running = 1}, kPlenty);
  engine.submit(spec(10, 100), kNoEnd);
  engine.submit(spec(10, 100), kNoEnd);
  engine.step();
  const std::string dump = engine.scheduler.dump();
  EXPECT_NE(dump.find("1 waiting (0 follow), 1 running (0 rest), 0 suspended"), std::string::npos) << dump;
  EXPECT_NE(dump.find("job 1 of 'a' priority 0: running, 10 of 10 + 1 tokens held, 1 of 100 generated, elder"), std::string::npos)
      << dump;
}

}  // namespace
}  // namespace quire::sched
