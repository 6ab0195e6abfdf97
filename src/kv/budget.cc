#include "kv/budget.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace quire::kv {

const char* to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kLive: return "live";
    case Purpose::kPageTables: return "page_tables";
  }
  QUIRE_CHECK(false, "a purpose without a name");
}

Budget::Budget(Bytes limit) : limit_(limit) { QUIRE_CHECK(limit.value >= 0); }

Budget::~Budget() { QUIRE_CHECK(backed() == Bytes(0) && promised_ == Bytes(0), dump()); }

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
  if (backed() > limit_ - promised_) return "K9: backed + promised exceed the limit\n" + dump();
  return {};
}

std::string Budget::dump() const {
  std::string text = fmt::format("budget limit {}\n", limit_.value);
  for (size_t purpose = 0; purpose < kPurposes; ++purpose) {
    text += fmt::format("budget backed {} {}\n", to_string(static_cast<Purpose>(purpose)), backed_[purpose].value);
  }
  return text + fmt::format("budget promised {}\n", promised_.value);
}

Promise::~Promise() { budget_->promised_ -= bytes_; }

Space Promise::take(Bytes bytes) {
  QUIRE_CHECK(bytes.value >= 0);
  if (bytes > budget_->available()) return Space::kNoSpace;
  budget_->promised_ += bytes;
  bytes_ += bytes;
  return Space::kOk;
}

Charge::Charge(Charge&& other) noexcept
    : budget_(other.budget_), purpose_(other.purpose_), bytes_(std::exchange(other.bytes_, Bytes(0))) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(purpose_, other.purpose_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Charge::~Charge() { give_back(bytes_); }

void Charge::absorb(Promise& promise, Bytes bytes) {
  QUIRE_CHECK(promise.budget_ == budget_ && bytes.value >= 0 && bytes <= promise.bytes_);
  promise.bytes_ -= bytes;
  budget_->promised_ -= bytes;
  bytes_ += bytes;
  budget_->backed_[static_cast<size_t>(purpose_)] += bytes;
}

void Charge::give_back(Bytes bytes) {
  QUIRE_CHECK(bytes.value >= 0 && bytes <= bytes_);
  bytes_ -= bytes;
  budget_->backed_[static_cast<size_t>(purpose_)] -= bytes;
}

}  // namespace quire::kv
