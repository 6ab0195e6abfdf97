#include "engine/sequence.h"

#include <gtest/gtest.h>

#include "kv/budget.h"
#include "tests/support/tiny_engines.h"

namespace quire::engine {
namespace {

Sequence new_sequence(Engine& engine) { return Sequence::create(engine, TokenCount(512)).value(); }

// Extends, truncates to `kept` and extends with other tokens; returns how many tokens truncate() left.
int64_t expect_fresh_after_truncation(Engine& engine, int before, int kept, int after) {
  const std::vector<TokenId> first = some_tokens(engine, before);
  const std::vector<TokenId> second = some_tokens(engine, after, 1);
  Sequence sequence = new_sequence(engine);
  EXPECT_TRUE(sequence.extend(first).ok());
  const int64_t left = sequence.truncate(TokenCount(kept)).value().value;
  EXPECT_EQ(sequence.length().value, left);

  std::vector<TokenId> expected(first.begin(), first.begin() + left);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_TRUE(sequence.extend(second).ok());
  EXPECT_EQ(std::vector<TokenId>(sequence.tokens().begin(), sequence.tokens().end()), expected);
  const std::vector<float> logits(sequence.logits().begin(), sequence.logits().end());
  EXPECT_EQ(sequence.memory().verify(), "");
  EXPECT_TRUE(same_bits(logits, logits_from_nothing(engine, expected))) << before << " cut to " << kept << ", then " << after;
  return left;
}

TEST(Sequence, CutAndExtendedIsTheFreshOneToTheBit) {
  const auto engine = tiny_llama();
  for (const int kept : {0, 1, 31, 32, 33, 127, 128, 149}) EXPECT_EQ(expect_fresh_after_truncation(*engine, 150, kept, 70), kept);
}

TEST(Sequence, CutAndExtendedIsTheFreshOneBehindAWindowToo) {
  const auto engine = tiny_gemma3();
  // After 150 tokens the windows hold [103, 150), whole tiles of it from 96 on: what a query at 144 or later sees.
  EXPECT_EQ(expect_fresh_after_truncation(*engine, 150, 149, 70), 149);
  EXPECT_EQ(expect_fresh_after_truncation(*engine, 150, 144, 3), 144);
  // Earlier ones need what the window has dropped.
  EXPECT_EQ(expect_fresh_after_truncation(*engine, 150, 100, 70), 0);
  EXPECT_EQ(expect_fresh_after_truncation(*engine, 150, 1, 40), 0);
  // Nothing is dropped yet.
  EXPECT_EQ(expect_fresh_after_truncation(*engine, 40, 10, 120), 10);
}

TEST(Sequence, InPiecesIsTheSameAsWhole) {
  for (const auto& engine : {tiny_llama(), tiny_gemma3(), tiny_gemma3({.threads = 1, .chunk = 16})}) {
    const std::vector<TokenId> tokens = some_tokens(*engine, 200);
    Sequence sequence = new_sequence(*engine);
    for (size_t done = 0, piece = 1; done < tokens.size(); done += piece, piece = piece * 3 % 50) {
      ASSERT_TRUE(sequence.extend(std::span(tokens).subspan(done, std::min(piece, tokens.size() - done))).ok());
    }
    const std::vector<float> logits(sequence.logits().begin(), sequence.logits().end());
    EXPECT_TRUE(same_bits(logits, logits_from_nothing(*engine, tokens)));
  }
}

TEST(Sequence, AWindowKeepsMemoryForItsTokensAlone) {
  const auto engine = tiny_gemma3();
  Sequence sequence = new_sequence(*engine);
  ASSERT_TRUE(sequence.extend(some_tokens(*engine, 500)).ok());
  const Bytes needed = kv::bytes_needed(engine->layer_groups(), TokenCount(500), engine->vm().granule());
  EXPECT_LE(sequence.memory().backed_bytes(), needed);
  EXPECT_LE(sequence.memory().used_bytes(TokenCount(500)), sequence.memory().backed_bytes());
  Bytes without_window;
  for (const kv::LayerGroupSpec& group : engine->layer_groups()) without_window += kv::bytes_per_token(group) * 500;
  EXPECT_LT(sequence.memory().backed_bytes().value, without_window.value / 2);
}

TEST(Sequence, MoreTokensThanItsRoomAreRefusedAndItStays) {
  const auto engine = tiny_llama();
  Sequence sequence = Sequence::create(*engine, TokenCount(50)).value();
  const std::vector<TokenId> tokens = some_tokens(*engine, 51);
  ASSERT_TRUE(sequence.extend(std::span(tokens).first(40)).ok());
  const Status refused = sequence.extend(std::span(tokens).last(11));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_NE(refused.error().message.find("51 tokens do not fit a context of 50"), std::string::npos) << refused.error().message;
  EXPECT_EQ(sequence.length(), TokenCount(40));
  EXPECT_TRUE(sequence.extend(std::span(tokens).subspan(40, 10)).ok());
}

TEST(Sequence, WithoutMemoryItStaysAndGoesOnLater) {
  const auto engine = tiny_gemma3();
  const std::vector<TokenId> tokens = some_tokens(*engine, 100);
  Sequence sequence = new_sequence(*engine);
  ASSERT_TRUE(sequence.extend(std::span(tokens).first(60)).ok());
  {
    kv::Promise somebody_else(engine->budget());
    ASSERT_EQ(somebody_else.take(engine->budget().available()), kv::Space::kOk);
    const Status refused = sequence.extend(std::span(tokens).last(40));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(refused.error().message.find("for 100 tokens"), std::string::npos) << refused.error().message;
    EXPECT_EQ(sequence.length(), TokenCount(60));
  }
  ASSERT_TRUE(sequence.extend(std::span(tokens).last(40)).ok());
  const std::vector<float> logits(sequence.logits().begin(), sequence.logits().end());
  EXPECT_TRUE(same_bits(logits, logits_from_nothing(*engine, tokens)));
}

TEST(Sequence, GivesItsMemoryBack) {
  const auto engine = tiny_llama();
  {
    Sequence sequence = new_sequence(*engine);
    ASSERT_TRUE(sequence.extend(some_tokens(*engine, 100)).ok());
    EXPECT_GE(engine->budget().backed(kv::Purpose::kLive), sequence.memory().used_bytes(TokenCount(100)));
  }
  EXPECT_EQ(engine->budget().backed(), Bytes(0));
  EXPECT_EQ(engine->budget().promised(), Bytes(0));
}

}  // namespace
}  // namespace quire::engine
