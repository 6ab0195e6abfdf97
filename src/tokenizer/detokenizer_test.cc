#include "tokenizer/detokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/utf8.h"

namespace quire::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

const Tokenizer& byte_level() {
  static const Tokenizer tokenizer = Tokenizer::create(tiny_byte_level_vocabulary()).value();
  return tokenizer;
}
const Tokenizer& sentence_piece() {
  static const Tokenizer tokenizer = Tokenizer::create(tiny_sentence_piece_vocabulary()).value();
  return tokenizer;
}

// Bytes as ids of the byte-level vocabulary.
Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// What each push and the end give.
std::vector<std::string> stream(const Tokenizer& tokenizer, const Ids& ids, DecodeOptions options = {}) {
  Detokenizer detokenizer(tokenizer, options);
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.push_back(detokenizer.push(id).value());
  texts.push_back(detokenizer.finish());
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

std::string replaced(std::string_view bytes) {
  std::string out;
  if (append_valid_utf8(bytes, out) > 0) out += kReplacementCharacter;
  return out;
}

TEST(Detokenizer, HoldsBackWhatIsNotWhole) {
  EXPECT_THAT(stream(byte_level(), bytes_of("é🦭a")), testing::ElementsAre("", "é", "", "", "", "🦭", "a", ""));
  Detokenizer detokenizer(byte_level());
  EXPECT_EQ(*detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.pending(), 1u);
}

TEST(Detokenizer, BytesThatStayIncompleteAreReplacedOnce) {
  EXPECT_THAT(stream(byte_level(), bytes_of("\xE6\xAD")), testing::ElementsAre("", "", "\uFFFD"));
  EXPECT_THAT(stream(byte_level(), bytes_of("\xE6\xAD'")), testing::ElementsAre("", "", "\uFFFD'", ""));
  EXPECT_THAT(stream(byte_level(), bytes_of("\xF0\xF0\xFF")), testing::ElementsAre("", "\uFFFD", "\uFFFD\uFFFD", ""));
}

TEST(Detokenizer, GoesOnAfterTheEnd) {
  Detokenizer detokenizer(byte_level());
  EXPECT_EQ(*detokenizer.push(0xC3), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
  EXPECT_EQ(*detokenizer.push('a'), "a");
}

TEST(Detokenizer, AnIdThatIsNoTokenChangesNothing) {
  Detokenizer detokenizer(byte_level());
  EXPECT_EQ(*detokenizer.push(0xC3), "");
  EXPECT_FALSE(detokenizer.push(-1).ok());
  EXPECT_FALSE(detokenizer.push(1 << 20).ok());
  EXPECT_EQ(*detokenizer.push(0xA9), "é");
}

TEST(Detokenizer, FollowsTheRuleOfTheFirstSpace) {
  const Ids ids = *sentence_piece().encode("the a");
  EXPECT_EQ(joined(stream(sentence_piece(), ids)), "the a");
  EXPECT_EQ(joined(stream(sentence_piece(), ids, {.continues_text = true})), " the a");
}

RC_GTEST_PROP(Detokenizer, EqualsDecodingAtOnce, (const std::vector<uint16_t>& seeds, bool special, bool continues)) {
  const DecodeOptions options{.include_special = special, .continues_text = continues};
  for (const Tokenizer* tokenizer : {&byte_level(), &sentence_piece()}) {
    Ids ids;
    // Half of the ids from the upper bytes, where characters break.
    for (const uint16_t seed : seeds)
      ids.push_back(static_cast<TokenId>(seed % 2 ? 0xC0 + seed % 0x3F : seed % tokenizer->vocab_size()));
    const std::vector<std::string> texts = stream(*tokenizer, ids, options);
    RC_ASSERT(joined(texts) == replaced(*tokenizer->decode(ids, options)));
    for (const std::string& text : texts) RC_ASSERT(replaced(text) == text);
  }
}

RC_GTEST_PROP(Detokenizer, DoesNotDependOnHowTheTextIsCut, (const std::string& text)) {
  RC_ASSERT(joined(stream(byte_level(), *byte_level().encode(text))) == joined(stream(byte_level(), bytes_of(text))));
}

}  // namespace
}  // namespace quire::tokenizer
