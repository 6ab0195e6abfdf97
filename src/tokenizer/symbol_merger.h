// The loop that all BPE tokenizers share: of all neighbours that may be merged, merge the best, until none is left.
//
// Best is the lowest rank; of equal ranks the leftmost. With n symbols there are fewer than n merges, and each makes at most two
// new neighbours: at most 3n look-ups and O(n log n) steps in all, however long the text without a space is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace quire::tokenizer {

inline constexpr TokenId kNoToken = -1;

struct Symbol {
  uint32_t begin;  // where its bytes begin in the text
  uint32_t length;
  TokenId id;  // kNoToken: not in the vocabulary
};

struct Merge {
  uint32_t rank;
  TokenId id;  // of the merged symbol
};

// Keeps its memory between calls; used by one thread at a time.
class SymbolMerger {
 public:
  // Merges symbols in place and returns how many are left. `find(left, right)` says how two neighbours merge, or nothing.
  // At most 2^31 symbols; none may have length 0.
  template <typename Find>
  size_t run(std::vector<Symbol>& symbols, const Find& find);

 private:
  struct Links {
    int32_t previous, next;  // -1 at the ends
  };
  // A merge that was possible when it was found. It still is if both are there with the lengths they had then: lengths only grow,
  // so their sum tells, and a symbol that was merged into its left neighbour has length 0.
  struct Candidate {
    uint32_t rank;
    int32_t left, right;
    uint32_t length;
    TokenId id;
  };
  static bool after(const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; }

  template <typename Find>
  void consider(const std::vector<Symbol>& symbols, int32_t left, int32_t right, const Find& find);

  std::vector<Links> links_;
  std::vector<Candidate> heap_;
};

template <typename Find>
void SymbolMerger::consider(const std::vector<Symbol>& symbols, int32_t left, int32_t right, const Find& find) {
  if (left < 0 || right < 0) return;
  const Symbol& a = symbols[static_cast<size_t>(left)];
  const Symbol& b = symbols[static_cast<size_t>(right)];
  if (const std::optional<Merge> merge = find(a, b)) heap_.push_back({merge->rank, left, right, a.length + b.length, merge->id});
}

template <typename Find>
size_t SymbolMerger::run(std::vector<Symbol>& symbols, const Find& find) {
  if (symbols.size() < 2) return symbols.size();
  QUIRE_CHECK(symbols.size() <= INT32_MAX);
  const auto count = static_cast<int32_t>(symbols.size());
  heap_.clear();
  links_.resize(symbols.size());
  for (int32_t i = 0; i < count; ++i) links_[static_cast<size_t>(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
  for (int32_t i = 0; i + 1 < count; ++i) consider(symbols, i, i + 1, find);
  std::make_heap(heap_.begin(), heap_.end(), after);
  const auto push = [&](int32_t left, int32_t right) {
    const size_t before = heap_.size();
    consider(symbols, left, right, find);
    if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), after);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), after);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
    left.length = best.length;
    left.id = best.id;
    right.length = 0;
    Links& links = links_[static_cast<size_t>(best.left)];
    links.next = links_[static_cast<size_t>(best.right)].next;
    if (links.next >= 0) links_[static_cast<size_t>(links.next)].previous = best.left;
    push(links.previous, best.left);
    push(best.left, links.next);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
  return symbols.size();
}

}  // namespace quire::tokenizer
