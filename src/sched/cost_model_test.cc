#include "sched/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random.h"

namespace quire::sched {
namespace {

// A machine that a model of this form describes.
struct Machine {
  double fixed, decode, prefill, key;
  [[nodiscard]] double time(const StepSize& size) const {
    return fixed + decode * static_cast<double>(size.decode_rows) + prefill * static_cast<double>(size.prefill_rows) +
           key * static_cast<double>(size.attended);
  }
};

StepSize random_step(test_support::Random& random) {
  StepSize size{.decode_rows = random.below(65), .prefill_rows = random.below(2) == 0 ? 0 : random.below(512)};
  size.attended = size.decode_rows * (1 + random.below(2000)) + attended_keys(random.below(2000), size.prefill_rows);
  return size;
}

TEST(CostModel, ComesToTheMachinesTimesWhateverTheirScale) {
  for (const double scale : {0.01, 1.0, 100.0}) {
    const Machine machine{3e6 * scale, 2e5 * scale, 1e5 * scale, 30 * scale};
    test_support::Random random(7);
    CostModel model;
    for (int i = 0; i < 500; ++i) {
      const StepSize size = random_step(random);
      model.learn(size, std::llround(machine.time(size) * (1 + 0.05 * random.uniform())));
    }
    for (int i = 0; i < 100; ++i) {
      const StepSize size = random_step(random);
      EXPECT_NEAR(model.expected_ns(size) / machine.time(size), 1, 0.1) << "scale " << scale;
    }
  }
}

TEST(CostModel, AStallOfTheMachineHardlyCounts) {
  const Machine machine{3e6, 2e5, 1e5, 30};
  test_support::Random random(8);
  CostModel model;
  for (int i = 0; i < 1000; ++i) {
    const StepSize size = random_step(random);
    const double noise = random.below(20) == 0 ? 50 : 1;  // one step in twenty takes fifty times as long
    model.learn(size, std::llround(machine.time(size) * noise));
  }
  for (int i = 0; i < 100; ++i) {
    const StepSize size = random_step(random);
    EXPECT_NEAR(model.expected_ns(size) / machine.time(size), 1, 0.2);
  }
}

TEST(CostModel, FollowsAMachineThatChanges) {
  test_support::Random random(9);
  CostModel model;
  for (const double speed : {1.0, 5.0, 0.5}) {
    const Machine machine{3e6 * speed, 2e5 * speed, 1e5 * speed, 30 * speed};
    for (int i = 0; i < 600; ++i) {
      const StepSize size = random_step(random);
      model.learn(size, std::llround(machine.time(size)));
    }
    const StepSize size{.decode_rows = 16, .prefill_rows = 100, .attended = 50'000};
    EXPECT_NEAR(model.expected_ns(size) / machine.time(size), 1, 0.1) << speed;
  }
}

TEST(CostModel, NothingIsEverNegativeAndNothingIsForgotten) {
  test_support::Random random(10);
  CostModel model;
  const StepSize prompt{.decode_rows = 0, .prefill_rows = 512, .attended = attended_keys(0, 512)};
  for (int i = 0; i < 300; ++i) model.learn(prompt, 50'000'000);
  // Then only decoding, for so long that a plain forgetting would have lost the rest.
  for (int i = 0; i < 100'000; ++i) {
    const int64_t rows = 1 + random.below(8);
    model.learn({.decode_rows = rows, .prefill_rows = 0, .attended = rows * 100}, 5'000'000 + 500'000 * rows);
  }
  EXPECT_NEAR(model.expected_ns(prompt), 50e6, 25e6);
  // Contradicting measurements: more rows, less time.
  for (int i = 0; i < 1000; ++i) {
    const int64_t rows = random.below(512);
    model.learn({.decode_rows = rows, .prefill_rows = rows, .attended = rows}, 60'000'000 - 100'000 * rows);
    for (const int64_t more : {0, 10, 500}) {
      const double one = model.expected_ns({.decode_rows = more, .prefill_rows = 0, .attended = 0});
      const double two = model.expected_ns({.decode_rows = more, .prefill_rows = more, .attended = more * 1000});
      EXPECT_TRUE(std::isfinite(two));
      EXPECT_LE(one, two);
      EXPECT_GE(one, 0);
    }
  }
}

TEST(CostModel, RowsWithinATimeAreTheMostThatFit) {
  const CostModel model;
  for (const int64_t begin : {0, 1000, 100'000, 10'000'000}) {
    for (const double limit : {0.0, 1e7, 3e7, 1e8, 1e12}) {
      const StepSize step{.decode_rows = 8, .prefill_rows = 0, .attended = 8000};
      const auto with = [&](int64_t rows) {
        return model.expected_ns({.decode_rows = 8, .prefill_rows = rows, .attended = 8000 + attended_keys(begin, rows)});
      };
      const int64_t rows = model.prefill_rows_within(step, begin, 512, limit);
      ASSERT_GE(rows, 0);
      ASSERT_LE(rows, 512);
      if (rows > 0) {
        EXPECT_LE(with(rows), limit * (1 + 1e-9));
      }
      if (rows < 512) {
        EXPECT_GT(with(rows + 1), limit * (1 - 1e-9));
      }
    }
  }
}

}  // namespace
}  // namespace quire::sched
