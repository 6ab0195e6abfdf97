#include "engine/loop_thread.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "tests/support/loop_runs.h"

namespace quire::engine {
namespace {

Request request_of(const Engine& engine, int seed) {
  Request request{.prompt = some_tokens(engine, 70, 1), .reply = {.max_tokens = TokenCount(10 + seed % 7)}};
  const std::vector<TokenId> own = some_tokens(engine, 1 + seed % 40, 2 + seed);
  request.prompt.insert(request.prompt.end(), own.begin(), own.end());
  request.reply.sampling.seed = static_cast<uint64_t>(seed);
  request.reply.ignore_end = true;
  return request;
}

std::vector<TokenId> read_all(ReplyStream& stream) {
  std::vector<TokenId> tokens;
  while (const std::optional<ReplyPiece> piece = stream.next()) {
    for (const ReplyToken& token : piece->tokens) tokens.push_back(token.token);
  }
  return tokens;
}

std::unique_ptr<LoopThread> start(Engine& engine, size_t capacity = 2) {
  StepLoopOptions options = engine.loop_options();
  options.stream_capacity = capacity;
  return LoopThread::start(engine.runner(), engine.tokenizer(), engine.cache(), options).value();
}

TEST(LoopThread, EndsWithoutAnythingToDo) {
  const auto engine = tiny_llama({.threads = 1});
  start(*engine).reset();
  EXPECT_EQ(engine->cache().sequences(), 0u);
}

TEST(LoopThread, ManyThreadsSubmitReadCancelAndDrop) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 8;
  const auto engine = tiny_llama({.threads = 2, .kv_memory = Bytes(600 << 10)});
  std::vector<std::vector<TokenId>> alone;
  for (int seed = 0; seed < kThreads * kRequests; ++seed) {
    alone.push_back(LoopRun(*engine).answer({request_of(*engine, seed)}).front().tokens);
  }
  {
    const auto running = start(*engine);
    StepLoop& loop = running->loop();
    std::vector<std::thread> users;
    for (int user = 0; user < kThreads; ++user) {
      users.emplace_back([&, user] {
        std::mt19937 random(static_cast<uint32_t>(user));
        for (int i = 0; i < kRequests; ++i) {
          const int seed = user * kRequests + i;
          std::shared_ptr<ReplyStream> stream = loop.submit(request_of(*engine, seed)).value();
          (void)loop.statistics();
          switch (random() % 4) {
            case 0: stream->cancel(); break;
            case 1: stream.reset(); continue;
            default: break;
          }
          const std::vector<TokenId> tokens = read_all(*stream);
          if (stream->result().end == ReplyEnd::kMaxTokens) EXPECT_EQ(tokens, alone[static_cast<size_t>(seed)]) << seed;
        }
      });
    }
    for (std::thread& user : users) user.join();
  }
  EXPECT_EQ(engine->cache().sequences(), 0u);
  EXPECT_EQ(engine->cache().verify(), "");
}

TEST(LoopThread, AWaitingReaderHearsTheEndOfTheLoop) {
  const auto engine = tiny_llama({.threads = 1});
  auto running = start(*engine, 1000);
  Request endless = request_of(*engine, 1);
  endless.reply.max_tokens = TokenCount(0);
  const std::shared_ptr<ReplyStream> stream = running->loop().submit(endless).value();
  ASSERT_TRUE(stream->next().has_value());
  std::thread reader([&] { (void)read_all(*stream); });
  running.reset();
  reader.join();
  EXPECT_TRUE(stream->ended());
}

TEST(LoopThread, AnIdleLoopWakesForEachRequest) {
  const auto engine = tiny_llama({.threads = 1});
  const auto running = start(*engine);
  for (int i = 0; i < 3; ++i) {
    const std::shared_ptr<ReplyStream> stream = running->loop().submit(request_of(*engine, i)).value();
    EXPECT_EQ(read_all(*stream).size(), static_cast<size_t>(10 + i));
    // Who sees the end sees it counted.
    EXPECT_EQ(running->loop().statistics().jobs.running, 0u);
  }
}

}  // namespace
}  // namespace quire::engine
