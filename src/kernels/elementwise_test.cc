// The small steps: every instruction set against its scalar twin to the bit, and against the formulas in double.
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/hash.h"
#include "kernels/attention_test_support.h"
#include "kernels/twin/functions_twin.h"

namespace quire::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ElementwiseOfEverySet : public ::testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& set() const { return *GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Elementwise, ElementwiseOfEverySet, ::testing::ValuesIn(fast_sets()), [](const auto& name) {
  std::string text(to_string(name.param->isa));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

std::vector<float> row(size_t n, uint32_t seed, float factor = 3) { return Random(seed).row(n, factor); }

TEST_P(ElementwiseOfEverySet, EqualsTheTwinForAnyLength) {
  const ElementwiseKernels twin = twin_of(set()).elementwise;
  const ElementwiseKernels& fast = set().elementwise;
  Hasher hasher;
  for (const int n : {1, 2, 15, 16, 17, 31, 33, 64, 576, 640, 1000, 2048}) {
    const auto size = static_cast<size_t>(n);
    const std::vector<float> a = row(size, 1, 8);
    const std::vector<float> b = row(size, 2);
    std::vector<float> expected(size);
    std::vector<float> got(size);
    const auto compare = [&](const char* what) {
      EXPECT_TRUE(same_bits(expected, got)) << what << " " << n;
      hasher.add(std::as_bytes(std::span(got)));
    };
    twin.rms_norm(a.data(), b.data(), n, 1e-5f, expected.data());
    fast.rms_norm(a.data(), b.data(), n, 1e-5f, got.data());
    compare("rms_norm");
    got = a;
    fast.rms_norm(got.data(), b.data(), n, 1e-5f, got.data());
    compare("rms_norm in place");
    for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
      twin.gated(gate, a.data(), b.data(), n, expected.data());
      fast.gated(gate, a.data(), b.data(), n, got.data());
      compare("gated");
      got = b;
      fast.gated(gate, a.data(), got.data(), n, got.data());
      compare("gated in place");
    }
    twin.add(a.data(), b.data(), n, expected.data());
    fast.add(a.data(), b.data(), n, got.data());
    compare("add");
    got = a;
    expected = a;
    twin.scale(expected.data(), 25.298f, n);
    fast.scale(got.data(), 25.298f, n);
    compare("scale");
  }
  EXPECT_EQ(hasher.digest(), set().arithmetic == Arithmetic::kFused ? 2217365273931167014u : 5112070985473658054u);
}

TEST_P(ElementwiseOfEverySet, TouchesNothingBeyondTheRow) {
  for (const int n : {1, 15, 17, 30}) {
    const auto size = static_cast<size_t>(n);
    std::vector<float> out(size + 16, -5.0f);
    const std::vector<float> a = row(size + 16, 1);
    set().elementwise.rms_norm(a.data(), a.data(), n, 1e-5f, out.data());
    set().elementwise.gated(Gate::kSilu, a.data(), a.data(), n, out.data());
    set().elementwise.add(a.data(), a.data(), n, out.data());
    set().elementwise.scale(out.data(), 2.0f, n);
    for (size_t i = size; i < out.size(); ++i) EXPECT_EQ(out[i], -5.0f);
    std::vector<float> head(2 * size + 16, -5.0f);
    set().elementwise.rope(head.data(), a.data(), a.data(), n, RopePairs::kAdjacent);
    set().elementwise.rope(head.data(), a.data(), a.data(), n, RopePairs::kHalves);
    for (size_t i = 2 * size; i < head.size(); ++i) EXPECT_EQ(head[i], -5.0f);
  }
}

TEST_P(ElementwiseOfEverySet, RotatesAsTheTwinAndAsTheFormula) {
  const ElementwiseKernels twin = twin_of(set()).elementwise;
  for (const RopePairs layout : {RopePairs::kAdjacent, RopePairs::kHalves}) {
    for (const int pairs : {1, 8, 16, 17, 32, 40, 64, 128}) {
      const auto size = static_cast<size_t>(pairs);
      std::vector<float> cos(size);
      std::vector<float> sin(size);
      for (size_t i = 0; i < size; ++i) {
        cos[i] = static_cast<float>(std::cos(0.1 * static_cast<double>(i)));
        sin[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i)));
      }
      const std::vector<float> before = row(2 * size, 3);
      std::vector<float> expected = before;
      std::vector<float> got = before;
      twin.rope(expected.data(), cos.data(), sin.data(), pairs, layout);
      set().elementwise.rope(got.data(), cos.data(), sin.data(), pairs, layout);
      EXPECT_TRUE(same_bits(expected, got)) << pairs;
      for (size_t i = 0; i < size; ++i) {
        const size_t first = layout == RopePairs::kAdjacent ? 2 * i : i;
        const size_t second = layout == RopePairs::kAdjacent ? 2 * i + 1 : i + size;
        EXPECT_NEAR(got[first], before[first] * cos[i] - before[second] * sin[i], 2e-6f);
        EXPECT_NEAR(got[second], before[first] * sin[i] + before[second] * cos[i], 2e-6f);
      }
    }
  }
}

TEST(ElementwiseFormula, GatesAndNormAreTheFormulas) {
  for (const KernelSet* set : available_kernel_sets()) {
    std::vector<float> x;
    for (float value = -100; value <= 100; value += 0.037f) x.push_back(value);
    const std::vector<float> ones(x.size(), 1.0f);
    const int n = static_cast<int>(x.size());
    std::vector<float> silu(x.size());
    std::vector<float> gelu(x.size());
    set->elementwise.gated(Gate::kSilu, x.data(), ones.data(), n, silu.data());
    set->elementwise.gated(Gate::kGeluTanh, x.data(), ones.data(), n, gelu.data());
    std::vector<float> norm(x.size());
    set->elementwise.rms_norm(x.data(), ones.data(), n, 0.5f, norm.data());
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
    const double factor = 1 / std::sqrt(squares / n + 0.5);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto value = static_cast<double>(x[i]);
      const double exact_silu = value / (1 + std::exp(-value));
      const double exact_gelu =
          value / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (value + 0.044715 * value * value * value)));
      EXPECT_NEAR(silu[i], exact_silu, 4e-7 * std::abs(value)) << to_string(set->isa) << " " << value;
      EXPECT_NEAR(gelu[i], exact_gelu, 4e-7 * std::abs(value)) << to_string(set->isa) << " " << value;
      EXPECT_NEAR(norm[i], value * factor, 4e-7 * std::abs(value * factor));
    }
  }
}

TEST_P(ElementwiseOfEverySet, GatesAtTheEnds) {
  const std::vector<float> x = {0.0f, -0.0f, 88.7f, -88.7f, 1e30f, -1e30f, kInfinity, -3e38f, 1e-30f};
  const std::vector<float> ones(x.size(), 1.0f);
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    std::vector<float> out(x.size());
    std::vector<float> expected(x.size());
    set().elementwise.gated(gate, x.data(), ones.data(), static_cast<int>(x.size()), out.data());
    twin_of(set()).elementwise.gated(gate, x.data(), ones.data(), static_cast<int>(x.size()), expected.data());
    EXPECT_TRUE(same_bits(expected, out));
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[4], 1e30f);
    EXPECT_EQ(out[5], 0.0f);
    EXPECT_EQ(out[6], kInfinity);
    EXPECT_EQ(out[7], 0.0f);
  }
}

// The largest error of an exponential over f32 arguments, in units of the result's last place.
template <typename Exp>
double largest_error_ulp(Exp exp) {
  double worst = 0;
  // Every 1021st of all f32 in [-87.3, -2^-30] and [2^-30, 88.72].
  for (uint32_t bits = std::bit_cast<uint32_t>(0x1p-30f); bits <= std::bit_cast<uint32_t>(88.72f); bits += 1021) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < kExpLowest) continue;
      const long double exact = std::exp(static_cast<long double>(x));
      const float got = exp(x);
      const int exponent = std::ilogb(static_cast<float>(exact));
      worst =
          std::max(worst, static_cast<double>(std::abs(static_cast<long double>(got) - exact) * std::ldexp(1.0L, 23 - exponent)));
    }
  }
  return worst;
}

TEST(Exp, IsWithinOneAndAHalfUnitsOfTheLastPlace) {
  EXPECT_LT(largest_error_ulp(twin::exp<Arithmetic::kFused>), 1.1);
  EXPECT_LT(largest_error_ulp(twin::exp<Arithmetic::kSeparate>), 1.5);
}

TEST(Exp, IsExactAtZeroAndAtTheEnds) {
  EXPECT_EQ(twin::exp<Arithmetic::kFused>(0.0f), 1.0f);
  EXPECT_EQ(twin::exp<Arithmetic::kFused>(-0.0f), 1.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(twin::exp<Arithmetic::kFused>(-kInfinity)), 0u);
  EXPECT_EQ(twin::exp<Arithmetic::kFused>(kInfinity), kInfinity);
  EXPECT_EQ(twin::exp<Arithmetic::kSeparate>(0.0f), 1.0f);
  EXPECT_GE(twin::exp<Arithmetic::kSeparate>(kExpLowest), std::numeric_limits<float>::min());
  EXPECT_LE(twin::exp<Arithmetic::kSeparate>(kExpHighest), std::numeric_limits<float>::max());
}

// exp of a set is seen through the gate: x / (1 + exp(-x)) with x and up chosen so that nothing is rounded away.
TEST_P(ElementwiseOfEverySet, ExponentialsEqualTheTwinsOverAllMagnitudes) {
  std::vector<float> x;
  for (uint32_t bits = 0x00800000u; bits < 0x7f800000u; bits += 9973) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-std::bit_cast<float>(bits));
  }
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> expected(x.size());
  std::vector<float> got(x.size());
  for (const Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    twin_of(set()).elementwise.gated(gate, x.data(), ones.data(), static_cast<int>(x.size()), expected.data());
    set().elementwise.gated(gate, x.data(), ones.data(), static_cast<int>(x.size()), got.data());
    EXPECT_TRUE(same_bits(expected, got));
  }
}

}  // namespace
}  // namespace quire::kernels
