#include "sampling/mass_selection.h"

#include "base/check.h"

namespace quire::sampling {

MassSelection MassSelector::select(std::span<const uint32_t> keys, std::span<const double> masses, double wanted) {
  QUIRE_CHECK(keys.size() == masses.size() && wanted > 0);
  uint32_t prefix = 0;       // the bits of the threshold that are known
  uint32_t prefix_mask = 0;  // where they are
  double before = 0;         // mass of the things above every key with this prefix
  struct Digit {
    int shift;
    uint32_t bins;
  };
  for (const auto [shift, bins] : {Digit{21, 2048}, Digit{10, 2048}, Digit{0, 1024}}) {
    mass_of_bin_.fill(0);
    uint32_t lowest = bins;  // bin that holds a thing
    for (size_t i = 0; i < keys.size(); ++i) {
      if ((keys[i] & prefix_mask) != prefix) continue;
      const uint32_t bin = (keys[i] >> shift) & (bins - 1);
      mass_of_bin_[bin] += masses[i];
      lowest = bin < lowest ? bin : lowest;
    }
    if (lowest == bins) return {};  // there is nothing at all
    uint32_t bin = bins - 1;
    while (bin > lowest && before + mass_of_bin_[bin] < wanted) before += mass_of_bin_[bin--];
    prefix |= bin << shift;
    prefix_mask |= (bins - 1) << shift;
  }
  size_t ties = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != prefix) continue;
    ++ties;
    before += masses[i];
    if (before >= wanted) break;
  }
  return {prefix, ties};
}

}  // namespace quire::sampling
