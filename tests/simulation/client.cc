#include "tests/simulation/client.h"

#include <fmt/format.h>

#include <algorithm>

#include "sampling/sampler.h"

namespace quire::simulation {

using engine::ReplyEnd;

Client::Client(int64_t id, engine::Request request, const FakeLaw& law, const tokenizer::Tokenizer& tokenizer, TokenCount context,
               int vocabulary)
    : id_(id), request_(std::move(request)), history_(law, id) {
  for (const TokenId token : request_.prompt) history_.push(token);
  compute_expected(law, tokenizer, context, vocabulary);
}

void Client::compute_expected(const FakeLaw& law, const tokenizer::Tokenizer& tokenizer, TokenCount context, int vocabulary) {
  const auto prompt = static_cast<int64_t>(request_.prompt.size());
  // The last token of a reply is never computed, so that a full context is followed by one more.
  const int64_t room = context.value - prompt + 1;
  const int64_t wish = request_.reply.max_tokens.value;
  const int64_t most = wish > 0 ? std::min(wish, room) : room;
  longest_ = TokenCount(prompt + most);
  sampling::Sampler sampler(request_.reply.sampling, request_.choice);
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  while (true) {
    law.fill_logits(history_.seen(), logits);
    const std::span<const float> row = std::span(logits).first(tokenizer.vocab_size());
    const TokenId token = sampler.sample(row, TokenPos(history_.length()), history_.tokens(), TokenCount(prompt));
    if (tokenizer.is_end_of_generation(token) && !request_.reply.ignore_end) {
      expected_.end = ReplyEnd::kEndOfText;
      return;
    }
    history_.push(token);
    ++expected_.tokens;
    expected_.spoken += tokenizer.decode(std::span(&token, 1), {.continues_text = true}).value();
    expected_.ends.push_back(expected_.spoken.size());
    expected_.text = expected_.spoken;
    size_t stop = std::string::npos;
    for (const std::string& text : request_.reply.stop) stop = std::min(stop, expected_.spoken.find(text));
    if (stop != std::string::npos) {
      expected_.end = ReplyEnd::kStop;
      expected_.text.resize(stop);
      return;
    }
    if (expected_.tokens == most) {
      expected_.end = wish == most ? ReplyEnd::kMaxTokens : ReplyEnd::kContextFull;
      return;
    }
  }
}

void Client::submitted(std::shared_ptr<engine::ReplyStream> stream, int64_t now_ns) {
  stream_ = std::move(stream);
  submitted_ns = now_ns;
  next_read_ns = now_ns;
}

void Client::take(const engine::ReplyPiece& piece) {
  text_ += piece.text;
  for (const engine::ReplyToken& token : piece.tokens) got_.push_back(token.token);
}

bool Client::read(int64_t now_ns) {
  if (over() || now_ns < next_read_ns) return false;
  bool any = false;
  while (const auto piece = stream_->try_next()) {
    take(*piece);
    any = true;
    if (pause_ns == 0) continue;
    next_read_ns = now_ns + pause_ns;
    break;
  }
  if (stream_->ended()) result_ = stream_->result();
  return any;
}

void Client::cancel(bool by_dropping) {
  if (over()) return;
  if (by_dropping) {
    dropped_ = true;
    stream_.reset();
  } else {
    cancelled_ = true;
    pause_ns = 0;
    next_read_ns = 0;
    stream_->cancel();
  }
}

std::string Client::judge() const {
  if (dropped_) return {};
  std::string wrong = judge_tokens();
  if (wrong.empty()) wrong = judge_end();
  return wrong.empty() ? wrong : fmt::format("request {}, which ended with {}: {}", id_, engine::to_string(result_->end), wrong);
}

std::string Client::judge_tokens() const {
  const auto alone = std::span(history_.tokens()).subspan(request_.prompt.size());
  if (got_.size() > alone.size() || !std::equal(got_.begin(), got_.end(), alone.begin())) {
    const auto [mine, other] = std::mismatch(got_.begin(), got_.end(), alone.begin(), alone.end());
    return fmt::format("of {} tokens the one with index {} is not what it gets alone", got_.size(), mine - got_.begin());
  }
  if (result_->reply_tokens.value != static_cast<int64_t>(got_.size())) {
    return fmt::format("{} tokens are reported, {} came", result_->reply_tokens.value, got_.size());
  }
  // Ended before its time, it is given what a stop text might still have taken.
  const bool whole = result_->end == expected_.end && got_.size() == alone.size();
  const std::string alone_text =
      whole ? expected_.text : expected_.spoken.substr(0, got_.empty() ? 0 : expected_.ends[got_.size() - 1]);
  if (text_ != alone_text) return fmt::format("the text is \"{}\", alone it is \"{}\"", text_, alone_text);
  if (result_->prompt_tokens.value != static_cast<int64_t>(request_.prompt.size())) return "the prompt's length is wrong";
  return {};
}

std::string Client::judge_end() const {
  const auto got = static_cast<int64_t>(got_.size());
  switch (result_->end) {
    case ReplyEnd::kEndOfText:
    case ReplyEnd::kStop:
    case ReplyEnd::kMaxTokens:
      if (result_->end != expected_.end || got != expected_.tokens) {
        return fmt::format("after {} tokens; alone it ends with {} after {}", got, engine::to_string(expected_.end),
                           expected_.tokens);
      }
      return {};
    case ReplyEnd::kContextFull: return {};  // where it may be: Simulation::judge()
    case ReplyEnd::kDeadline:
      return request_.deadline_ns && result_->ended_ns >= *request_.deadline_ns ? "" : "there was no deadline before that";
    case ReplyEnd::kCancelled: return cancelled_ ? "" : "nobody cancelled it";
    case ReplyEnd::kRefused: return result_->error && got == 0 ? "" : "a refusal has numbers and no tokens";
    case ReplyEnd::kFailed: return result_->error ? result_->error->message : "without an error";
  }
  return "an unknown end";
}

}  // namespace quire::simulation
