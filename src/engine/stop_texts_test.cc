#include "engine/stop_texts.h"

#include <gtest/gtest.h>

#include <random>

namespace quire::engine {
namespace {

// The reply when `text` arrives in the given pieces.
std::string reply(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopTexts watch(stops);
  std::string out;
  for (const std::string& piece : pieces) out += watch.append(piece);
  return out + watch.finish();
}

TEST(StopTexts, EndsBeforeAStopTextAcrossPieces) {
  EXPECT_EQ(reply({"END"}, {"hello E", "N", "D more"}), "hello ");
  EXPECT_EQ(reply({"END"}, {"hello E", "N", "Xmore"}), "hello ENXmore");
  EXPECT_EQ(reply({"aab"}, {"a", "a", "a", "b"}), "a");
}

TEST(StopTexts, HoldsBackOnlyWhatMayBecomeOne) {
  StopTexts watch({"\n\nUser:", "###"});
  EXPECT_EQ(watch.append("one"), "one");
  EXPECT_EQ(watch.append(" two\n"), " two");
  EXPECT_EQ(watch.append("three"), "\nthree");
  EXPECT_EQ(watch.append("##"), "");
  EXPECT_EQ(watch.finish(), "##");
}

TEST(StopTexts, TheFirstInTheTextWinsAndNothingFollows) {
  StopTexts watch({"yy", "x"});
  EXPECT_EQ(watch.append("abxyy"), "ab");
  EXPECT_TRUE(watch.stopped());
  EXPECT_EQ(watch.append("more"), "");
  EXPECT_EQ(watch.finish(), "");
}

TEST(StopTexts, EmptyTextsAreIgnored) { EXPECT_EQ(reply({""}, {"abc"}), "abc"); }

TEST(StopTexts, HowTheTextIsCutDoesNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += static_cast<char>('a' + random() % 2);
    std::string stop;
    for (size_t i = 0; i < 1 + random() % 4; ++i) stop += static_cast<char>('a' + random() % 2);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = std::min<size_t>(text.size() - at, 1 + random() % 4);
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    EXPECT_EQ(reply({stop}, pieces), text.substr(0, text.find(stop))) << text << " / " << stop;
  }
}

}  // namespace
}  // namespace quire::engine
