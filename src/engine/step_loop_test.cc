#include "engine/step_loop.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/loop_runs.h"

namespace quire::engine {
namespace {

using testing::HasSubstr;

constexpr Bytes kib(int64_t count) { return Bytes(count << 10); }

ReplyOptions greedy(int64_t max_tokens) {
  return {.sampling = {.temperature = 0}, .max_tokens = TokenCount(max_tokens), .ignore_end = true};
}

ReplyOptions hot(uint64_t seed, int64_t max_tokens) {
  return {.sampling = {.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed}, .max_tokens = TokenCount(max_tokens)};
}

// Tokens that nobody else's prompt begins with, after `shared` common ones.
std::vector<TokenId> prompt_of(const Engine& engine, int shared, int own, int seed) {
  std::vector<TokenId> tokens = some_tokens(engine, shared, 1);
  const std::vector<TokenId> rest = some_tokens(engine, own, 2 + seed);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

// Users of all kinds: alike for a while, alike to the end, alone, short and long, greedy and hot.
std::vector<Request> many_users(const Engine& engine) {
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) requests.push_back({.prompt = prompt_of(engine, 150, 10 + 7 * i, i), .reply = greedy(40)});
  for (int i = 0; i < 3; ++i) {
    requests.push_back({.prompt = prompt_of(engine, 150, 33, 0), .reply = hot(7, 50), .choice = static_cast<uint32_t>(i)});
  }
  requests.push_back({.prompt = prompt_of(engine, 0, 1, 20), .reply = hot(1, 100)});
  requests.push_back({.prompt = prompt_of(engine, 0, 300, 21), .reply = greedy(60)});
  requests.push_back({.prompt = prompt_of(engine, 64, 31, 22), .reply = hot(2, 90)});
  requests.push_back({.prompt = prompt_of(engine, 31, 1, 23), .reply = greedy(33)});
  return requests;
}

std::vector<HeardReply> each_alone(Engine& engine, const std::vector<Request>& requests) {
  std::vector<HeardReply> replies;
  for (const Request& request : requests) {
    replies.push_back(LoopRun(engine, {.share = false}).answer({request}).front());
  }
  return replies;
}

void expect_same(const std::vector<HeardReply>& replies, const std::vector<HeardReply>& expected, const std::string& how) {
  ASSERT_EQ(replies.size(), expected.size());
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].result.has_value()) << how << ", request " << i;
    EXPECT_EQ(replies[i].result->end, expected[i].result->end) << how << ", request " << i;
    EXPECT_EQ(replies[i].tokens, expected[i].tokens) << how << ", request " << i;
    EXPECT_EQ(replies[i].text, expected[i].text) << how << ", request " << i;
  }
}

// --- Equality

TEST(StepLoop, AReplyIsTheSameAloneAndAmongOthersInAnyBudget) {
  for (const auto& engine : {tiny_llama({.threads = 1}), tiny_gemma3({.threads = 1})}) {
    const std::vector<Request> requests = many_users(*engine);
    const std::vector<HeardReply> alone = each_alone(*engine, requests);
    int64_t suspensions = 0;
    for (const sched::Reserve reserve : {sched::Reserve::kGuaranteed, sched::Reserve::kExpected, sched::Reserve::kOptimistic}) {
      for (const Bytes limit : {kib(65536), kib(640), kib(360)}) {
        LoopRun run(*engine, {.limit = limit, .reserve = reserve, .step_tokens = 64});
        const std::string how = fmt::format("{} with {}", sched::to_string(reserve), format_bytes(limit));
        expect_same(run.answer(requests), alone, how);
        const LoopStatistics statistics = run.loop().statistics();
        if (reserve == sched::Reserve::kGuaranteed) {
          EXPECT_EQ(statistics.jobs.suspensions, 0) << how;
        }
        EXPECT_LE(statistics.peak_memory.backed, limit) << how;
        suspensions += statistics.jobs.suspensions;
      }
    }
    EXPECT_GT(suspensions, 0);
  }
}

TEST(StepLoop, AReplyIsTheSameInAnyChunksOnAnyThreads) {
  const auto engine = tiny_gemma3({.threads = 1});
  const std::vector<Request> requests = many_users(*engine);
  const std::vector<HeardReply> alone = each_alone(*engine, requests);
  for (const auto& [chunk, threads] : {std::pair(1, 1), {7, 1}, {32, 2}, {100, 3}}) {
    const auto other = tiny_gemma3({.threads = threads, .chunk = chunk});
    LoopRun run(*other, {.limit = kib(1024), .background_backing = chunk == 32});
    expect_same(run.answer(requests), alone, fmt::format("chunks of {}, {} threads", chunk, threads));
  }
}

TEST(StepLoop, AHitAtAnyPointIsTheColdReply) {
  for (const auto& engine : {tiny_llama({.threads = 1}), tiny_gemma3({.threads = 1})}) {
    const Request whole{.prompt = prompt_of(*engine, 0, 200, 0), .reply = hot(3, 40)};
    const std::vector<HeardReply> cold = each_alone(*engine, {whole});
    for (const size_t cut : {1u, 31u, 32u, 33u, 100u, 127u, 128u, 129u, 199u, 200u}) {
      LoopRun run(*engine);
      Request beginning = whole;
      beginning.prompt.resize(cut);
      beginning.reply = greedy(5);
      (void)run.answer({beginning});
      const std::vector<HeardReply> hit = run.answer({whole});
      expect_same(hit, cold, fmt::format("after {} tokens", cut));
      EXPECT_LT(hit.front().result->reused_tokens, TokenCount(200));
      EXPECT_GE(hit.front().result->reused_tokens, TokenCount(static_cast<int64_t>(cut) - 1)) << cut;
    }
  }
}

TEST(StepLoop, TheSeedAndTheChoiceDecide) {
  const auto engine = tiny_llama({.threads = 1});
  const Request request{.prompt = some_tokens(*engine, 40), .reply = hot(7, 60)};
  Request other_seed = request;
  other_seed.reply.sampling.seed = 8;
  Request other_choice = request;
  other_choice.choice = 1;
  LoopRun run(*engine);
  const std::vector<HeardReply> replies = run.answer({request, request, other_seed, other_choice});
  EXPECT_EQ(replies[0].tokens, replies[1].tokens);
  EXPECT_NE(replies[0].tokens, replies[2].tokens);
  EXPECT_NE(replies[0].tokens, replies[3].tokens);
}

// --- Computing once

TEST(StepLoop, WhatArrivesTogetherAndBeginsAlikeIsComputedOnce) {
  for (const auto& engine : {tiny_llama({.threads = 1}), tiny_gemma3({.threads = 1})}) {
    std::vector<Request> requests;
    for (int i = 0; i < 8; ++i) requests.push_back({.prompt = prompt_of(*engine, 300, 20, i), .reply = greedy(10)});
    LoopRun run(*engine, {.step_tokens = 64});
    const std::vector<HeardReply> replies = run.answer(requests);
    const LoopStatistics statistics = run.loop().statistics();
    EXPECT_EQ(statistics.prompt_tokens, 8 * 320);
    // The beginning once, and of each the own tokens and the reply but for its last one.
    EXPECT_EQ(statistics.computed_tokens, 300 + 8 * (20 + 9));
    EXPECT_EQ(statistics.reused_tokens, 7 * 300);
    EXPECT_EQ(statistics.recomputed_tokens, 0);
    for (const HeardReply& reply : replies) EXPECT_EQ(reply.tokens.size(), 10u);
  }
}

TEST(StepLoop, WhoComesWhileHisBeginningIsComputedWaitsForIt) {
  for (const auto& engine : {tiny_llama({.threads = 1}), tiny_gemma3({.threads = 1})}) {
    LoopRun run(*engine, {.step_tokens = 64});
    const auto first = run.submit({.prompt = prompt_of(*engine, 300, 20, 0), .reply = greedy(10)});
    run.step();
    run.step();
    const auto second = run.submit({.prompt = prompt_of(*engine, 300, 20, 1), .reply = greedy(10)});
    run.step();
    EXPECT_EQ(run.loop().statistics().jobs.following, 1u);
    run.drain();
    EXPECT_EQ(run.loop().statistics().computed_tokens, 300 + 2 * (20 + 9));
    EXPECT_EQ(second->result().reused_tokens, TokenCount(300));
    EXPECT_EQ(first->result().reused_tokens, TokenCount(0));
  }
}

TEST(StepLoop, WhenTheLeaderGoesTheOldestFollowerTakesOver) {
  const auto engine = tiny_gemma3({.threads = 1});
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) requests.push_back({.prompt = prompt_of(*engine, 300, 20, i), .reply = greedy(10)});
  const std::vector<HeardReply> alone = each_alone(*engine, requests);
  LoopRun run(*engine, {.step_tokens = 64});
  std::vector<std::shared_ptr<ReplyStream>> streams;
  for (const Request& request : requests) streams.push_back(run.submit(request));
  run.step();
  run.step();
  EXPECT_EQ(run.loop().statistics().jobs.following, 3u);
  streams[0]->cancel();
  run.drain();
  EXPECT_EQ(streams[0]->result().end, ReplyEnd::kCancelled);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(read_now(*streams[i]).tokens, alone[i].tokens) << i;
  // At most what was not kept since the leader's last checkpoint is computed again.
  EXPECT_LE(run.loop().statistics().computed_tokens, 300 + 3 * (20 + 9) + 128);
}

TEST(StepLoop, SaltsDoNotSeeEachOther) {
  const auto engine = tiny_llama({.threads = 1});
  const std::vector<TokenId> prompt = some_tokens(*engine, 100);
  LoopRun run(*engine);
  (void)run.answer({{.prompt = prompt, .reply = greedy(1), .cache_salt = "a"}});
  const std::vector<HeardReply> replies = run.answer({{.prompt = prompt, .reply = greedy(1), .cache_salt = "a"},
                                                      {.prompt = prompt, .reply = greedy(1), .cache_salt = "b"},
                                                      {.prompt = prompt, .reply = greedy(1)}});
  EXPECT_EQ(replies[0].result->reused_tokens, TokenCount(99));
  EXPECT_EQ(replies[1].result->reused_tokens, TokenCount(0));
  EXPECT_EQ(replies[2].result->reused_tokens, TokenCount(0));
}

TEST(StepLoop, AClearedCacheIsEmpty) {
  const auto engine = tiny_llama({.threads = 1});
  const Request request{.prompt = some_tokens(*engine, 100), .reply = greedy(1)};
  LoopRun run(*engine);
  (void)run.answer({request});
  run.loop().clear_cache();
  EXPECT_EQ(run.answer({request}).front().result->reused_tokens, TokenCount(0));
  run.loop().clear_cache();
  run.step();
  EXPECT_EQ(run.cache().usage().backed, Bytes(0));
}

// --- Ends

TEST(StepLoop, EndsAtTheTokenLimit) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine);
  const HeardReply reply = run.answer({{.prompt = some_tokens(*engine, 40), .reply = greedy(20)}}).front();
  EXPECT_EQ(reply.result->end, ReplyEnd::kMaxTokens);
  EXPECT_EQ(reply.result->reply_tokens, TokenCount(20));
  EXPECT_EQ(reply.result->prompt_tokens, TokenCount(40));
  EXPECT_EQ(reply.tokens.size(), 20u);
  EXPECT_FALSE(reply.text.empty());
  EXPECT_GT(reply.result->started_ns, reply.result->submitted_ns);
  EXPECT_GT(reply.result->first_token_ns, reply.result->started_ns);
  EXPECT_GT(reply.result->ended_ns, reply.result->first_token_ns);
}

TEST(StepLoop, EndsWhenTheContextIsFull) {
  const auto engine = tiny_gemma3({.threads = 1});
  for (const int64_t asked : {0, 100}) {
    LoopRun run(*engine, {.context = TokenCount(50)});
    const HeardReply reply = run.answer({{.prompt = some_tokens(*engine, 40), .reply = greedy(asked)}}).front();
    EXPECT_EQ(reply.result->end, ReplyEnd::kContextFull);
    EXPECT_EQ(reply.tokens.size(), 11u);  // the context's ten, and one that follows them
  }
}

TEST(StepLoop, EndsWhereTheModelEndsIt) {
  const auto engine = tiny_llama({.threads = 1});
  const Request request{.prompt = some_tokens(*engine, 40), .reply = hot(1, 0)};
  const HeardReply reply = LoopRun(*engine).answer({request}).front();
  ASSERT_EQ(reply.result->end, ReplyEnd::kEndOfText);
  Request longer = request;
  longer.reply.ignore_end = true;
  longer.reply.max_tokens = reply.result->reply_tokens + TokenCount(5);
  const HeardReply on = LoopRun(*engine).answer({longer}).front();
  EXPECT_EQ(on.result->end, ReplyEnd::kMaxTokens);
  EXPECT_EQ(std::vector<TokenId>(on.tokens.begin(), on.tokens.end() - 5), reply.tokens);
}

TEST(StepLoop, EndsBeforeAStopText) {
  const auto engine = tiny_llama({.threads = 1});
  Request request{.prompt = some_tokens(*engine, 40), .reply = greedy(60)};
  const HeardReply whole = LoopRun(*engine).answer({request}).front();
  const std::string stop = whole.text.substr(whole.text.size() / 2, 7);
  request.reply.stop = {"never said by anybody", stop};
  const HeardReply reply = LoopRun(*engine).answer({request}).front();
  EXPECT_EQ(reply.result->end, ReplyEnd::kStop);
  EXPECT_EQ(reply.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST(StepLoop, StreamsNoHalfCharacter) {
  const auto engine = tiny_llama({.threads = 1});
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Request request{.prompt = some_tokens(*engine, 40), .reply = hot(seed, 100)};
    request.reply.stop = {"e", "zz"};
    LoopRun run(*engine);
    const auto stream = run.submit(request);
    run.drain();
    while (const std::optional<ReplyPiece> piece = stream->try_next()) {
      EXPECT_TRUE(piece->text.empty() || (static_cast<unsigned char>(piece->text.front()) & 0xc0) != 0x80);
    }
  }
}

TEST(StepLoop, EndsAtItsDeadlineWithWhatItHas) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine);
  const int64_t deadline = run.now_ns() + 1'000'000'000;
  const auto running = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(300), .deadline_ns = deadline});
  const auto late = run.submit({.prompt = some_tokens(*engine, 40, 1), .reply = greedy(3), .deadline_ns = run.now_ns() - 1});
  for (int i = 0; i < 10; ++i) run.step();
  EXPECT_EQ(late->result().end, ReplyEnd::kDeadline);
  EXPECT_EQ(late->result().started_ns, 0);
  run.pass_time(1'000'000'000);
  run.drain();
  EXPECT_EQ(running->result().end, ReplyEnd::kDeadline);
  EXPECT_GT(running->result().reply_tokens, TokenCount(5));
}

TEST(StepLoop, WhatCanNeverFitIsRefusedWithTheNumbers) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine, {.limit = kib(100)});
  const std::vector<HeardReply> replies = run.answer({{.prompt = some_tokens(*engine, 400), .reply = greedy(10)},
                                                      {.prompt = some_tokens(*engine, 40, 1), .reply = greedy(10)},
                                                      {.prompt = some_tokens(*engine, 40, 2), .reply = greedy(400)},
                                                      {.prompt = some_tokens(*engine, 40, 3), .reply = greedy(0)}});
  for (const size_t refused : {0u, 2u}) {
    ASSERT_EQ(replies[refused].result->end, ReplyEnd::kRefused);
    EXPECT_THAT(replies[refused].result->error->message, HasSubstr("may take 100 KiB"));
    EXPECT_THAT(replies[refused].result->error->message, HasSubstr(refused == 0 ? "for 410 tokens" : "for 440 tokens"));
  }
  EXPECT_EQ(replies[1].result->end, ReplyEnd::kMaxTokens);
  // Nobody asked for a limit: it is cut to what fits.
  EXPECT_EQ(replies[3].result->end, ReplyEnd::kContextFull);
  EXPECT_GT(replies[3].tokens.size(), 32u);
}

TEST(StepLoop, WhatNoMachineCouldRunIsNotTaken) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine);
  const auto code_of = [&](const Request& request) { return run.loop().submit(request).error().code; };
  const auto vocabulary = static_cast<TokenId>(engine->tokenizer().vocab_size());
  EXPECT_EQ(code_of({.prompt = {}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.prompt = {0, vocabulary}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.prompt = {-1}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.prompt = some_tokens(*engine, 512)}), ErrorCode::kLimit);
  EXPECT_EQ(code_of({.prompt = {1}, .reply = {.sampling = {.top_p = 0}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.prompt = {1}, .reply = {.max_tokens = TokenCount(-1)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.prompt = {1}, .tenant_weight = 0}), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(run.step());
}

// --- Readers

TEST(StepLoop, ACancelEndsWithinAStep) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine);
  const auto stream = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(400)});
  const auto waiting = run.submit({.prompt = some_tokens(*engine, 40, 1), .reply = greedy(400)});
  waiting->cancel();
  run.step();
  EXPECT_EQ(waiting->result().end, ReplyEnd::kCancelled);
  for (int i = 0; i < 5; ++i) run.step();
  stream->cancel();
  run.step();
  EXPECT_EQ(stream->result().end, ReplyEnd::kCancelled);
  EXPECT_EQ(run.cache().sequences(), 0u);
  run.drain();
}

TEST(StepLoop, AStreamThatNobodyHoldsIsCancelled) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine, {.stream_capacity = 2});
  auto stream = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(400)});
  run.drain();  // rests: nobody reads
  EXPECT_EQ(run.loop().statistics().jobs.resting, 1u);
  stream.reset();
  EXPECT_TRUE(run.step());
  EXPECT_EQ(run.cache().sequences(), 0u);
  EXPECT_FALSE(run.step());
}

TEST(StepLoop, ASlowReaderStopsHimselfAlone) {
  const auto engine = tiny_llama({.threads = 1});
  const Request request{.prompt = some_tokens(*engine, 40), .reply = greedy(60)};
  const Request other{.prompt = some_tokens(*engine, 40, 1), .reply = greedy(100)};
  const std::vector<HeardReply> alone = each_alone(*engine, {request, other});
  LoopRun run(*engine, {.stream_capacity = 3});
  const auto slow = run.submit(request);
  const auto quick = run.submit(other);
  HeardReply quick_reply;
  while (!quick_reply.result) {
    ASSERT_TRUE(run.step());
    quick_reply = read_now(*quick, std::move(quick_reply));
  }
  EXPECT_EQ(quick_reply.tokens, alone[1].tokens);
  run.drain();
  EXPECT_FALSE(slow->ended());
  HeardReply slow_reply;
  for (int rounds = 0; !slow_reply.result; ++rounds) {
    ASSERT_LT(rounds, 100);
    const size_t before = slow_reply.tokens.size();
    slow_reply = read_now(*slow, std::move(slow_reply));
    EXPECT_LE(slow_reply.tokens.size() - before, 3u);
    run.drain();
  }
  EXPECT_EQ(slow_reply.tokens, alone[0].tokens);
  EXPECT_EQ(slow_reply.text, alone[0].text);
}

TEST(StepLoop, EveryStreamEndsWithTheLoop) {
  const auto engine = tiny_llama({.threads = 1});
  std::shared_ptr<ReplyStream> running;
  std::shared_ptr<ReplyStream> unseen;
  {
    LoopRun run(*engine);
    running = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(400)});
    run.step();
    unseen = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(400)});
  }
  EXPECT_EQ(running->result().end, ReplyEnd::kCancelled);
  EXPECT_EQ(unseen->result().end, ReplyEnd::kCancelled);
  running->cancel();  // whom it would tell is gone
}

// --- Memory

TEST(StepLoop, ACeilingThatFallsCostsTimeAndNoText) {
  const auto engine = tiny_llama({.threads = 1});
  const std::vector<Request> requests = many_users(*engine);
  const std::vector<HeardReply> alone = each_alone(*engine, requests);
  LoopRun run(*engine, {.limit = kib(4096)});
  std::vector<std::shared_ptr<ReplyStream>> streams;
  for (const Request& request : requests) streams.push_back(run.submit(request));
  for (int i = 0; i < 20; ++i) run.step();
  run.set_ceiling(kib(400));
  run.pass_time(1'000'000'000);
  run.step();
  run.step();
  run.step();
  EXPECT_LE(run.cache().usage().backed, kib(400));
  run.drain();
  EXPECT_GT(run.loop().statistics().jobs.suspensions, 0);
  EXPECT_GT(run.loop().statistics().recomputed_tokens, 0);
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(read_now(*streams[i]).tokens, alone[i].tokens) << i;
}

TEST(StepLoop, WhatASuspendedOneHadIsFoundAgainAsFarAsItIsStillThere) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine);
  const auto elder = run.submit({.prompt = prompt_of(*engine, 0, 120, 0), .reply = greedy(60)});
  const auto younger = run.submit({.prompt = prompt_of(*engine, 0, 120, 1), .reply = greedy(60)});
  for (int i = 0; i < 10; ++i) run.step();
  run.set_ceiling(run.cache().usage().backed - kib(20));
  run.pass_time(1'000'000'000);
  run.step();
  run.step();
  run.set_ceiling(kib(4096));
  run.pass_time(1'000'000'000);
  run.drain();
  EXPECT_EQ(elder->result().suspensions, 0);
  EXPECT_EQ(younger->result().suspensions, 1);
  EXPECT_GT(run.loop().statistics().recomputed_tokens, 0);
  EXPECT_LE(run.loop().statistics().recomputed_tokens, 3 * kTileTokens);
}

TEST(StepLoop, ARefusalOfTheSystemDelaysAndRefusesNobody) {
  const auto engine = tiny_llama({.threads = 1});
  LoopRun run(*engine, {.fault = port::FaultPlan{.nth_call = 1, .forever = false, .kind = port::FaultKind::kNoMemory}});
  const auto first = run.submit({.prompt = some_tokens(*engine, 40), .reply = greedy(5)});
  run.step();
  EXPECT_EQ(run.cache().usage().limit, Bytes(0));  // what the system gave
  const auto second = run.submit({.prompt = some_tokens(*engine, 40, 1), .reply = greedy(5)});
  run.drain();
  EXPECT_EQ(first->result().end, ReplyEnd::kMaxTokens);
  EXPECT_EQ(second->result().end, ReplyEnd::kMaxTokens);
}

// Whatever call to the port fails, once or from then on: every stream ends, with its text or with a reason, and nothing is left.
TEST(StepLoop, WhenThePortFailsEveryStreamEndsAndNothingIsLeft) {
  const auto engine = tiny_gemma3({.threads = 1});
  const std::vector<Request> requests = {{.prompt = prompt_of(*engine, 40, 30, 0), .reply = greedy(5)},
                                         {.prompt = prompt_of(*engine, 40, 1, 1), .reply = greedy(30)},
                                         {.prompt = prompt_of(*engine, 0, 3, 2), .reply = greedy(3)}};
  const std::vector<HeardReply> alone = each_alone(*engine, requests);
  for (const port::FaultKind kind : {port::FaultKind::kNoMemory, port::FaultKind::kError}) {
    for (const bool forever : {false, true}) {
      for (int64_t nth = 0;; ++nth) {
        const std::string how = fmt::format("{} {} from call {}", kind == port::FaultKind::kError ? "errors" : "no memory",
                                            forever ? "for ever" : "once", nth);
        LoopRun run(*engine, {.fault = port::FaultPlan{.nth_call = nth, .forever = forever, .kind = kind}});
        const std::vector<HeardReply> replies = run.answer(requests);
        if (!forever) expect_same(replies, alone, how);
        for (size_t i = 0; i < replies.size(); ++i) {
          ASSERT_TRUE(replies[i].result.has_value()) << how;
          const ReplyEnd end = replies[i].result->end;
          EXPECT_TRUE(end == ReplyEnd::kMaxTokens || end == ReplyEnd::kContextFull || end == ReplyEnd::kFailed) << how;
          EXPECT_EQ(end == ReplyEnd::kFailed, replies[i].result->error.has_value()) << how;
          EXPECT_TRUE(alone[i].text.starts_with(replies[i].text)) << how;
        }
        EXPECT_EQ(run.cache().sequences(), 0u) << how;
        run.loop().clear_cache();
        run.step();
        EXPECT_EQ(run.cache().usage().backed, Bytes(0)) << how;
        if (run.vm().calls() <= nth) break;
      }
    }
  }
}

// --- What the model says

TEST(StepLoop, LogprobsAreThoseOfTheLogits) {
  const auto engine = tiny_llama({.threads = 1});
  const std::vector<TokenId> prompt = some_tokens(*engine, 40);
  Request request{.prompt = prompt, .reply = hot(5, 6)};
  request.reply.ignore_end = true;
  request.reply.logprobs = 3;
  const HeardReply reply = LoopRun(*engine).answer({request}).front();
  ASSERT_EQ(reply.sampled.size(), 6u);
  std::vector<TokenId> tokens = prompt;
  for (const ReplyToken& sampled : reply.sampled) {
    std::vector<float> logits = logits_from_nothing(*engine, tokens);
    logits.resize(engine->tokenizer().vocab_size());
    const double best = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - best);
    EXPECT_NEAR(sampled.logprob, logits[static_cast<size_t>(sampled.token)] - best - std::log(sum), 1e-6);
    ASSERT_EQ(sampled.top.size(), 3u);
    EXPECT_NEAR(sampled.top.front().logprob, -std::log(sum), 1e-6);
    tokens.push_back(sampled.token);
  }
}

// A model that computes no numbers for what follows a certain token.
class DamagedModel final : public ModelRunner {
 public:
  DamagedModel(ModelRunner& model, TokenId poison) : model_(model), poison_(poison) {}

  [[nodiscard]] int max_rows() const override { return model_.max_rows(); }
  [[nodiscard]] int max_logit_rows() const override { return model_.max_logit_rows(); }
  [[nodiscard]] int layers() const override { return model_.layers(); }
  [[nodiscard]] int vocabulary() const override { return model_.vocabulary(); }
  void run(std::span<const model::SequenceChunk> chunks) override {
    model_.run(chunks);
    tokens_.clear();
    for (const model::SequenceChunk& chunk : chunks) tokens_.insert(tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  [[nodiscard]] std::span<const float> logits(std::span<const int> rows) override {
    const std::span<const float> logits = model_.logits(rows);
    logits_.assign(logits.begin(), logits.end());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (tokens_[static_cast<size_t>(rows[i])] != poison_) continue;
      const auto row = std::span(logits_).subspan(i * static_cast<size_t>(vocabulary()), static_cast<size_t>(vocabulary()));
      std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
    }
    return logits_;
  }

 private:
  ModelRunner& model_;
  TokenId poison_;
  std::vector<TokenId> tokens_;
  std::vector<float> logits_;
};

TEST(StepLoop, AReplyWithoutNumbersFailsAndTheOthersGoOn) {
  const auto engine = tiny_llama({.threads = 1});
  const Request good{.prompt = some_tokens(*engine, 40), .reply = greedy(20)};
  const std::vector<HeardReply> alone = each_alone(*engine, {good});
  TokenId poison = 0;
  while (std::find(good.prompt.begin(), good.prompt.end(), poison) != good.prompt.end() ||
         std::find(alone[0].tokens.begin(), alone[0].tokens.end(), poison) != alone[0].tokens.end()) {
    ++poison;
  }
  Request bad = good;
  bad.prompt.push_back(poison);
  DamagedModel model(engine->runner(), poison);
  LoopRun run(*engine, model, {});
  const std::vector<HeardReply> replies = run.answer({bad, good});
  ASSERT_EQ(replies[0].result->end, ReplyEnd::kFailed);
  EXPECT_THAT(replies[0].result->error->message, HasSubstr("no numbers for the token at position 41"));
  EXPECT_EQ(replies[1].tokens, alone[0].tokens);
}

}  // namespace
}  // namespace quire::engine
