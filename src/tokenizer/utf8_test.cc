#include "tokenizer/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace quire::tokenizer {
namespace {

using Kind = Utf8Step::Kind;

std::string replaced(std::string_view text) {
  std::string out;
  if (append_valid_utf8(text, out) > 0) out += kReplacementCharacter;
  return out;
}

TEST(Utf8, StepsOverCharactersOfEachLength) {
  for (const std::string_view text : {"a", "é", "€", "🦭", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF"}) {
    const Utf8Step step = utf8_step(text);
    EXPECT_EQ(step.kind, Kind::kCharacter) << text;
    EXPECT_EQ(step.length, text.size()) << text;
  }
  EXPECT_EQ(utf8_step(std::string_view("\0x", 2)).length, 1u);
}

TEST(Utf8, RefusesWhatIsNoCharacter) {
  // A lone continuation, overlong forms, a surrogate, beyond U+10FFFF, bytes that never occur.
  for (const std::string_view text : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xED\xA0\x80",
                                      "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    const Utf8Step step = utf8_step(text);
    EXPECT_EQ(step.kind, Kind::kInvalid) << text;
    EXPECT_EQ(step.length, 1u) << text;
  }
}

TEST(Utf8, KnowsWhatMayBecomeACharacter) {
  EXPECT_EQ(utf8_step("\xE6\xAD").kind, Kind::kIncomplete);
  EXPECT_EQ(utf8_step("\xE6\xAD").length, 2u);
  EXPECT_EQ(utf8_step("\xF0").kind, Kind::kIncomplete);
  EXPECT_EQ(utf8_step("\xE6\xAD'").kind, Kind::kInvalid);
  EXPECT_EQ(utf8_step("\xE6\xAD'").length, 2u);  // a maximal subpart
  EXPECT_EQ(utf8_step("\xED\xA0").kind, Kind::kInvalid);
}

TEST(Utf8, ReplacesMaximalSubparts) {
  // The example of the Unicode standard, table 3-8.
  EXPECT_EQ(replaced("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(replaced("caf\xC3"), "caf\uFFFD");
}

RC_GTEST_PROP(Utf8, ValidTextStays, (const std::vector<char32_t>& seeds)) {
  std::string text;
  for (const char32_t seed : seeds) {
    const char32_t c = seed % 0x110000;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      if (c >= 0xD800 && c < 0xE000) continue;
      text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    } else {
      text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)), static_cast<char>(0x80 | (c >> 6 & 63)),
               static_cast<char>(0x80 | (c & 63))};
    }
  }
  RC_ASSERT(replaced(text) == text);
}

RC_GTEST_PROP(Utf8, ReplacingGivesValidText, (const std::string& bytes)) {
  const std::string once = replaced(bytes);
  RC_ASSERT(replaced(once) == once);
}

}  // namespace
}  // namespace quire::tokenizer
