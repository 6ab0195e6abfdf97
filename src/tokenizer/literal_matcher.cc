#include "tokenizer/literal_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

Result<LiteralMatcher> LiteralMatcher::create(std::vector<Literal> literals) {
  std::erase_if(literals, [](const Literal& literal) { return literal.text.empty(); });
  for (const Literal& literal : literals) {
    if (literal.text.size() > kMaxLiteralBytes) {
      return make_error(ErrorCode::kLimit,
                        fmt::format("tokenizer: the special token {} ({}) has {} bytes; at most {} are supported", literal.id,
                                    printable(literal.text), literal.text.size(), kMaxLiteralBytes));
    }
  }
  std::sort(literals.begin(), literals.end(), [](const Literal& a, const Literal& b) { return a.text < b.text; });
  LiteralMatcher matcher;
  matcher.literals_ = std::move(literals);
  for (size_t i = 0; i < matcher.literals_.size(); ++i) {
    Range& range = matcher.by_first_byte_[static_cast<unsigned char>(matcher.literals_[i].text[0])];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  return matcher;
}

std::optional<LiteralMatcher::Match> LiteralMatcher::find(std::string_view text, size_t from) const {
  if (literals_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (by_first_byte_[static_cast<unsigned char>(text[begin])].end == 0) continue;
    if (const auto match = match_at(text, begin)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted literals to those that agree with the text byte by byte; the one that ends first stands first.
std::optional<LiteralMatcher::Match> LiteralMatcher::match_at(std::string_view text, size_t begin) const {
  const Range range = by_first_byte_[static_cast<unsigned char>(text[begin])];
  auto low = literals_.begin() + static_cast<ptrdiff_t>(range.begin);
  auto high = literals_.begin() + static_cast<ptrdiff_t>(range.end);
  std::optional<Match> longest;
  for (size_t length = 1;; ++length) {
    if (low->text.size() == length) {
      longest = Match{begin, length, low->id};
      ++low;
    }
    if (low == high || begin + length == text.size()) return longest;
    const auto next = static_cast<unsigned char>(text[begin + length]);
    const auto byte_of = [length](const Literal& literal) { return static_cast<unsigned char>(literal.text[length]); };
    low = std::partition_point(low, high, [&](const Literal& literal) { return byte_of(literal) < next; });
    high = std::partition_point(low, high, [&](const Literal& literal) { return byte_of(literal) == next; });
    if (low == high) return longest;
  }
}

std::optional<TokenId> LiteralMatcher::id_of(std::string_view text) const {
  const auto at = std::lower_bound(literals_.begin(), literals_.end(), text,
                                   [](const Literal& literal, std::string_view value) { return literal.text < value; });
  if (at == literals_.end() || at->text != text) return std::nullopt;
  return at->id;
}

}  // namespace quire::tokenizer
