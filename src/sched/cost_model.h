// How long a step takes: fixed + decode rows x a + prefill rows x b + attended keys x c, learnt while running.
//
// Method: least squares of the relative error with exponential forgetting (Ljung, "System identification", 2nd edition, 1999,
// chapter 11), solved under "no coefficient is negative" by coordinate descent. A measurement that is far from what was expected
// weighs less (Huber, "Robust estimation of a location parameter", 1964). What recent steps did not exercise keeps its last value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sched/scheduler.h"

namespace quire::sched {

class CostModel {
 public:
  CostModel();

  void learn(const StepSize& size, int64_t ns);
  [[nodiscard]] double expected_ns(const StepSize& size) const;

  // The most rows of a prompt that has `begin` tokens already, at most `rows`, that can be added to a step of `size` without its
  // time passing `limit_ns`.
  [[nodiscard]] int64_t prefill_rows_within(const StepSize& size, int64_t begin, int64_t rows, double limit_ns) const;

 private:
  static constexpr size_t kTerms = 4;
  using Terms = std::array<double, kTerms>;

  [[nodiscard]] static Terms terms(const StepSize& size);
  void add(const Terms& x, double y, double weight);
  void solve();

  Terms coefficients_;                     // ns: fixed, a decode row, a prefill row, an attended key
  std::array<Terms, kTerms> square_ = {};  // sum of weight x terms x terms
  Terms product_ = {};                     // sum of weight x terms x time
  double spread_ = 1;                      // typical relative error, for telling outliers
};

// Keys that `rows` consecutive rows of a causal sequence look at, the first at position `begin`.
[[nodiscard]] constexpr int64_t attended_keys(int64_t begin, int64_t rows) { return rows * begin + rows * (rows + 1) / 2; }

}  // namespace quire::sched
