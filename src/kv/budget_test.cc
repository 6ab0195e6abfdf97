#include "kv/budget.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

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

TEST(Budget, PromisedBytesBecomeChargedBytesAndMoveBetweenPurposes) {
  Budget budget(Bytes(100));
  Charge charge(budget);
  {
    Promise promise(budget);
    ASSERT_EQ(promise.take(Bytes(90)), Space::kOk);
    charge.absorb(promise, Purpose::kLive, Bytes(70));
    charge.absorb(promise, Purpose::kPageTables, Bytes(5));
    EXPECT_EQ(budget.promised(), Bytes(15));
  }
  EXPECT_EQ(budget.backed(), Bytes(75));
  EXPECT_EQ(budget.backed(Purpose::kLive), Bytes(70));
  EXPECT_EQ(budget.backed(Purpose::kPageTables), Bytes(5));
  EXPECT_EQ(budget.available(), Bytes(25));
  charge.move(Purpose::kLive, Purpose::kShared, Bytes(60));
  charge.move(Purpose::kShared, Purpose::kCached, Bytes(20));
  charge.give_back(Purpose::kLive, Bytes(3));
  EXPECT_EQ(charge.bytes(Purpose::kShared), Bytes(40));
  EXPECT_EQ(budget.verify(), "");
  EXPECT_EQ(budget.dump(),
            "budget backed cached 20\nbudget backed live 7\nbudget backed page_tables 5\nbudget backed shared 40\n"
            "budget backed warm 0\nbudget limit 100\nbudget promised 0\n");
}

TEST(Budget, ALimitMayFallBelowWhatIsBacked) {
  Budget budget(Bytes(100));
  Charge charge(budget);
  Promise promise(budget);
  ASSERT_EQ(promise.take(Bytes(80)), Space::kOk);
  charge.absorb(promise, Purpose::kLive, Bytes(50));
  budget.set_limit(Bytes(60));
  EXPECT_EQ(budget.available(), Bytes(-20));
  EXPECT_EQ(budget.verify(), "");
  EXPECT_EQ(promise.take(Bytes(1)), Space::kNoSpace);
  EXPECT_EQ(promise.take(Bytes(0)), Space::kOk) << "what needs nothing goes on while the limit is exceeded";
  charge.absorb(promise, Purpose::kLive, Bytes(30));  // what was promised before stays promised
  charge.give_back(Purpose::kLive, Bytes(30));
  EXPECT_EQ(promise.take(Bytes(10)), Space::kOk);
  EXPECT_EQ(budget.available(), Bytes(0));
}

TEST(Budget, AChargeMovesWithItsBytes) {
  Budget budget(Bytes(100));
  std::optional<Charge> first(std::in_place, budget);
  Charge third(budget);
  {
    Promise promise(budget);
    ASSERT_EQ(promise.take(Bytes(17)), Space::kOk);
    first->absorb(promise, Purpose::kLive, Bytes(10));
    third.absorb(promise, Purpose::kWarm, Bytes(7));
  }
  Charge second = std::move(*first);
  first.reset();
  EXPECT_EQ(budget.backed(), Bytes(17));
  third = std::move(second);
  EXPECT_EQ(third.bytes(Purpose::kLive), Bytes(10));
  EXPECT_EQ(budget.backed(), Bytes(10)) << "what it held before has been returned";
  third = Charge(budget);
  EXPECT_EQ(budget.backed(), Bytes(0));
}

TEST(Budget, APromiseMovesWithItsBytes) {
  Budget budget(Bytes(100));
  Promise second(budget);
  ASSERT_EQ(second.take(Bytes(20)), Space::kOk);
  {
    Promise first(budget);
    ASSERT_EQ(first.take(Bytes(30)), Space::kOk);
    second = std::move(first);
  }
  EXPECT_EQ(second.bytes(), Bytes(30));
  EXPECT_EQ(budget.promised(), Bytes(30));
  const Promise third = std::move(second);
  EXPECT_EQ(third.bytes(), Bytes(30));
  EXPECT_EQ(budget.promised(), Bytes(30));
}

// Holders promise, absorb, move and give back at random, beside a table of what each holds.
class BudgetLife {
 public:
  explicit BudgetLife(uint64_t seed) : random_(seed), budget_(Bytes(limit_)) {
    for (int holder = 0; holder < kHolders; ++holder) holders_.emplace_back(budget_);
    for (double& weight : weights_) weight = static_cast<double>(pick(3));
    weights_[kPromise] += 1;
  }

  void run(int steps) {
    std::discrete_distribution<int> operation(weights_.begin(), weights_.end());
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      do_one(static_cast<Operation>(operation(random_)), holders_[static_cast<size_t>(pick(kHolders - 1))]);
      check();
    }
  }

 private:
  static constexpr int kHolders = 4;
  enum Operation { kPromise, kAbsorb, kMove, kGiveBack, kReturn, kSetLimit, kOperations };
  struct Holder {
    explicit Holder(Budget& budget) : promise(budget), charge(budget) {}
    Promise promise;
    Charge charge;
    int64_t promised = 0;
    std::array<int64_t, kPurposes> held{};
  };

  int64_t pick(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }

  void do_one(Operation operation, Holder& holder) {
    const auto from = static_cast<size_t>(pick(kPurposes - 1));
    const auto to = static_cast<size_t>(pick(kPurposes - 1));
    const int64_t part = pick(operation == kAbsorb ? holder.promised : holder.held[from]);
    switch (operation) {
      case kPromise: {
        const int64_t wish = pick(300);
        const bool room = wish == 0 || used() + wish <= limit_;
        ASSERT_EQ(holder.promise.take(Bytes(wish)) == Space::kOk, room);
        if (room) holder.promised += wish;
        return;
      }
      case kAbsorb:
        holder.charge.absorb(holder.promise, static_cast<Purpose>(to), Bytes(part));
        holder.promised -= part;
        holder.held[to] += part;
        return;
      case kMove:
        holder.charge.move(static_cast<Purpose>(from), static_cast<Purpose>(to), Bytes(part));
        holder.held[from] -= part;
        holder.held[to] += part;
        return;
      case kGiveBack:
        holder.charge.give_back(static_cast<Purpose>(from), Bytes(part));
        holder.held[from] -= part;
        return;
      case kReturn:
        holder.promise = Promise(budget_);
        holder.promised = 0;
        return;
      case kSetLimit: return budget_.set_limit(Bytes(limit_ = pick(1000)));
      case kOperations: break;
    }
  }

  [[nodiscard]] int64_t used(size_t purpose) const {
    int64_t sum = 0;
    for (const Holder& holder : holders_) sum += holder.held[purpose];
    return sum;
  }
  [[nodiscard]] int64_t used() const {
    int64_t sum = 0;
    for (size_t purpose = 0; purpose < kPurposes; ++purpose) sum += used(purpose);
    for (const Holder& holder : holders_) sum += holder.promised;
    return sum;
  }

  void check() {
    for (size_t purpose = 0; purpose < kPurposes; ++purpose) {
      ASSERT_EQ(budget_.backed(static_cast<Purpose>(purpose)).value, used(purpose));
    }
    ASSERT_EQ((budget_.backed() + budget_.promised()).value, used());
    ASSERT_EQ(budget_.available().value, limit_ - used());
    ASSERT_EQ(budget_.verify(), "");
  }

  std::mt19937_64 random_;
  int64_t limit_ = 500;
  Budget budget_;
  std::vector<Holder> holders_;
  std::array<double, kOperations> weights_{};
};

TEST(Budget, AgreesWithANaiveModel) {
  for (uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    BudgetLife(seed).run(200);
  }
}

TEST(BudgetDeathTest, BugsAreCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Budget budget(Bytes(10));
        Charge charge(budget);
        charge.give_back(Purpose::kLive, Bytes(1));
      },
      "check failed");
  EXPECT_DEATH(
      {
        Budget budget(Bytes(10));
        Promise promise(budget);
        Charge charge(budget);
        charge.absorb(promise, Purpose::kLive, Bytes(1));
      },
      "check failed");
  EXPECT_DEATH(
      {
        Budget budget(Bytes(10));
        Charge charge(budget);
        Promise promise(budget);
        (void)promise.take(Bytes(5));
        charge.absorb(promise, Purpose::kLive, Bytes(5));
        charge.move(Purpose::kShared, Purpose::kLive, Bytes(1));
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
