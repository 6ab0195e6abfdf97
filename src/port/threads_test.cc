#include "port/threads.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace quire::port {
namespace {

class ThreadTeamTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadTeamTest, EveryMemberWorksOnceInEachRun) {
  ThreadTeam team(GetParam());
  ASSERT_EQ(team.size(), GetParam());
  std::vector<int> calls(static_cast<size_t>(team.size()), 0);
  for (int run = 0; run < 200; ++run) {
    team.run([&](TeamMember& me) {
      EXPECT_EQ(me.count, team.size());
      calls[static_cast<size_t>(me.index)] += 1;
    });
  }
  for (const int count : calls) EXPECT_EQ(count, 200);
}

TEST_P(ThreadTeamTest, TheCallerIsMemberZeroAndTheOthersAreOtherThreads) {
  ThreadTeam team(GetParam());
  std::vector<std::thread::id> ids(static_cast<size_t>(team.size()));
  team.run([&](TeamMember& me) { ids[static_cast<size_t>(me.index)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
}

// Each phase reads what all members wrote, without atomics, in the phase before: a barrier that lets one through early, or does not
// publish its writes, gives a wrong sum (and a report of the thread sanitizer).
TEST_P(ThreadTeamTest, ABarrierPublishesWhatAllWroteBeforeIt) {
  constexpr int kPhases = 300;
  ThreadTeam team(GetParam());
  const auto count = static_cast<size_t>(team.size());
  std::vector<int64_t> values(count, 1);
  std::vector<int64_t> next(count, 0);
  team.run([&](TeamMember& me) {
    const auto mine = static_cast<size_t>(me.index);
    for (int phase = 0; phase < kPhases; ++phase) {
      const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
      next[mine] = (sum * 7 + me.index) % 1000;
      me.barrier();
      values[mine] = next[mine];
      me.barrier();
    }
  });
  std::vector<int64_t> expected(count, 1);
  for (int phase = 0; phase < kPhases; ++phase) {
    const int64_t sum = std::accumulate(expected.begin(), expected.end(), int64_t{0});
    for (size_t index = 0; index < count; ++index) expected[index] = (sum * 7 + static_cast<int64_t>(index)) % 1000;
  }
  EXPECT_EQ(values, expected);
}

TEST_P(ThreadTeamTest, RunReturnsAfterTheSlowestAndItsWritesAreSeen) {
  ThreadTeam team(GetParam());
  std::vector<uint64_t> results(static_cast<size_t>(team.size()));
  for (int run = 1; run <= 20; ++run) {
    team.run([&](TeamMember& me) {
      uint64_t value = static_cast<uint64_t>(run);
      const int rounds = (me.index + 1) * 20'000;  // the last member is the slowest
      for (int round = 0; round < rounds; ++round) value = value * 6364136223846793005ULL + 1442695040888963407ULL;
      results[static_cast<size_t>(me.index)] = value | 1;
    });
    for (uint64_t& result : results) {
      EXPECT_NE(result, 0U) << "run " << run;
      result = 0;
    }
  }
}

// Eight members on two cores must park, not spin away each other's time: this is 20,000 hand-overs.
TEST_P(ThreadTeamTest, ManyShortRunsWithBarriersEnd) {
  ThreadTeam team(GetParam());
  std::vector<int> phases(static_cast<size_t>(team.size()), 0);
  for (int run = 0; run < 500; ++run) {
    team.run([&](TeamMember& me) {
      for (int phase = 0; phase < 5; ++phase) {
        phases[static_cast<size_t>(me.index)] += 1;
        me.barrier();
      }
    });
  }
  for (const int count : phases) EXPECT_EQ(count, 2500);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamTest, ::testing::Values(1, 2, 3, 8));

TEST(ThreadTeam, TwoTeamsWorkSideBySideAndATeamCanRunAnother) {
  ThreadTeam outer(2);
  ThreadTeam inner(2);
  int calls[2] = {0, 0};
  outer.run([&](TeamMember& me) {
    if (me.index == 0) inner.run([&](TeamMember& inner_me) { calls[inner_me.index] += 1; });
  });
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 1);
}

TEST(ThreadTeam, TakesConstCallables) {
  ThreadTeam team(2);
  int calls[2] = {0, 0};
  const auto work = [&](TeamMember& me) { calls[me.index] += 1; };
  team.run(work);
  team.run(work);
  EXPECT_EQ(calls[0] + calls[1], 4);
}

TEST(ThreadTeam, ATeamThatNeverWorkedEnds) {
  for (int round = 0; round < 20; ++round) ThreadTeam team(4);
}

TEST(ThreadTeamDeathTest, RunInsideRunIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadTeam team(1);
        team.run([&](TeamMember&) { team.run([](TeamMember&) {}); });
      },
      "run\\(\\) inside run\\(\\)");
}

}  // namespace
}  // namespace quire::port
