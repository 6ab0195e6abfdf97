#include "server/openai_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tokenizer/utf8.h"

namespace quire::server {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no -infinity; this is what OpenAI writes for it.
constexpr double kLowestLogprob = -9999;

double finite(double logprob) { return logprob > kLowestLogprob ? logprob : kLowestLogprob; }

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// A token's bytes as text: U+FFFD for what is none.
std::string readable(std::string_view piece) {
  std::string text;
  if (tokenizer::append_valid_utf8(piece, text) > 0) text += tokenizer::kReplacementCharacter;
  return text;
}

// A token's name among others of a completion's logprobs: its text, or its bytes where they are no text, so that names differ.
std::string token_name(std::string_view piece) {
  std::string text = readable(piece);
  if (text == piece) return text;
  text = "bytes:";
  for (const char c : piece) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

Json token_logprob(const tokenizer::Tokenizer& tokenizer, TokenId token, double logprob) {
  const std::string_view piece = tokenizer.piece(token);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", readable(piece)}, {"logprob", finite(logprob)}, {"bytes", std::move(bytes)}};
}

// The four lists of a completion's logprobs, token by token. A token's text is what it adds to the text: of a character in several
// tokens the last one has it. So each text stands at its offset.
class TextLogprobs {
 public:
  explicit TextLogprobs(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Texts that go on from what was added before, or begin.
  void begin(bool continues_text) { detokenizer_.emplace(tokenizer_, tokenizer::DecodeOptions{.continues_text = continues_text}); }

  void add(TokenId token, Json logprob, Json top) {
    Result<std::string> text = detokenizer_->push(token);
    QUIRE_CHECK(text.ok(), "only tokens of the vocabulary are sampled");
    append(*text);
    logprobs_.push_back(std::move(logprob));
    tops_.push_back(std::move(top));
  }

  // The part of a character that the last token left becomes its own.
  void end() {
    const std::string rest = detokenizer_->finish();
    if (rest.empty() || texts_.empty()) return;
    texts_.back() = texts_.back().get<std::string>() + rest;
    offset_ += count_characters(rest);
  }

  [[nodiscard]] Json json() && {
    return {{"tokens", std::move(texts_)},
            {"token_logprobs", std::move(logprobs_)},
            {"top_logprobs", std::move(tops_)},
            {"text_offset", std::move(offsets_)}};
  }

 private:
  void append(const std::string& text) {
    texts_.push_back(text);
    offsets_.push_back(offset_);
    offset_ += count_characters(text);
  }

  const tokenizer::Tokenizer& tokenizer_;
  std::optional<tokenizer::Detokenizer> detokenizer_;
  Json texts_ = Json::array();
  Json logprobs_ = Json::array();
  Json tops_ = Json::array();
  Json offsets_ = Json::array();
  int64_t offset_ = 0;  // in characters
};

}  // namespace

std::string_view finish_reason(engine::ReplyEnd end) {
  return end == engine::ReplyEnd::kEndOfText || end == engine::ReplyEnd::kStop ? "stop" : "length";
}

std::optional<ApiError> failure_of(const engine::ReplyResult& result) {
  const std::string message = result.error ? result.error->message : std::string(engine::to_string(result.end));
  switch (result.end) {
    case engine::ReplyEnd::kRefused: return ApiError{.message = message, .code = kKvMemoryExceeded};
    case engine::ReplyEnd::kCancelled: return ApiError{.status = 499, .message = message, .code = "cancelled"};
    case engine::ReplyEnd::kFailed:
      return ApiError{.status = 500, .message = message, .code = "generation_failed", .type = "server_error"};
    case engine::ReplyEnd::kEndOfText:
    case engine::ReplyEnd::kStop:
    case engine::ReplyEnd::kMaxTokens:
    case engine::ReplyEnd::kContextFull:
    case engine::ReplyEnd::kDeadline: break;
  }
  return std::nullopt;
}

ApiError refused_request(const Error& error) { return {.message = error.message, .code = "invalid_prompt"}; }

CompletionReply::CompletionReply(const PreparedCompletion& request, const tokenizer::Tokenizer& tokenizer)
    : request_(request), tokenizer_(tokenizer), choices_(request.choices()), unfinished_(request.choices()) {}

void CompletionReply::add(size_t choice, const engine::ReplyPiece& piece) {
  Choice& target = choices_[choice];
  target.text += piece.text;
  if (request_.body().reply.logprobs) target.tokens.insert(target.tokens.end(), piece.tokens.begin(), piece.tokens.end());
}

void CompletionReply::finish(size_t choice, const engine::ReplyResult& result) {
  QUIRE_CHECK(!choices_[choice].finished, "a reply ends once");
  choices_[choice].finished = true;
  choices_[choice].result = result;
  if (result.end == engine::ReplyEnd::kStop) drop_stop_text(choices_[choice]);
  --unfinished_;
}

// Of its tokens: those that begin where the text has ended.
void CompletionReply::drop_stop_text(Choice& choice) const {
  const int64_t end = count_characters(choice.text);
  tokenizer::Detokenizer detokenizer(tokenizer_, {.continues_text = true});
  int64_t offset = 0;
  for (size_t i = 0; i < choice.tokens.size(); ++i) {
    if (offset >= end) return choice.tokens.resize(i);
    const Result<std::string> text = detokenizer.push(choice.tokens[i].token);
    QUIRE_CHECK(text.ok(), "only tokens of the vocabulary are sampled");
    offset += count_characters(*text);
  }
}

ApiResult<Json> CompletionReply::body(const ReplyIdentity& identity) const {
  QUIRE_CHECK(finished(), "the body of replies that have ended");
  const bool chat = request_.body().endpoint == Endpoint::kChatCompletions;
  Json choices = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (std::optional<ApiError> failure = failure_of(choices_[i].result)) return *std::move(failure);
    choices.push_back(chat ? chat_choice(i) : text_choice(i));
  }
  return Json{{"id", (chat ? "chatcmpl-" : "cmpl-") + identity.id},
              {"object", chat ? "chat.completion" : "text_completion"},
              {"created", identity.created},
              {"model", identity.model},
              {"choices", std::move(choices)},
              {"usage", usage()}};
}

Json CompletionReply::chat_choice(size_t index) const {
  const Choice& choice = choices_[index];
  return {{"index", index},
          {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
          {"logprobs", request_.body().reply.logprobs ? chat_logprobs(choice) : Json()},
          {"finish_reason", finish_reason(choice.result.end)}};
}

Json CompletionReply::chat_logprobs(const Choice& choice) const {
  Json content = Json::array();
  for (const engine::ReplyToken& token : choice.tokens) {
    Json entry = token_logprob(tokenizer_, token.token, token.logprob);
    Json top = Json::array();
    for (const auto& [id, logprob] : token.top) top.push_back(token_logprob(tokenizer_, id, logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionReply::text_choice(size_t index) const {
  const Choice& choice = choices_[index];
  return {{"text", request_.prompt_of(index).echo + choice.text},
          {"index", index},
          {"logprobs", request_.body().reply.logprobs ? text_logprobs(index) : Json()},
          {"finish_reason", finish_reason(choice.result.end)}};
}

// The tokens of an echoed prompt have no logprobs: they are not computed.
Json CompletionReply::text_logprobs(size_t index) const {
  const Choice& choice = choices_[index];
  const PreparedCompletion::Prompt& prompt = request_.prompt_of(index);
  TextLogprobs lists(tokenizer_);
  if (request_.body().echo) {
    lists.begin(false);
    for (const TokenId token : prompt.tokens) lists.add(token, nullptr, nullptr);
    lists.end();
  }
  lists.begin(true);
  for (const engine::ReplyToken& token : choice.tokens) {
    Json top = Json::object();
    for (const auto& [id, logprob] : token.top) top[token_name(tokenizer_.piece(id))] = finite(logprob);
    top[token_name(tokenizer_.piece(token.token))] = finite(token.logprob);
    lists.add(token.token, finite(token.logprob), std::move(top));
  }
  lists.end();
  return std::move(lists).json();
}

// A prompt counts once, however many choices answer it. Of its tokens those are cached that every choice found.
Json CompletionReply::usage() const {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t reply_tokens = 0;
  const auto per_prompt = static_cast<size_t>(request_.body().choices);
  for (size_t first = 0; first < choices_.size(); first += per_prompt) {
    int64_t cached = choices_[first].result.reused_tokens.value;
    for (size_t i = first; i < first + per_prompt; ++i) {
      cached = std::min(cached, choices_[i].result.reused_tokens.value);
      reply_tokens += choices_[i].result.reply_tokens.value;
    }
    prompt_tokens += choices_[first].result.prompt_tokens.value;
    cached_tokens += cached;
  }
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", reply_tokens},
          {"total_tokens", prompt_tokens + reply_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
}

}  // namespace quire::server
