#include "base/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace quire::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The error of `value` in units of the double spacing at `exact`.
double ulps(double value, long double exact) {
  const double nearest = static_cast<double>(exact);
  if (value == nearest) return 0;
  const double spacing = std::max(std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest), 4.94e-324);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / spacing);
}

TEST(MathTest, ExpIsWithinOneUlp) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (const double range : {1e-9, 1e-3, 1.0, 30.0, 700.0}) {
    for (int i = 0; i < 40000; ++i) {
      const double x = std::uniform_real_distribution<double>(-range, range)(random);
      worst = std::max(worst, ulps(exp(x), std::exp(static_cast<long double>(x))));
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(MathTest, ExpAtTheEdges) {
  EXPECT_EQ(exp(0), 1);
  EXPECT_EQ(exp(-0.0), 1);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-kInfinity), 0);
  EXPECT_EQ(exp(709.79), kInfinity);
  EXPECT_EQ(exp(1e300), kInfinity);
  EXPECT_EQ(exp(-1e300), 0);
  EXPECT_TRUE(std::isnan(exp(std::nan(""))));
  for (const double x : {709.78, -708.0, -720.0, -745.0, 0.34657359, -0.34657359}) {
    EXPECT_LE(ulps(exp(x), std::exp(static_cast<long double>(x))), 1.0) << x;
  }
}

TEST(MathTest, LogIsWithinOneUlp) {
  std::mt19937_64 random(2);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    // Every exponent and mantissa of a positive finite double, subnormal ones too.
    const uint64_t bits = std::uniform_int_distribution<uint64_t>(1, 0x7fefffffffffffffULL)(random);
    const auto x = std::bit_cast<double>(bits);
    worst = std::max(worst, ulps(log(x), std::log(static_cast<long double>(x))));
    const double near_one = std::uniform_real_distribution<double>(0.5, 2.0)(random);
    worst = std::max(worst, ulps(log(near_one), std::log(static_cast<long double>(near_one))));
    const double at_one = 1 + std::uniform_real_distribution<double>(-1e-7, 1e-7)(random);
    worst = std::max(worst, ulps(log(at_one), std::log(static_cast<long double>(at_one))));
  }
  EXPECT_LT(worst, 0.6);
}

TEST(MathTest, LogAtTheEdges) {
  EXPECT_EQ(log(1), 0);
  EXPECT_EQ(log(0), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1)));
  EXPECT_TRUE(std::isnan(log(std::nan(""))));
  EXPECT_EQ(log(0x1p-1074), -1074 * 0.6931471805599453);
}

TEST(MathTest, PowOfRopeFrequenciesIsWithinOneUlp) {
  double worst = 0;
  for (const double base : {10000.0, 500000.0, 1000000.0, 8000000.0}) {
    for (const int dim : {64, 80, 96, 128, 256}) {
      for (int i = 0; i < dim; i += 2) {
        const double exponent = -static_cast<double>(i) / dim;
        worst = std::max(worst,
                         ulps(pow(base, exponent), std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
      }
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(MathTest, PowOfRandomArgumentsIsWithinOneUlp) {
  std::mt19937_64 random(3);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const double base = exp(std::uniform_real_distribution<double>(-700, 700)(random));
    // The long double reference loses 2^-64 times |exponent * log base|: kept below 30, where that is far below a double's ulp.
    const double exponent = std::uniform_real_distribution<double>(-30, 30)(random) / std::max(1.0, std::abs(log(base)));
    worst =
        std::max(worst, ulps(pow(base, exponent), std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
  }
  EXPECT_LT(worst, 1.0);
}

TEST(MathTest, PowAtTheEdges) {
  EXPECT_EQ(pow(2, 10), 1024);
  EXPECT_EQ(pow(2, -1074), 4.94e-324);
  EXPECT_EQ(pow(10, 400), kInfinity);
  EXPECT_EQ(pow(10, -400), 0);
  EXPECT_EQ(pow(7, 0), 1);
  EXPECT_EQ(pow(1, 1e308), 1);
  EXPECT_EQ(pow(2, kInfinity), kInfinity);
  EXPECT_EQ(pow(kInfinity, -1), 0);
  EXPECT_TRUE(std::isnan(pow(-2, 2)));
  EXPECT_TRUE(std::isnan(pow(0, 2)));
  EXPECT_TRUE(std::isnan(pow(2, std::nan(""))));
}

void expect_sin_cos(double x) {
  const SinCos result = sin_cos(x);
  const auto exact = static_cast<long double>(x);
  EXPECT_LT(std::abs(static_cast<long double>(result.sin) - std::sin(exact)), 2.3e-16L) << x;
  EXPECT_LT(std::abs(static_cast<long double>(result.cos) - std::cos(exact)), 2.3e-16L) << x;
}

TEST(MathTest, SinAndCosAreWithinTheirError) {
  std::mt19937_64 random(4);
  for (const double range : {1e-6, 1.0, 100.0, 1e5, 1e7, kLargestAngle}) {
    for (int i = 0; i < 20000; ++i) expect_sin_cos(std::uniform_real_distribution<double>(-range, range)(random));
  }
  for (int64_t i = 0; i <= 10'000'000; i += 997) {
    expect_sin_cos(static_cast<double>(i));
    // Next to the multiples of pi / 2, where the reduction cancels.
    expect_sin_cos(static_cast<double>(i) * 1.5707963267948966);
    expect_sin_cos((static_cast<double>(i) + 0.5) * 1.5707963267948966);
  }
  expect_sin_cos(kLargestAngle);
}

TEST(MathTest, SinAndCosAtTheEdges) {
  EXPECT_EQ(sin(0), 0);
  EXPECT_EQ(cos(0), 1);
  EXPECT_EQ(sin(-1.5), -sin(1.5));
  EXPECT_EQ(cos(-1.5), cos(1.5));
  for (const double x : {kInfinity, -kInfinity, std::nan(""), 2 * kLargestAngle}) {
    EXPECT_TRUE(std::isnan(sin(x))) << x;
    EXPECT_TRUE(std::isnan(cos(x))) << x;
  }
}

// The same on every processor, compiler and optimization level: one digest over many results.
TEST(MathTest, BitsAreTheCommittedOnes) {
  uint64_t digest = 0;
  const auto add = [&](double value) {
    digest = (digest ^ std::bit_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15ULL + (digest >> 29);
  };
  for (int i = 1; i <= 20000; ++i) {
    const double x = i * 0.73;
    add(exp(-x * 0.01));
    add(log(x));
    add(pow(10000.0, -x / 20000));
    add(sin(x * 31));
    add(cos(x * 31));
  }
  EXPECT_EQ(digest, 2819725286563389524ULL);
}

}  // namespace
}  // namespace quire::math
