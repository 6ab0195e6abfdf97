#include "base/math.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace quire::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 in three parts: the first has 40 bits, so that its product with any exponent is exact.
constexpr double kLn2High = 0x1.62e42fefa2000p-1;
constexpr double kLn2Middle = 0x1.9ef35793c7673p-41;
constexpr double kLn2Low = 0x1.f97b57a079a19p-103;

// pi / 2 in three parts: the first two have 29 bits each, so that their products with integers up to 2^24 are exact.
constexpr double kHalfPiHigh = 0x1.921fb54000000p+0;
constexpr double kHalfPiMiddle = 0x1.10b4610000000p-30;
constexpr double kHalfPiLow = 0x1.a62633145c06ep-58;

// The unevaluated sum high + low, |low| at most half a unit in the last place of high.
struct Pair {
  double high;
  double low;
};

// a + b exactly, for |a| >= |b| or a = 0 (Dekker 1971).
constexpr Pair add_ordered(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly (Knuth, "The Art of Computer Programming", volume 2, section 4.2.2).
constexpr Pair add_exact(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// The upper 26 bits and the rest (Veltkamp).
constexpr Pair split(double a) {
  const double scaled = a * 134217729.0;
  const double high = scaled - (scaled - a);
  return {high, a - high};
}

// a * b exactly, for |a|, |b| below 2^900 (Dekker 1971).
constexpr Pair multiply_exact(double a, double b) {
  const double product = a * b;
  const Pair x = split(a);
  const Pair y = split(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

constexpr Pair add(Pair a, Pair b) {
  const Pair sum = add_exact(a.high, b.high);
  return add_ordered(sum.high, sum.low + (a.low + b.low));
}

constexpr Pair multiply(Pair a, Pair b) {
  const Pair product = multiply_exact(a.high, b.high);
  return add_ordered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

constexpr Pair divide(double numerator, Pair denominator) {
  const double quotient = numerator / denominator.high;
  const Pair product = multiply_exact(quotient, denominator.high);
  const double rest = ((numerator - product.high) - product.low) - quotient * denominator.low;
  return add_ordered(quotient, rest / denominator.high);
}

// 1 / n! for n from 0.
constexpr size_t kFactorials = 20;
constexpr std::array<double, kFactorials> kInverseFactorial = [] {
  std::array<double, kFactorials> table{};
  double factorial = 1;
  for (size_t n = 0; n < kFactorials; ++n) {
    if (n > 0) factorial *= static_cast<double>(n);
    table[n] = 1.0 / factorial;
  }
  return table;
}();

constexpr int64_t round_to_integer(double x) { return static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5); }

// 2^exponent for a normal result.
double power_of_two(int64_t exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

// e^(x.high + x.low), with x = k ln 2 + r, |r| <= ln 2 / 2.
double exp_of_pair(Pair x) {
  if (x.high != x.high) return kNan;
  if (x.high > 709.8) return kInfinity;
  if (x.high < -745.2) return 0;
  const int64_t k = round_to_integer(x.high * 1.4426950408889634);
  const auto k_value = static_cast<double>(k);
  const double high = x.high - k_value * kLn2High;
  const double low = k_value * kLn2Middle - x.low;
  const double r = high - low;
  const double r_rest = (high - r) - low;
  double series = kInverseFactorial[13];
  for (size_t n = 12; n >= 2; --n) series = series * r + kInverseFactorial[n];
  const double power = 1 + (r + (r_rest + r * r * series));
  // Two steps, because 2^k alone may be out of range where the result is not.
  const int64_t half = k / 2;
  return power * power_of_two(half) * power_of_two(k - half);
}

constexpr size_t kLogTerms = 16;
constexpr std::array<Pair, kLogTerms> kInverseOdd = [] {
  std::array<Pair, kLogTerms> table{};
  for (size_t i = 0; i < kLogTerms; ++i) table[i] = divide(1, {static_cast<double>(2 * i + 1), 0});
  return table;
}();

// ln x for finite x > 0: x = 2^k m, ln m = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = (m - 1) / (m + 1), |s| < 0.172.
// The terms from s^13 on are too small to need pairs.
Pair log_as_pair(double x) {
  int64_t k = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    k = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  k += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    k += 1;
  }
  const Pair s = divide(m - 1, add_exact(1, m));
  const Pair square = multiply(s, s);
  double tail = kInverseOdd[kLogTerms - 1].high;
  for (size_t i = kLogTerms - 2; i >= 6; --i) tail = tail * square.high + kInverseOdd[i].high;
  Pair series = {tail, 0};
  for (size_t i = 6; i-- > 0;) series = add(multiply(series, square), kInverseOdd[i]);
  const Pair half = multiply(s, series);
  const auto k_value = static_cast<double>(k);
  Pair result = {2 * half.high, 2 * half.low};
  Pair k_log = multiply_exact(k_value, kLn2Middle);
  k_log.low += k_value * kLn2Low;
  result = add(result, k_log);
  return add({k_value * kLn2High, 0}, result);
}

}  // namespace

double exp(double x) { return exp_of_pair({x, 0}); }

double log(double x) {
  if (x == 0) return -kInfinity;
  if (!(x > 0)) return kNan;
  if (x == kInfinity) return x;
  return log_as_pair(x).high;
}

double pow(double base, double exponent) {
  if (!(base > 0) || exponent != exponent) return kNan;
  if (exponent == 0 || base == 1) return 1;
  const Pair log_base = base == kInfinity ? Pair{kInfinity, 0} : log_as_pair(base);
  const double estimate = log_base.high * exponent;
  if (estimate > 800) return kInfinity;
  if (estimate < -800) return 0;
  Pair product = multiply_exact(log_base.high, exponent);
  product.low += log_base.low * exponent;
  return exp_of_pair(add_ordered(product.high, product.low));
}

SinCos sin_cos(double x) {
  if (!(x >= -kLargestAngle && x <= kLargestAngle)) return {kNan, kNan};
  // x = quarters * pi / 2 + r + r_rest, |r| <= pi / 4.
  const int64_t quarters = round_to_integer(x * 0.6366197723675814);
  const auto count = static_cast<double>(quarters);
  const Pair reduced = add_exact(x - count * kHalfPiHigh, -(count * kHalfPiMiddle));
  const Pair rest = add_exact(reduced.high, reduced.low - count * kHalfPiLow);
  const double r = rest.high;
  const double square = r * r;
  // sin r = r + r^3 S(r^2) and cos r = 1 - r^2 / 2 + r^4 C(r^2), to the powers 19 and 18; the first terms stand apart so that they
  // keep their last bits.
  double sine_series = -kInverseFactorial[19];
  for (size_t n = 17; n >= 3; n -= 2)
    sine_series = sine_series * square + (n % 4 == 1 ? kInverseFactorial[n] : -kInverseFactorial[n]);
  double cosine_series = -kInverseFactorial[18];
  for (size_t n = 16; n >= 4; n -= 2)
    cosine_series = cosine_series * square + (n % 4 == 0 ? kInverseFactorial[n] : -kInverseFactorial[n]);
  const double half_square = 0.5 * square;
  const double sine_of_r = r + (rest.low * (1 - half_square) + r * square * sine_series);
  const double one_minus = 1 - half_square;
  const double cosine_of_r = one_minus + (((1 - one_minus) - half_square) + (square * square * cosine_series - r * rest.low));
  switch (static_cast<uint64_t>(quarters) & 3U) {
    case 0: return {sine_of_r, cosine_of_r};
    case 1: return {cosine_of_r, -sine_of_r};
    case 2: return {-sine_of_r, -cosine_of_r};
    default: return {-cosine_of_r, sine_of_r};
  }
}

double sin(double x) { return sin_cos(x).sin; }
double cos(double x) { return sin_cos(x).cos; }

}  // namespace quire::math
