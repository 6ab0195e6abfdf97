#include "kv/budget.h"

#include <gtest/gtest.h>

#include <optional>

namespace quire::kv {
namespace {

TEST(Budget, APromiseIsTakenWholeOrNotAtAll) {
  Budget budget(Bytes(100));
  {
    Promise promise(budget);
    EXPECT_EQ(promise.take(Bytes(60)), Space::kOk);
    EXPECT_EQ(promise.take(Bytes(41)), Space::kNoSpace);
    EXPECT_EQ(budget.promised(), Bytes(60));
    EXPECT_EQ(budget.available(), Bytes(40));
    EXPECT_EQ(promise.take(Bytes(40)), Space::kOk);
    EXPECT_EQ(promise.bytes(), Bytes(100));
    EXPECT_EQ(promise.take(Bytes(0)), Space::kOk);
  }
  EXPECT_EQ(budget.promised(), Bytes(0)) << "an unused promise returns itself";
  EXPECT_EQ(budget.verify(), "");
}

TEST(Budget, PromisedBytesBecomeChargedBytes) {
  Budget budget(Bytes(100));
  Charge live(budget, Purpose::kLive);
  Charge tables(budget, Purpose::kPageTables);
  {
    Promise promise(budget);
    ASSERT_EQ(promise.take(Bytes(90)), Space::kOk);
    live.absorb(promise, Bytes(70));
    tables.absorb(promise, Bytes(5));
    EXPECT_EQ(budget.promised(), Bytes(15));
  }
  EXPECT_EQ(budget.backed(), Bytes(75));
  EXPECT_EQ(budget.backed(Purpose::kLive), Bytes(70));
  EXPECT_EQ(budget.backed(Purpose::kPageTables), Bytes(5));
  EXPECT_EQ(budget.available(), Bytes(25));
  live.give_back(Bytes(30));
  EXPECT_EQ(budget.backed(Purpose::kLive), Bytes(40));
  EXPECT_EQ(budget.verify(), "");
  EXPECT_EQ(budget.dump(), "budget limit 100\nbudget backed live 40\nbudget backed page_tables 5\nbudget promised 0\n");
}

TEST(Budget, AChargeMovesWithItsBytes) {
  Budget budget(Bytes(100));
  std::optional<Charge> first(std::in_place, budget, Purpose::kLive);
  {
    Promise promise(budget);
    ASSERT_EQ(promise.take(Bytes(10)), Space::kOk);
    first->absorb(promise, Bytes(10));
  }
  Charge second = std::move(*first);
  first.reset();
  EXPECT_EQ(budget.backed(), Bytes(10));
  {
    Charge third(budget, Purpose::kLive);
    third = std::move(second);
    EXPECT_EQ(third.bytes(), Bytes(10));
  }
  EXPECT_EQ(budget.backed(), Bytes(0));
}

TEST(BudgetDeathTest, BugsAreCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Budget budget(Bytes(10));
        Charge charge(budget, Purpose::kLive);
        charge.give_back(Bytes(1));
      },
      "check failed");
  EXPECT_DEATH(
      {
        Budget budget(Bytes(10));
        Promise promise(budget);
        Charge charge(budget, Purpose::kLive);
        charge.absorb(promise, Bytes(1));
      },
      "check failed");
  EXPECT_DEATH(
      {
        auto budget = std::make_optional<Budget>(Bytes(10));
        Promise promise(*budget);
        (void)promise.take(Bytes(3));
        budget.reset();
      },
      "budget promised 3");
}

}  // namespace
}  // namespace quire::kv
