#include "kv/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire::kv {

const char* to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kLive: return "live";
    case Purpose::kShared: return "shared";
    case Purpose::kCached: return "cached";
    case Purpose::kWarm: return "warm";
    case Purpose::kPageTables: return "page_tables";
  }
  QUIRE_CHECK(false, "a purpose without a name");
}

Budget::Budget(Bytes limit) : limit_(limit) { QUIRE_CHECK(limit.value >= 0); }

Budget::~Budget() { QUIRE_CHECK(backed() == Bytes(0) && promised_ == Bytes(0), dump()); }

void Budget::set_limit(Bytes limit) {
  QUIRE_CHECK(limit.value >= 0);
  limit_ = limit;
}

Bytes Budget::backed() const {
  Bytes sum;
  for (const Bytes bytes : backed_) sum += bytes;
  return sum;
}

std::string Budget::verify() const {
  for (const Bytes bytes : backed_) {
    if (bytes.value < 0) return "K1: a purpose is charged with less than nothing\n" + dump();
  }
  if (promised_.value < 0) return "K9: less than nothing is promised\n" + dump();
  return {};
}

std::string Budget::dump() const {
  std::array<std::string, kPurposes + 2> lines;
  size_t line = 0;
  for (; line < kPurposes; ++line) {
    lines[line] = fmt::format("budget backed {} {}\n", to_string(static_cast<Purpose>(line)), backed_[line].value);
  }
  lines[line++] = fmt::format("budget limit {}\n", limit_.value);
  lines[line++] = fmt::format("budget promised {}\n", promised_.value);
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& each : lines) text += each;
  return text;
}

Promise::Promise(Promise&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, Bytes(0))) {}

Promise& Promise::operator=(Promise&& other) noexcept {
  if (this == &other) return *this;
  budget_->promised_ -= bytes_;
  budget_ = other.budget_;
  bytes_ = std::exchange(other.bytes_, Bytes(0));
  return *this;
}

Promise::~Promise() { budget_->promised_ -= bytes_; }

Space Promise::take(Bytes bytes) {
  QUIRE_CHECK(bytes.value >= 0);
  if (bytes.value > 0 && bytes > budget_->available()) return Space::kNoSpace;
  budget_->promised_ += bytes;
  bytes_ += bytes;
  return Space::kOk;
}

Charge::Charge(Charge&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, {})) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  return_all();
  budget_ = other.budget_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

Charge::~Charge() { return_all(); }

void Charge::return_all() {
  for (size_t purpose = 0; purpose < kPurposes; ++purpose) give_back(static_cast<Purpose>(purpose), bytes_[purpose]);
}

void Charge::absorb(Promise& promise, Purpose purpose, Bytes bytes) {
  QUIRE_CHECK(promise.budget_ == budget_ && bytes.value >= 0 && bytes <= promise.bytes_);
  promise.bytes_ -= bytes;
  budget_->promised_ -= bytes;
  add(purpose, bytes);
}

void Charge::move(Purpose from, Purpose to, Bytes bytes) {
  give_back(from, bytes);
  add(to, bytes);
}

void Charge::give_back(Purpose purpose, Bytes bytes) {
  Bytes& held = bytes_[static_cast<size_t>(purpose)];
  QUIRE_CHECK(bytes.value >= 0 && bytes <= held);
  held -= bytes;
  budget_->backed_[static_cast<size_t>(purpose)] -= bytes;
}

void Charge::add(Purpose purpose, Bytes bytes) {
  bytes_[static_cast<size_t>(purpose)] += bytes;
  budget_->backed_[static_cast<size_t>(purpose)] += bytes;
}

}  // namespace quire::kv
