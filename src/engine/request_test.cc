#include "engine/request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace quire::engine {
namespace {

ReplyPiece text(std::string words) { return {.text = std::move(words), .tokens = {}}; }
ReplyResult ended(ReplyEnd end) {
  ReplyResult result;
  result.end = end;
  return result;
}

TEST(ReplyStream, GivesThePiecesInOrderAndThenTheEnd) {
  ReplyStream stream(4);
  EXPECT_FALSE(stream.try_next().has_value());
  stream.push(text("a"));
  stream.push(text("b"));
  EXPECT_EQ(stream.next()->text, "a");
  stream.finish(ended(ReplyEnd::kStop));
  EXPECT_FALSE(stream.ended());
  EXPECT_EQ(stream.result().end, ReplyEnd::kStop);
  EXPECT_EQ(stream.next()->text, "b");
  EXPECT_TRUE(stream.ended());
  EXPECT_FALSE(stream.next().has_value());
  EXPECT_FALSE(stream.try_next().has_value());
}

TEST(ReplyStream, IsFullAtItsCapacityAndSaysOnceWhenThereIsRoom) {
  ReplyStream stream(2);
  int calls = 0;
  stream.on_attention([&] { ++calls; });
  stream.push(text("a"));
  EXPECT_FALSE(stream.full());
  stream.push(text("b"));
  EXPECT_TRUE(stream.full());
  stream.push(text("c"));  // of the same step
  (void)stream.next();
  EXPECT_TRUE(stream.full());
  EXPECT_EQ(calls, 0);
  (void)stream.next();
  EXPECT_FALSE(stream.full());
  EXPECT_EQ(calls, 1);
  (void)stream.next();
  EXPECT_EQ(calls, 1);
}

TEST(ReplyStream, ACancelCallsAttentionOnceAndNotAfterTheEnd) {
  ReplyStream stream(2);
  int calls = 0;
  stream.on_attention([&] { ++calls; });
  stream.cancel();
  stream.cancel();
  EXPECT_TRUE(stream.cancelled());
  EXPECT_EQ(calls, 1);

  ReplyStream over(1);
  over.on_attention([&] { ++calls; });
  over.push(text("a"));
  over.finish(ended(ReplyEnd::kEndOfText));
  over.cancel();
  (void)over.next();
  EXPECT_FALSE(over.cancelled());
  EXPECT_EQ(calls, 1);
}

TEST(ReplyStream, TellsWhenThereIsSomethingToRead) {
  int calls = 0;
  ReplyStream stream(2, [&] { ++calls; });
  EXPECT_FALSE(stream.wait(std::chrono::nanoseconds(1)));
  stream.push(text("a"));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(stream.wait(std::chrono::hours(1)));
  (void)stream.next();
  stream.finish(ended(ReplyEnd::kCancelled));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(stream.wait(std::chrono::hours(1)));
}

// A writer that obeys full(), as the loop does, and a reader on another thread: nothing is lost, and both come to the end.
TEST(ReplyStream, AWriterAndAReaderOnTheirOwnThreads) {
  constexpr int kPieces = 20000;
  ReplyStream stream(3);
  std::mutex mutex;
  std::condition_variable room;
  bool called = false;
  stream.on_attention([&] {
    const std::lock_guard lock(mutex);
    called = true;
    room.notify_all();
  });
  std::thread writer([&] {
    for (int i = 0; i < kPieces; ++i) {
      stream.push(text(std::to_string(i)));
      if (!stream.full()) continue;
      std::unique_lock lock(mutex);
      // A call that came before the stream was asked is as good.
      room.wait(lock, [&] { return called || !stream.full(); });
      called = false;
    }
    stream.finish(ended(ReplyEnd::kEndOfText));
  });
  int next = 0;
  while (const std::optional<ReplyPiece> piece = stream.next()) ASSERT_EQ(piece->text, std::to_string(next++));
  writer.join();
  EXPECT_EQ(next, kPieces);
  EXPECT_TRUE(stream.ended());
}

TEST(ReplyEnd, EveryEndHasAName) {
  for (const ReplyEnd end : {ReplyEnd::kEndOfText, ReplyEnd::kStop, ReplyEnd::kMaxTokens, ReplyEnd::kContextFull,
                             ReplyEnd::kDeadline, ReplyEnd::kCancelled, ReplyEnd::kRefused, ReplyEnd::kFailed}) {
    EXPECT_FALSE(to_string(end).empty());
  }
}

}  // namespace
}  // namespace quire::engine
