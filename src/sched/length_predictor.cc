#include "sched/length_predictor.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire::sched {

size_t LengthPredictor::bin_of(int64_t length) {
  if (length < 8) return static_cast<size_t>(std::max<int64_t>(length, 0));
  const int bits = std::bit_width(static_cast<uint64_t>(length));  // at least 4
  const auto quarter = static_cast<size_t>(length >> (bits - 3)) & 3u;
  return 8 + static_cast<size_t>(bits - 4) * 4 + quarter;
}

void LengthPredictor::observe(TokenCount length) {
  if (length.value <= 0) return;
  if (++observed_ % kMemory == 0) {
    for (Bin& bin : bins_) bin = {bin.count / 2, bin.tokens / 2};
  }
  Bin& bin = bins_[bin_of(length.value)];
  bin.count += 1;
  bin.tokens += static_cast<double>(length.value);
  sum_up();
}

void LengthPredictor::sum_up() {
  for (size_t i = kBins; i-- > 0;) {
    above_[i] = {above_[i + 1].count + bins_[i].count, above_[i + 1].tokens + bins_[i].tokens};
  }
}

TokenCount LengthPredictor::remaining(TokenCount produced, TokenCount left) const {
  if (left.value <= 0) return TokenCount(0);
  const int64_t limit = produced.value + left.value;
  // Bins wholly above `produced`, those from the limit's on counting as the limit.
  const size_t first = bin_of(produced.value) + 1;
  const size_t last = std::max(first, bin_of(limit));
  const Bin between = {above_[first].count - above_[last].count, above_[first].tokens - above_[last].tokens};
  const double longer = above_[last].count;
  const double unknown = static_cast<double>(std::min(left.value, std::max(produced.value, kUnknownTokens)));
  const double further =
      between.tokens - between.count * static_cast<double>(produced.value) + longer * static_cast<double>(left.value) + unknown;
  const double mean = further / (between.count + longer + 1);
  return TokenCount(std::clamp<int64_t>(std::llround(mean), 1, left.value));
}

}  // namespace quire::sched
