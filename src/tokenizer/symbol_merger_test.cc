#include "tokenizer/symbol_merger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace quire::tokenizer {
namespace {

using Rules = std::map<std::pair<TokenId, TokenId>, Merge>;

std::vector<Symbol> symbols_of(const std::vector<TokenId>& ids) {
  std::vector<Symbol> symbols;
  for (const TokenId id : ids) symbols.push_back({static_cast<uint32_t>(symbols.size()), 1, id});
  return symbols;
}

std::vector<TokenId> merged(const std::vector<TokenId>& ids, const Rules& rules) {
  std::vector<Symbol> symbols = symbols_of(ids);
  SymbolMerger merger;
  merger.run(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto rule = rules.find({left.id, right.id});
    return rule == rules.end() ? std::nullopt : std::optional<Merge>(rule->second);
  });
  uint32_t end = 0;
  std::vector<TokenId> out;
  for (const Symbol& symbol : symbols) {
    EXPECT_EQ(symbol.begin, end);
    end += symbol.length;
    out.push_back(symbol.id);
  }
  EXPECT_EQ(end, ids.size());
  return out;
}

// The definition: look at all neighbours, merge the best, and again.
std::vector<TokenId> merged_naively(std::vector<TokenId> ids, const Rules& rules) {
  while (true) {
    size_t best = ids.size();
    Merge merge{UINT32_MAX, kNoToken};
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule == rules.end() || rule->second.rank >= merge.rank) continue;
      best = i;
      merge = rule->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(SymbolMerger, MergesTheBestFirstAndOfEqualsTheLeftmost) {
  const Rules rules = {{{0, 0}, {1, 2}}, {{0, 1}, {0, 3}}};
  EXPECT_EQ(merged({0, 0, 0}, rules), (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(merged({0, 0, 1}, rules), (std::vector<TokenId>{0, 3}));
  EXPECT_EQ(merged({}, rules), (std::vector<TokenId>{}));
  EXPECT_EQ(merged({0}, rules), (std::vector<TokenId>{0}));
}

RC_GTEST_PROP(SymbolMerger, EqualsItsDefinition, ()) {
  Rules rules;
  // Few ranks, so that many are equal; few ids, so that merges meet.
  for (const int i : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6 * 6 * 6 * 4))) {
    rules.insert({{i % 6, i / 6 % 6}, {static_cast<uint32_t>(i / 216), i / 36 % 6}});
  }
  const auto ids = *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange(0, 6));
  RC_ASSERT(merged(ids, rules) == merged_naively(ids, rules));
}

TEST(SymbolMerger, LooksUpAtMostThreePairsASymbol) {
  // The worst that a vocabulary can do: everything merges with everything, from the left or in a tree of halves.
  for (const bool tree : {false, true}) {
    for (const size_t count : {1u << 10, 1u << 14, 1u << 18}) {
      std::vector<Symbol> symbols = symbols_of(std::vector<TokenId>(count, 0));
      size_t looked_up = 0;
      SymbolMerger merger;
      const size_t left = merger.run(symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
        ++looked_up;
        return Merge{tree ? a.length + b.length : 0, 0};
      });
      EXPECT_EQ(left, 1u);
      EXPECT_LE(looked_up, 3 * count);
    }
  }
}

}  // namespace
}  // namespace quire::tokenizer
