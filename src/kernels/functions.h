// Constants of the elementary functions that the kernels use in f32 (docs/arithmetic.md, "Functions").
//
// exp: with n the integer nearest to x / ln 2 and r = x - n ln 2 (Cody and Waite, "Software Manual for the Elementary Functions",
// 1980), e^x = 2^n (1 + r + r^2 q(r)). q is the polynomial of degree 4 whose relative error in e^r is the smallest for
// |r| <= 0.34664 (Remez's exchange), rounded to f32: 3.8e-9.
#pragma once

namespace quire::kernels {

inline constexpr float kLog2E = 0x1.715476p+0f;
// Adding and subtracting it rounds |x| < 2^22 to an integer, which the low bits of the sum hold meanwhile.
inline constexpr float kRoundingShift = 12582912.0f;
// ln 2 in two parts. The first has 16 bits, so that its products with exponents are exact.
inline constexpr float kLn2High = 0x1.62e4p-1f;
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
// q(r) = kExp2 + kExp3 r + ... + kExp6 r^4
inline constexpr float kExp2 = 0x1.fffffcp-2f;
inline constexpr float kExp3 = 0x1.555492p-3f;
inline constexpr float kExp4 = 0x1.5558f2p-5f;
inline constexpr float kExp5 = 0x1.1239fp-7f;
inline constexpr float kExp6 = 0x1.6a241cp-10f;
// Below, exp is +0 (so that no result is subnormal); above, infinity.
inline constexpr float kExpLowest = -87.3f;
inline constexpr float kExpHighest = 88.72283f;

// gelu(x) = x / (1 + exp(x (kGeluLinear + kGeluCubic x^2))), Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), by
// (1 + tanh u) / 2 = 1 / (1 + exp(-2u)): -2 sqrt(2 / pi) and 0.044715 times that.
inline constexpr float kGeluLinear = -0x1.988454p+0f;
inline constexpr float kGeluCubic = -0x1.2444f2p-4f;

}  // namespace quire::kernels
