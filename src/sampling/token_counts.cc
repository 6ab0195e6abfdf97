#include "sampling/token_counts.h"

#include <algorithm>

namespace quire::sampling {
namespace {

// Beyond it counting anew is faster than adding one by one.
constexpr size_t kFewTokens = 8;

bool id_below(const TokenCountEntry& entry, TokenId token) { return entry.token < token; }

bool begins_with(std::span<const TokenId> whole, std::span<const TokenId> part) {
  return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

}  // namespace

void TokenCounts::update(std::span<const TokenId> window) {
  const std::span<const TokenId> before = window_;
  if (begins_with(window, before) && window.size() - before.size() <= kFewTokens) {
    for (const TokenId token : window.subspan(before.size())) add(token);
    window_.insert(window_.end(), window.begin() + static_cast<ptrdiff_t>(before.size()), window.end());
  } else if (window.size() == before.size() && begins_with(window, before.subspan(1))) {
    remove(before.front());
    add(window.back());
    window_.erase(window_.begin());
    window_.push_back(window.back());
  } else {
    count_anew(window);
  }
}

void TokenCounts::count_anew(std::span<const TokenId> window) {
  window_.assign(window.begin(), window.end());
  std::sort(window_.begin(), window_.end());
  counts_.clear();
  for (const TokenId token : window_) {
    if (counts_.empty() || counts_.back().token != token) counts_.push_back({token, 0});
    ++counts_.back().count;
  }
  std::copy(window.begin(), window.end(), window_.begin());
}

void TokenCounts::add(TokenId token) {
  const auto place = std::lower_bound(counts_.begin(), counts_.end(), token, id_below);
  if (place != counts_.end() && place->token == token) {
    ++place->count;
  } else {
    counts_.insert(place, {token, 1});
  }
}

void TokenCounts::remove(TokenId token) {
  const auto place = std::lower_bound(counts_.begin(), counts_.end(), token, id_below);
  if (--place->count == 0) counts_.erase(place);
}

}  // namespace quire::sampling
