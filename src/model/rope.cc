#include "model/rope.h"

#include "base/check.h"
#include "base/math.h"

namespace quire::model {

RopeFrequencies::RopeFrequencies(const RopeConfig& rope, int dims, std::span<const float> factors) {
  QUIRE_CHECK(factors.empty() || factors.size() == static_cast<size_t>(dims / 2));
  for (int i = 0; i < dims / 2; ++i) {
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[static_cast<size_t>(i)]);
    frequency_.push_back(math::pow(rope.base, -2.0 * i / dims) / rope.position_divisor / factor);
  }
}

void RopeFrequencies::angles(TokenPos position, float* cos, float* sin) const {
  for (size_t i = 0; i < frequency_.size(); ++i) {
    const math::SinCos angle = math::sin_cos(static_cast<double>(position.value) * frequency_[i]);
    cos[i] = static_cast<float>(angle.cos);
    sin[i] = static_cast<float>(angle.sin);
  }
}

}  // namespace quire::model
