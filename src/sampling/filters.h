// The filters of a sampler over one row, and the draw. sampler.h says what each does and in which order they come.
//
// Everything stays in the order of ids, and nothing is sorted that is as large as a vocabulary. The buffers keep their capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "sampling/adjusted_row.h"
#include "sampling/mass_selection.h"

namespace quire::sampling {

class Filters {
 public:
  // The first `top_k` candidates of the row (0: all) that a draw at this temperature, or at 1, could take.
  void read(const AdjustedRow& row, size_t top_k, double temperature);
  // The same of these candidates, which are in the order of ids and have usable logits.
  void read(std::span<const Candidate> candidates, size_t top_k, double temperature);

  // In the order of ids; the filters below need at least one, and leave at least one.
  [[nodiscard]] std::span<const Candidate> candidates() const { return candidates_; }

  void keep_typical(double typical_p);
  void keep_top_p(double top_p);
  void keep_min_p(double min_p);

  // The candidate that `uniform` in [0, 1) falls on.
  [[nodiscard]] TokenId draw(double temperature, double uniform);

 private:
  [[nodiscard]] double largest() const;
  void drop_below(double floor);
  void keep_top_k(size_t top_k);
  double weigh(double temperature);
  void key_by_logit();
  void keep(MassSelection selection);

  std::vector<Candidate> candidates_;
  std::vector<double> weights_;  // by candidate, of the last weigh()
  std::vector<uint32_t> keys_;   // by candidate: larger ones stay first
  MassSelector selector_;
};

}  // namespace quire::sampling
