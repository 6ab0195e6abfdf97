#include "tests/simulation/fake_law.h"

#include <algorithm>

#include "base/check.h"

namespace quire::simulation {

uint64_t mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

int64_t FakeLaw::first_seen(int layer, int64_t position) const {
  const std::optional<int64_t> window = options_.windows[static_cast<size_t>(layer)];
  return window ? std::max<int64_t>(0, position + 1 - *window) : 0;
}

void FakeLaw::fill_logits(uint64_t seen, std::span<float> logits) const {
  constexpr int kLikely = 5;
  std::fill(logits.begin(), logits.end(), -20.0F);
  uint64_t bits = mix(seen);
  for (int i = 0; i < kLikely; ++i) {
    bits = mix(bits);
    const TokenId token = options_.alphabet[bits % options_.alphabet.size()];
    logits[static_cast<size_t>(token)] = static_cast<float>(bits >> 40) * 0x1p-24F * 4;
  }
  bits = mix(bits);
  if (bits % options_.ends_one_in == 0) logits[static_cast<size_t>(options_.end_of_text)] = 12;
}

History::History(const FakeLaw& law, int64_t id)
    : law_(&law), id_(id), hashes_{law.empty_hash()}, sums_(static_cast<size_t>(law.layers()), std::vector<uint64_t>{0}) {}

void History::push(TokenId token) {
  tokens_.push_back(token);
  hashes_.push_back(law_->next_hash(hashes_.back(), token));
  for (int layer = 0; layer < law_->layers(); ++layer) {
    auto& sums = sums_[static_cast<size_t>(layer)];
    sums.push_back(sums.back() + law_->lane(layer, hashes_.back()));
  }
}

uint64_t History::seen() const {
  QUIRE_CHECK(length() > 0);
  uint64_t sum = 0;
  for (int layer = 0; layer < law_->layers(); ++layer) {
    const auto& sums = sums_[static_cast<size_t>(layer)];
    sum += sums.back() - sums[static_cast<size_t>(law_->first_seen(layer, length() - 1))];
  }
  return sum;
}

}  // namespace quire::simulation
