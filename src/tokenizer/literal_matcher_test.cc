#include "tokenizer/literal_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace quire::tokenizer {
namespace {

LiteralMatcher matcher_of(const std::vector<std::string>& texts) {
  std::vector<LiteralMatcher::Literal> literals;
  for (const std::string& text : texts) literals.push_back({text, static_cast<TokenId>(literals.size())});
  return LiteralMatcher::create(std::move(literals)).value();
}

TEST(LiteralMatcher, FindsTheFirstAndOfThoseTheLongest) {
  const LiteralMatcher matcher = matcher_of({"ab", "abcd", "bc", "\xFF"});
  const auto match = matcher.find("xxabcabcd", 0);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 2u);
  EXPECT_EQ(match->length, 2u);  // "abcd" begins like the text, but does not end like it
  EXPECT_EQ(match->id, 0);
  EXPECT_EQ(matcher.find("xxabcabcd", 5)->id, 1);
  EXPECT_EQ(matcher.find("ab\xFF", 1)->id, 3);
  EXPECT_FALSE(matcher.find("acbd", 0).has_value());
  EXPECT_FALSE(matcher.find("", 0).has_value());
  EXPECT_FALSE(LiteralMatcher().find("ab", 0).has_value());
}

TEST(LiteralMatcher, TakesZeroBytesAsBytes) {
  const std::string longer("ab\0", 3);
  EXPECT_EQ(matcher_of({"ab", longer}).find(longer, 0)->id, 1);
  EXPECT_EQ(matcher_of({"ab", longer}).find("ab", 0)->id, 0);
}

TEST(LiteralMatcher, KnowsWholeLiterals) {
  const LiteralMatcher matcher = matcher_of({"ab", "abcd", ""});
  EXPECT_EQ(matcher.id_of("abcd"), 1);
  EXPECT_EQ(matcher.id_of("abc"), std::nullopt);
  EXPECT_EQ(matcher.id_of(""), std::nullopt);
}

TEST(LiteralMatcher, RefusesLiteralsThatWouldMakeItSlow) {
  const auto at_limit = LiteralMatcher::create({{std::string(LiteralMatcher::kMaxLiteralBytes, 'a'), 7}});
  EXPECT_TRUE(at_limit.ok());
  const auto beyond = LiteralMatcher::create({{std::string(LiteralMatcher::kMaxLiteralBytes + 1, 'a'), 7}});
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.error().message, testing::HasSubstr("token 7"));
}

RC_GTEST_PROP(LiteralMatcher, EqualsASearchForEach, ()) {
  const auto texts =
      *rc::gen::container<std::set<std::string>>(rc::gen::container<std::string>(rc::gen::element('a', 'b', '\x80', '\0')));
  const auto text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '\x80', '\0'));
  const std::vector<std::string> literals(texts.begin(), texts.end());
  std::optional<LiteralMatcher::Match> expected;
  for (size_t id = 0; id < literals.size(); ++id) {
    const size_t at = text.find(literals[id]);
    if (literals[id].empty() || at == std::string::npos) continue;
    if (!expected || at < expected->begin || (at == expected->begin && literals[id].size() > expected->length)) {
      expected = {at, literals[id].size(), static_cast<TokenId>(id)};
    }
  }
  const auto match = matcher_of(literals).find(text, 0);
  RC_ASSERT(match.has_value() == expected.has_value());
  if (!match) return;
  RC_ASSERT(match->begin == expected->begin);
  RC_ASSERT(match->length == expected->length);
  RC_ASSERT(match->id == expected->id);
}

}  // namespace
}  // namespace quire::tokenizer
