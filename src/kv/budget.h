// The budget: how many bytes may be backed, and for what they are.
//
// Two ledgers:
//   backed     bytes that the port has backed, by purpose; each is held by one Charge
//   promised   bytes that somebody is about to have backed; each is held by one Promise
//
//   K1  every backed granule is charged to exactly one purpose; by purpose they sum to backed()
//   K9  backed() + promised() <= limit()
//
// Life of a byte: Promise::take (may be refused) -> the port backs it -> Charge::absorb (cannot fail) -> Charge::give_back. A
// Promise or Charge that is destroyed returns what it holds. Only the owner thread calls any of this.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/units.h"

namespace quire::kv {

// Whether there was room. No space is an expected answer, not an error.
enum class [[nodiscard]] Space { kOk, kNoSpace };

enum class Purpose {
  kLive,        // granules that hold tiles of a running sequence
  kPageTables,  // the kernel's own memory for them
};
inline constexpr size_t kPurposes = 2;

// The purpose's name in snake case, stable: "live", "page_tables".
[[nodiscard]] const char* to_string(Purpose purpose);

class Budget {
 public:
  explicit Budget(Bytes limit);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  // Every Promise and Charge is gone by then; otherwise it is a bug.
  ~Budget();

  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] Bytes backed() const;
  [[nodiscard]] Bytes backed(Purpose purpose) const { return backed_[static_cast<size_t>(purpose)]; }
  [[nodiscard]] Bytes promised() const { return promised_; }
  [[nodiscard]] Bytes available() const { return limit_ - backed() - promised_; }

  // Empty when the equations above hold, otherwise which does not, with the values.
  [[nodiscard]] std::string verify() const;

  // One line a ledger entry, sorted.
  [[nodiscard]] std::string dump() const;

 private:
  friend class Promise;
  friend class Charge;

  Bytes limit_;
  Bytes promised_;
  std::array<Bytes, kPurposes> backed_;
};

// Bytes promised to one holder.
class Promise {
 public:
  explicit Promise(Budget& budget) : budget_(&budget) {}
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise();

  // Promises `bytes` >= 0 more, all of them or none.
  Space take(Bytes bytes);
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  friend class Charge;

  Budget* budget_;
  Bytes bytes_;
};

// Backed bytes of one holder for one purpose.
class Charge {
 public:
  Charge(Budget& budget, Purpose purpose) : budget_(&budget), purpose_(purpose) {}
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Budget& budget() const { return *budget_; }
  // The promised bytes are backed now. `promise` holds at least as many.
  void absorb(Promise& promise, Bytes bytes);
  // The bytes are not backed any more. At most bytes().
  void give_back(Bytes bytes);

 private:
  Budget* budget_;
  Purpose purpose_;
  Bytes bytes_;
};

}  // namespace quire::kv
