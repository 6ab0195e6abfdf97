#include "engine/request.h"

#include <fmt/format.h>

#include <utility>

namespace quire::engine {

std::string_view to_string(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kEndOfText: return "end of text";
    case ReplyEnd::kStop: return "stop text";
    case ReplyEnd::kMaxTokens: return "token limit";
    case ReplyEnd::kContextFull: return "context full";
    case ReplyEnd::kDeadline: return "deadline";
    case ReplyEnd::kCancelled: return "cancelled";
    case ReplyEnd::kRefused: return "refused";
    case ReplyEnd::kFailed: return "failed";
  }
  QUIRE_CHECK(false, "known ReplyEnd");
  return {};
}

Error no_numbers(TokenPos position) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("the model computes no numbers for the token at position {}; its file is damaged, or "
                                "its metadata wrong: get it again",
                                position.value));
}

ReplyStream::ReplyStream(size_t capacity, std::function<void()> readable) : capacity_(capacity), readable_(std::move(readable)) {
  QUIRE_CHECK(capacity >= 1);
}

std::optional<ReplyPiece> ReplyStream::take(std::unique_lock<std::mutex>& lock) {
  if (pieces_.empty()) return std::nullopt;
  std::optional<ReplyPiece> piece = std::move(pieces_.front());
  pieces_.pop_front();
  const bool has_room_again = pieces_.size() + 1 == capacity_ && !result_;
  const std::function<void()> attention = has_room_again ? attention_ : nullptr;
  lock.unlock();
  if (attention) attention();
  return piece;
}

std::optional<ReplyPiece> ReplyStream::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !pieces_.empty() || result_; });
  return take(lock);
}

std::optional<ReplyPiece> ReplyStream::try_next() {
  std::unique_lock lock(mutex_);
  return take(lock);
}

bool ReplyStream::wait(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most, [&] { return !pieces_.empty() || result_; });
}

bool ReplyStream::ended() const {
  const std::lock_guard lock(mutex_);
  return pieces_.empty() && result_;
}

const ReplyResult& ReplyStream::result() const {
  const std::lock_guard lock(mutex_);
  QUIRE_CHECK(result_.has_value(), "the reply has ended");
  return *result_;  // never changes again
}

void ReplyStream::cancel() {
  std::unique_lock lock(mutex_);
  if (cancelled_ || result_) return;
  cancelled_ = true;
  const std::function<void()> attention = attention_;
  lock.unlock();
  if (attention) attention();
}

void ReplyStream::push(ReplyPiece piece) {
  {
    const std::lock_guard lock(mutex_);
    QUIRE_CHECK(!result_, "a reply that has ended grows no more");
    pieces_.push_back(std::move(piece));
  }
  changed_.notify_all();
  if (readable_) readable_();
}

void ReplyStream::finish(ReplyResult result) {
  {
    const std::lock_guard lock(mutex_);
    QUIRE_CHECK(!result_, "a reply ends once");
    result_ = std::move(result);
    attention_ = nullptr;
  }
  changed_.notify_all();
  if (readable_) readable_();
}

bool ReplyStream::full() const {
  const std::lock_guard lock(mutex_);
  return pieces_.size() >= capacity_;
}

bool ReplyStream::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void ReplyStream::on_attention(std::function<void()> attention) {
  const std::lock_guard lock(mutex_);
  attention_ = std::move(attention);
}

}  // namespace quire::engine
