#include "server/openai_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "server/tiny_served_model.h"
#include "tokenizer/utf8.h"

namespace quire::server {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

const TinyServedModel& model() {
  static const TinyServedModel tiny;
  return tiny;
}

PreparedCompletion prepare(Endpoint endpoint, const std::string& body) {
  return PreparedCompletion::create(parse_completion(endpoint, body).value(), model().served(), 0, {}).value();
}

// The pieces of a reply as the step loop makes them: each token with the text that is certain with it.
std::vector<engine::ReplyPiece> pieces_of(const std::vector<TokenId>& tokens) {
  std::vector<engine::ReplyPiece> pieces;
  tokenizer::Detokenizer detokenizer(model().tokenizer(), {.continues_text = true});
  for (const TokenId token : tokens) {
    pieces.push_back(
        {.text = detokenizer.push(token).value(),
         .tokens = {{.token = token, .logprob = -0.5, .top = {{.token = token, .logprob = -0.5}, {.token = 'z', .logprob = -2}}}}});
  }
  pieces.push_back({.text = detokenizer.finish(), .tokens = {}});
  return pieces;
}

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

engine::ReplyResult ended(engine::ReplyEnd end, int64_t reply_tokens, int64_t reused = 0) {
  engine::ReplyResult result;
  result.end = end;
  result.prompt_tokens = TokenCount(10);
  result.reused_tokens = TokenCount(reused);
  result.reply_tokens = TokenCount(reply_tokens);
  return result;
}

Json body_of(const PreparedCompletion& request, const std::vector<TokenId>& tokens,
             engine::ReplyEnd end = engine::ReplyEnd::kEndOfText) {
  CompletionReply reply(request, model().tokenizer());
  for (const engine::ReplyPiece& piece : pieces_of(tokens)) reply.add(0, piece);
  reply.finish(0, ended(end, static_cast<int64_t>(tokens.size()), 4));
  // As a client reads it.
  return Json::parse(to_line(reply.body({.id = "1", .model = "tiny", .created = 99}).value()));
}

const char* kChatBody = R"({"messages": [{"role": "user", "content": "Hi"}]})";

TEST(OpenAiReply, AChatCompletion) {
  const Json body = body_of(prepare(Endpoint::kChatCompletions, kChatBody), bytes_of("Hello"));
  EXPECT_EQ(body.dump(),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":99,"model":"tiny","choices":[{"index":0,"message":)"
            R"({"role":"assistant","content":"Hello","refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}})");
}

TEST(OpenAiReply, ATextCompletion) {
  const Json body =
      body_of(prepare(Endpoint::kCompletions, R"({"prompt": "Say", "echo": true})"), bytes_of(" hi"), engine::ReplyEnd::kMaxTokens);
  EXPECT_EQ(body.dump(),
            R"({"id":"cmpl-1","object":"text_completion","created":99,"model":"tiny","choices":[{"text":"Say hi","index":0,)"
            R"("logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
            R"("prompt_tokens_details":{"cached_tokens":4}}})");
}

TEST(OpenAiReply, FinishReasons) {
  using engine::ReplyEnd;
  for (const ReplyEnd end : {ReplyEnd::kEndOfText, ReplyEnd::kStop}) EXPECT_EQ(finish_reason(end), "stop");
  for (const ReplyEnd end : {ReplyEnd::kMaxTokens, ReplyEnd::kContextFull, ReplyEnd::kDeadline})
    EXPECT_EQ(finish_reason(end), "length");
}

TEST(OpenAiReply, LogprobsOfAChat) {
  const auto request = prepare(Endpoint::kChatCompletions,
                               R"({"messages": [{"role": "user", "content": "Hi"}], "logprobs": true, "top_logprobs": 2})");
  const Json logprobs = body_of(request, bytes_of("a\xC3\xA9"))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["content"].size(), 3U);
  EXPECT_EQ(logprobs["content"][0].dump(),
            R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]},)"
            R"({"token":"z","logprob":-2.0,"bytes":[122]}]})");
  EXPECT_EQ(logprobs["content"][1]["token"], "\uFFFD") << "half a character";
  EXPECT_EQ(logprobs["content"][1]["bytes"], Json({0xC3}));
  EXPECT_EQ(logprobs["refusal"], nullptr);
}

TEST(OpenAiReply, LogprobsOfAText) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": "é", "echo": true, "logprobs": 2})");
  const Json choice = body_of(request, bytes_of("a\xE2\x82\xAC!"))["choices"][0];
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(choice["text"], "éa€!");
  EXPECT_EQ(logprobs["tokens"], Json({"é", "a", "", "", "€", "!"})) << "of a character in several tokens the last one has it";
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 2, 2, 3})) << "in characters";
  EXPECT_EQ(logprobs["token_logprobs"], Json({nullptr, -0.5, -0.5, -0.5, -0.5, -0.5})) << "the echo has none";
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][1].dump(), R"({"a":-0.5,"z":-2.0})");
  EXPECT_EQ(logprobs["top_logprobs"][2].dump(), R"({"bytes:\\xe2":-0.5,"z":-2.0})");
}

TEST(OpenAiReply, LogprobsEndWhereTheTextEnds) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": "x", "logprobs": 0, "stop": "STOP"})");
  CompletionReply reply(request, model().tokenizer());
  // The step loop has the stop text's tokens in the pieces, and nothing of it in their text.
  for (engine::ReplyPiece piece : pieces_of(bytes_of("abSTOP"))) {
    if (!piece.text.empty() && piece.text != "a" && piece.text != "b") piece.text.clear();
    reply.add(0, piece);
  }
  reply.finish(0, ended(engine::ReplyEnd::kStop, 6));
  const Json choice = reply.body({.id = "1", .model = "tiny", .created = 0})->at("choices")[0];
  EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"a", "b"}));
}

TEST(OpenAiReply, InfiniteLogprobsAreNumbers) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": "x", "logprobs": 0})");
  CompletionReply reply(request, model().tokenizer());
  reply.add(0, {.text = "a", .tokens = {{.token = 'a', .logprob = -std::numeric_limits<double>::infinity(), .top = {}}}});
  reply.finish(0, ended(engine::ReplyEnd::kMaxTokens, 1));
  EXPECT_EQ(reply.body({.id = "1", .model = "tiny", .created = 0})->at("choices")[0]["logprobs"]["token_logprobs"][0], -9999);
}

TEST(OpenAiReply, UsageCountsAPromptOnceAndEveryReply) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": ["a", "b"], "n": 2})");
  CompletionReply reply(request, model().tokenizer());
  const int64_t reused[] = {4, 9, 9, 6};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(reply.finished());
    reply.add(3 - i, {.text = std::to_string(3 - i), .tokens = {}});
    reply.finish(3 - i, ended(engine::ReplyEnd::kEndOfText, 1, reused[3 - i]));
  }
  EXPECT_TRUE(reply.finished());
  const Json body = reply.body({.id = "1", .model = "tiny", .created = 0}).value();
  EXPECT_EQ(body["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 10) << "what was there before: the least of each prompt's";
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], std::to_string(i));
  }
}

TEST(OpenAiReply, FailuresAreTold) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": "a", "n": 2})");
  CompletionReply reply(request, model().tokenizer());
  reply.finish(0, ended(engine::ReplyEnd::kEndOfText, 1));
  engine::ReplyResult refused = ended(engine::ReplyEnd::kRefused, 0);
  refused.error = make_error(ErrorCode::kOutOfMemory, "needs 3 GiB and may take 2 GiB");
  reply.finish(1, refused);
  const auto body = reply.body({.id = "1", .model = "tiny", .created = 0});
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error().status, 400);
  EXPECT_EQ(body.error().code, "kv_memory_exceeded");
  EXPECT_THAT(body.error().message, HasSubstr("3 GiB"));
  EXPECT_EQ(failure_of(ended(engine::ReplyEnd::kFailed, 0))->status, 500);
  EXPECT_FALSE(failure_of(ended(engine::ReplyEnd::kContextFull, 0)).has_value());
}

// Tokens that are no characters, in any order: the body is valid JSON, its lists are aligned, and each token's text stands at its
// offset.
RC_GTEST_PROP(OpenAiReplyProperty, BrokenCharactersNeverReachTheJson, ()) {
  const auto request = prepare(Endpoint::kCompletions, R"({"prompt": "x", "logprobs": 1, "echo": true})");
  const auto chat = prepare(Endpoint::kChatCompletions, R"({"messages": [{"role": "user", "content": "Hi"}], "logprobs": true})");
  const auto tokens = *rc::gen::container<std::vector<TokenId>>(
      rc::gen::element<TokenId>(0xE6, 0xAD, 0x27, 0xF0, 0x9F, 0x98, 0x80, 'a', 0xC3, 0xFF, 0, '"', '\\', 256));
  const Json choice = body_of(request, tokens)["choices"][0];
  const std::string text = choice["text"];
  std::u32string characters;
  for (std::string_view rest = text; !rest.empty();) {
    const auto step = tokenizer::utf8_step(rest);
    RC_ASSERT(step.kind == tokenizer::Utf8Step::Kind::kCharacter);
    characters.push_back(0);
    rest.remove_prefix(step.length);
  }
  const Json& logprobs = choice["logprobs"];
  RC_ASSERT(logprobs["tokens"].size() == tokens.size() + 1);
  std::string joined;
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    size_t offset = 0;
    for (int64_t left = logprobs["text_offset"][i]; left > 0; --left)
      offset += tokenizer::utf8_step(std::string_view(text).substr(offset)).length;
    RC_ASSERT(offset == joined.size());
    joined += logprobs["tokens"][i].get<std::string>();
  }
  RC_ASSERT(joined == text);
  RC_ASSERT(body_of(chat, tokens)["choices"][0]["logprobs"]["content"].size() == tokens.size());
}

}  // namespace
}  // namespace quire::server
