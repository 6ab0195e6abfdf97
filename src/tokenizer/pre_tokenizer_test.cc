#include "tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <string>

namespace quire::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string_view> split(std::string_view name, std::string_view text) {
  Result<PreTokenizer> pre = PreTokenizer::create(name);
  EXPECT_TRUE(pre.ok());
  Result<std::vector<std::string_view>> pieces = pre->split(text);
  EXPECT_TRUE(pieces.ok());
  return *pieces;
}

TEST(PreTokenizer, CutsAsGpt2Does) {
  EXPECT_THAT(split("gpt-2", ""), IsEmpty());
  EXPECT_THAT(split("gpt-2", "Hello, world!"), ElementsAre("Hello", ",", " world", "!"));
  EXPECT_THAT(split("gpt-2", "don't DON'T they'll"), ElementsAre("don", "'t", " DON", "'", "T", " they", "'ll"));
  EXPECT_THAT(split("gpt-2", "in 2024 ½"), ElementsAre("in", " 2024", " ½"));
  EXPECT_THAT(split("gpt-2", "a  b   "), ElementsAre("a", " ", " b", "   "));
  EXPECT_THAT(split("gpt-2", "a\n\nb \n"), ElementsAre("a", "\n", "\n", "b", " \n"));
  EXPECT_THAT(split("gpt-2", "x=\t{}"), ElementsAre("x", "=", "\t", "{}"));
  EXPECT_THAT(split("gpt-2", "né 你好"), ElementsAre("né", " 你好"));
}

TEST(PreTokenizer, TakesUnicodesWhiteSpaceAndNothingElse) {
  EXPECT_THAT(split("gpt-2", "a\u00A0\u3000\u0085b"), ElementsAre("a", "\u00A0\u3000", "\u0085", "b"));
  // U+180E, U+200B and U+001C are no White_Space.
  EXPECT_THAT(split("gpt-2", "!\u180E\u200B\u001C!"), ElementsAre("!\u180E\u200B\u001C!"));
}

TEST(PreTokenizer, SmolLmTakesEachDigitAlone) {
  EXPECT_THAT(split("smollm", "in 2024"), ElementsAre("in", " ", "2", "0", "2", "4"));
  // The piece ends before the digit, so both spaces stay together, unlike in GPT-2.
  EXPECT_THAT(split("smollm", "a  1"), ElementsAre("a", "  ", "1"));
  EXPECT_THAT(split("gpt-2", "a  1"), ElementsAre("a", " ", " 1"));
  EXPECT_THAT(split("smollm", "x²"), ElementsAre("x", "²"));
}

TEST(PreTokenizer, DefaultAndNoNameAreGpt2) {
  for (const std::string_view name : {"default", ""}) EXPECT_THAT(split(name, "a 12"), ElementsAre("a", " 12"));
}

TEST(PreTokenizer, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  const Result<PreTokenizer> pre = PreTokenizer::create("klingon");
  ASSERT_FALSE(pre.ok());
  EXPECT_EQ(pre.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(pre.error().message, HasSubstr("\"klingon\""));
  EXPECT_THAT(pre.error().message, HasSubstr("default, gpt-2, smollm"));
}

TEST(PreTokenizer, BytesThatAreNotUtf8AreTheirOwnPieces) {
  EXPECT_THAT(split("gpt-2", "a \xFF\xFE b\xC3"), ElementsAre("a", " ", "\xFF\xFE", " b", "\xC3"));
  EXPECT_THAT(split("smollm",
                    "\xE6\xAD"
                    "12"),
              ElementsAre("\xE6\xAD", "1", "2"));
}

RC_GTEST_PROP(PreTokenizer, LosesNothing, ()) {
  const std::string text = *rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
      {{4, rc::gen::element(' ', '\n', '\t', '\'', 's', 'l', 'a', '1', '2', '.', '<')}, {1, rc::gen::arbitrary<char>()}}));
  for (const std::string_view name : {"gpt-2", "smollm"}) {
    std::string joined;
    for (const std::string_view piece : split(name, text)) {
      RC_ASSERT(!piece.empty());
      joined += piece;
    }
    RC_ASSERT(joined == text);
  }
}

TEST(PreTokenizer, AnExpressionThatRunsAwayIsAnError) {
  constexpr std::string_view kExponential[] = {"(a+)+$"};
  Result<PreTokenizer> pre = PreTokenizer::compile(kExponential);
  ASSERT_TRUE(pre.ok());
  const std::string text = std::string(5000, 'a') + "b";
  const auto pieces = pre->split(text);
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(pieces.error().code, ErrorCode::kLimit);
}

TEST(PreTokenizer, ABrokenExpressionIsAnError) {
  constexpr std::string_view kBroken[] = {"(a"};
  const Result<PreTokenizer> pre = PreTokenizer::compile(kBroken);
  ASSERT_FALSE(pre.ok());
  EXPECT_THAT(pre.error().message, HasSubstr("(a"));
}

TEST(PreTokenizer, EmptyMatchesCutNothing) {
  constexpr std::string_view kMaybeDigits[] = {"[0-9]*"};
  Result<PreTokenizer> pre = PreTokenizer::compile(kMaybeDigits);
  ASSERT_TRUE(pre.ok());
  EXPECT_THAT(*pre->split("aé12b"), ElementsAre("aé", "12", "b"));
}

}  // namespace
}  // namespace quire::tokenizer
