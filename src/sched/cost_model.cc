#include "sched/cost_model.h"

#include <algorithm>
#include <cmath>

namespace quire::sched {

namespace {

// Before anything was measured: a small model on two cores.
constexpr std::array<double, 4> kDefaults = {2e6, 1e6, 3e5, 20};
// Sizes of the terms at which each alone is worth a remembered measurement.
constexpr std::array<double, 4> kTypical = {1, 8, 128, 1e5};
// The influence of a measurement falls to a half after about 70 steps.
constexpr double kForget = 0.99;
// Weight of what was known about each term, beside a measurement's.
constexpr double kKeep = 1e-3;
constexpr int kSweeps = 20;

}  // namespace

CostModel::CostModel() : coefficients_(kDefaults) {}

CostModel::Terms CostModel::terms(const StepSize& size) {
  return {1, static_cast<double>(size.decode_rows), static_cast<double>(size.prefill_rows), static_cast<double>(size.attended)};
}

double CostModel::expected_ns(const StepSize& size) const {
  const Terms x = terms(size);
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += coefficients_[i] * x[i];
  return sum;
}

void CostModel::add(const Terms& x, double y, double weight) {
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) square_[i][j] += weight * x[i] * x[j];
    product_[i] += weight * x[i] * y;
  }
}

void CostModel::learn(const StepSize& size, int64_t ns) {
  const double measured = std::max<double>(1, static_cast<double>(ns));
  const double expected = expected_ns(size);
  const double larger = std::max(measured, expected);
  const double error = std::abs(measured - expected) / larger;  // 0 to 1
  const double trust = std::min(1.0, 2 * spread_ / std::max(error, 1e-9));
  spread_ = std::clamp(0.9 * spread_ + 0.1 * std::min(error, 2 * spread_), 0.01, 1.0);

  for (Terms& row : square_) {
    for (double& value : row) value *= kForget;
  }
  for (double& value : product_) value *= kForget;
  // Each coefficient is remembered a little, as if measured alone, so that none is lost while no step exercises it.
  for (size_t i = 0; i < kTerms; ++i) {
    Terms alone = {};
    alone[i] = kTypical[i];
    const double time = std::max(1.0, coefficients_[i] * kTypical[i]);
    add(alone, coefficients_[i] * kTypical[i], kKeep / std::max(time * time, larger * larger));
  }
  add(terms(size), measured, trust / (larger * larger));
  solve();
}

void CostModel::solve() {
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < kTerms; ++i) {
      double rest = product_[i];
      for (size_t j = 0; j < kTerms; ++j) rest -= j == i ? 0 : square_[i][j] * coefficients_[j];
      if (square_[i][i] > 0) coefficients_[i] = std::max(0.0, rest / square_[i][i]);
    }
  }
}

int64_t CostModel::prefill_rows_within(const StepSize& size, int64_t begin, int64_t rows, double limit_ns) const {
  // fixed part + rows x row + rows^2 x square <= limit
  const double left = limit_ns - expected_ns(size);
  if (left <= 0) return 0;
  const double row = coefficients_[2] + coefficients_[3] * (static_cast<double>(begin) + 0.5);
  const double square = coefficients_[3] / 2;
  // The larger root in the form that loses nothing when `square` is small.
  const double divisor = row + std::sqrt(row * row + 4 * square * left);
  if (divisor <= 0) return rows;
  const double fits = 2 * left / divisor;
  return fits >= static_cast<double>(rows) ? rows : static_cast<int64_t>(fits);
}

}  // namespace quire::sched
