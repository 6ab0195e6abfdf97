#include "engine/reply.h"

#include <gtest/gtest.h>

#include "kv/budget.h"
#include "tests/support/tiny_engines.h"

namespace quire::engine {
namespace {

constexpr auto kListen = [](std::string_view) { return true; };

// A sequence with a prompt of 40 tokens.
Sequence prompted(Engine& engine, int64_t room = 512) {
  Sequence sequence = Sequence::create(engine, TokenCount(room)).value();
  EXPECT_TRUE(sequence.extend(some_tokens(engine, 40)).ok());
  return sequence;
}

Reply reply_to(Engine& engine, const ReplyOptions& options, const ReplyListener& listener = kListen) {
  Sequence sequence = prompted(engine);
  return generate(engine, sequence, options, listener).value();
}

ReplyOptions greedy(int64_t max_tokens) {
  return {.sampling = {.temperature = 0}, .max_tokens = TokenCount(max_tokens), .stop = {}, .ignore_end = true};
}

ReplyOptions hot(uint64_t seed) {
  return {.sampling = {.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed}, .max_tokens = {}, .stop = {}};
}

TEST(Reply, EndsAtTheTokenLimit) {
  const auto engine = tiny_llama();
  Sequence sequence = prompted(*engine);
  const Reply reply = generate(*engine, sequence, greedy(20), kListen).value();
  EXPECT_EQ(reply.end, ReplyEnd::kMaxTokens);
  EXPECT_EQ(reply.tokens, TokenCount(20));
  EXPECT_FALSE(reply.text.empty());
  EXPECT_EQ(sequence.length(), TokenCount(40 + 19));  // the last one sampled is not computed
}

TEST(Reply, EndsWhenTheContextIsFull) {
  const auto engine = tiny_gemma3();
  Sequence sequence = prompted(*engine, 50);
  const Reply reply = generate(*engine, sequence, greedy(0), kListen).value();
  EXPECT_EQ(reply.end, ReplyEnd::kContextFull);
  EXPECT_EQ(sequence.length(), TokenCount(50));
  EXPECT_EQ(reply.tokens, TokenCount(11));  // the context's ten, and one that follows them
}

TEST(Reply, EndsWhereTheModelEndsIt) {
  const auto engine = tiny_llama();
  const Reply reply = reply_to(*engine, hot(1));
  ASSERT_EQ(reply.end, ReplyEnd::kEndOfText);
  ReplyOptions longer = hot(1);
  longer.ignore_end = true;
  longer.max_tokens = reply.tokens + TokenCount(5);
  const Reply on = reply_to(*engine, longer);
  EXPECT_EQ(on.end, ReplyEnd::kMaxTokens);
  EXPECT_TRUE(on.text.starts_with(reply.text.substr(0, reply.text.size() / 2)));
}

TEST(Reply, EndsBeforeAStopText) {
  const auto engine = tiny_llama();
  const Reply whole = reply_to(*engine, greedy(60));
  const std::string stop = whole.text.substr(whole.text.size() / 2, 7);
  ReplyOptions options = greedy(60);
  options.stop = {"never said by anybody", stop};
  const Reply reply = reply_to(*engine, options);
  EXPECT_EQ(reply.end, ReplyEnd::kStop);
  EXPECT_EQ(reply.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST(Reply, EndsWhenTheListenerHasHeardEnough) {
  const auto engine = tiny_llama();
  int pieces = 0;
  const Reply reply = reply_to(*engine, greedy(60), [&](std::string_view) { return ++pieces < 5; });
  EXPECT_EQ(reply.end, ReplyEnd::kInterrupted);
  EXPECT_EQ(reply.tokens, TokenCount(5));
}

TEST(Reply, EndsWithoutMemoryAndKeepsWhatIsSaid) {
  const auto engine = tiny_llama();
  Sequence sequence = prompted(*engine);
  kv::Promise somebody_else(engine->budget());
  ASSERT_EQ(somebody_else.take(engine->budget().available()), kv::Space::kOk);
  const Reply reply = generate(*engine, sequence, greedy(100), kListen).value();
  EXPECT_EQ(reply.end, ReplyEnd::kOutOfMemory);
  EXPECT_EQ(sequence.length(), TokenCount(64));  // the end of the last tile that is backed
  EXPECT_EQ(reply.tokens, TokenCount(25));
  EXPECT_EQ(reply.text, reply_to(*tiny_llama(), greedy(25)).text);
}

TEST(Reply, TheListenerHearsTheTextAndNoHalfCharacter) {
  const auto engine = tiny_llama();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    ReplyOptions options = hot(seed);
    options.max_tokens = TokenCount(100);
    options.stop = {"e", "zz"};
    std::string heard;
    const Reply reply = reply_to(*engine, options, [&](std::string_view piece) {
      EXPECT_TRUE(piece.empty() || (static_cast<unsigned char>(piece.front()) & 0xc0) != 0x80) << "begins inside of a character";
      heard += piece;
      return true;
    });
    EXPECT_EQ(heard, reply.text);
  }
}

TEST(Reply, TheSeedAloneDecides) {
  const auto engine = tiny_gemma3();
  const auto other = tiny_gemma3({.threads = 1, .chunk = 7});
  ReplyOptions options = hot(7);
  options.max_tokens = TokenCount(80);
  const Reply reply = reply_to(*engine, options);
  EXPECT_EQ(reply_to(*engine, options).text, reply.text);
  EXPECT_EQ(reply_to(*other, options).text, reply.text);
  options.sampling.seed = 8;
  EXPECT_NE(reply_to(*engine, options).text, reply.text);
}

}  // namespace
}  // namespace quire::engine
