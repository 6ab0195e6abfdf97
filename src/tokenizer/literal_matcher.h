// Finds the longest of many literals at a place of a text: special and user-defined tokens.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quire::tokenizer {

class LiteralMatcher {
 public:
  struct Literal {
    std::string text;
    TokenId id;
  };
  struct Match {
    size_t begin;
    size_t length;
    TokenId id;
  };

  // Longer literals are refused, so that a vocabulary cannot make a search slow.
  static constexpr size_t kMaxLiteralBytes = 512;

  // No literals: nothing matches.
  LiteralMatcher() = default;

  // Empty literals match nowhere and are dropped; no two others may be equal (check_vocabulary sees to it).
  [[nodiscard]] static Result<LiteralMatcher> create(std::vector<Literal> literals);

  // The first match at or after `from`; where several begin, the longest.
  // Costs at most O(longest literal x log literals) a byte of text, and one table look-up where no literal begins.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from) const;

  // The id of the literal that is this whole text.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view text) const;

 private:
  // The literals that begin with one byte, a range of literals_.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };

  [[nodiscard]] std::optional<Match> match_at(std::string_view text, size_t begin) const;

  std::vector<Literal> literals_;  // sorted by bytes
  std::array<Range, 256> by_first_byte_{};
};

}  // namespace quire::tokenizer
