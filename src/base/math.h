// Elementary functions whose bits are the same on every processor.
//
// The C library chooses its implementation by processor, so its last bits differ between machines; answers that depend on the
// model, the position and the seed alone cannot stand on it. These use + - * / and integer operations of IEEE double only, in a
// written order, without fused multiply-add (the build sets -ffp-contract=off).
//
// Errors, measured by math_test.cc against the C library's long double: exp, log and pow at most 1 ulp of the result (relative
// 2.3e-16; absolute the smallest subnormal where the result is subnormal), sin and cos at most 2.3e-16 absolute.
//
// Method: reduction of the argument (Cody and Waite, "Software Manual for the Elementary Functions", 1980) and the Taylor series of
// the rest. Where one double is not enough, pairs of doubles (Dekker, "A floating-point technique for extending the available
// precision", 1971).
#pragma once

namespace quire::math {

// e^x. Infinity from about 709.78 on, 0 below about -745.13, NaN for NaN.
[[nodiscard]] double exp(double x);

// The natural logarithm. -infinity for 0, NaN below 0 and for NaN, infinity for infinity.
[[nodiscard]] double log(double x);

// base^exponent for base > 0; NaN for any other base and for NaN.
[[nodiscard]] double pow(double base, double exponent);

// The largest |x| of sin and cos: positions times frequencies stay far below it.
inline constexpr double kLargestAngle = 16777216.0;

struct SinCos {
  double sin;
  double cos;
};

// Sine and cosine of x radians; both NaN where |x| > kLargestAngle and for NaN.
[[nodiscard]] SinCos sin_cos(double x);
[[nodiscard]] double sin(double x);
[[nodiscard]] double cos(double x);

}  // namespace quire::math
