#include "sampling/token_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire::sampling {
namespace {

std::map<TokenId, int> counted(const TokenCounts& counts) {
  std::map<TokenId, int> result;
  TokenId last = std::numeric_limits<TokenId>::min();
  for (const auto& [token, count] : counts.counts()) {
    EXPECT_TRUE(result.empty() || token > last);
    last = token;
    result[token] = count;
  }
  return result;
}

std::map<TokenId, int> counted_anew(std::span<const TokenId> window) {
  std::map<TokenId, int> result;
  for (const TokenId token : window) ++result[token];
  return result;
}

TEST(TokenCountsTest, EqualsCountingAnewHoweverTheWindowChanges) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
    std::vector<TokenId> history;
    TokenCounts counts;
    size_t begin = 0;
    for (int step = 0; step < 200; ++step) {
      switch (below(8)) {
        case 0:  // another history
          history.assign(below(20), static_cast<TokenId>(below(5)));
          begin = 0;
          break;
        case 1:  // anywhere
          begin = below(history.size() + 1);
          break;
        case 2:  // a token became another one
          if (!history.empty()) history[below(history.size())] = 77;
          break;
        case 3:  // many at once
          for (int i = 0; i < 30; ++i) history.push_back(static_cast<TokenId>(below(10)) - 1);
          break;
        default:  // as a reply grows
          history.push_back(static_cast<TokenId>(below(10)) - 1);
          if (below(2) == 0 && begin < history.size()) ++begin;
      }
      const auto window = std::span<const TokenId>(history).subspan(begin);
      counts.update(window);
      ASSERT_EQ(counted(counts), counted_anew(window)) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace quire::sampling
