#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace quire {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(ErrorCode::kInvalidArgument, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  QUIRE_TRY(const int h, half(n));
  return half(h);
}

Status check_even(int n) {
  QUIRE_TRY_STATUS(half(n));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_EQ(*half(4), 2);
  EXPECT_EQ(half(3).error().message, "odd");
  EXPECT_EQ(half(3).error().code, ErrorCode::kInvalidArgument);
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_FALSE(quarter(6).ok());
  EXPECT_FALSE(quarter(5).ok());
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(1).error().message, "odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  std::unique_ptr<int> taken = std::move(r).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, AtPutsThePlaceFirst) { EXPECT_EQ(at("model.gguf", half(1).error()).message, "model.gguf: odd"); }

TEST(ResultDeathTest, TakingTheValueOfAnErrorIsABug) { EXPECT_DEATH((void)half(1).value(), "odd"); }

}  // namespace
}  // namespace quire
