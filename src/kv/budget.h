// The budget: how many bytes may be backed, and for what they are.
//
// Two ledgers:
//   backed     bytes that the port has backed, by purpose; each is held by one Charge
//   promised   bytes that somebody is about to have backed; each is held by one Promise
//
//   K1  every backed granule is charged to exactly one purpose; by purpose they sum to backed()
//   K9  backed() + promised() <= limit(), but while a limit that fell is being made true
//
// Life of a byte: Promise::take (may be refused) -> the port backs it -> Charge::absorb (cannot fail) -> Charge::move, when it
// comes to serve another purpose -> Charge::give_back. A Promise or Charge that is destroyed returns what it holds. Only the owner
// thread calls any of this.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/units.h"

namespace quire::kv {

// Whether there was room. No space is an expected answer, not an error.
enum class [[nodiscard]] Space { kOk, kNoSpace };

// In the order in which a granule that serves several is charged: to the first.
enum class Purpose {
  kLive,        // tiles that one running sequence reads
  kShared,      // tiles that several running sequences read
  kCached,      // tiles that no running sequence reads, kept for those to come
  kWarm,        // backed memory of segments that holds nothing: the next tiles there cost no page faults
  kPageTables,  // the kernel's own memory for all of them
};
inline constexpr size_t kPurposes = 5;

// The purpose's name in snake case, stable: "live", "shared", "cached", "warm", "page_tables".
[[nodiscard]] const char* to_string(Purpose purpose);

class Budget {
 public:
  explicit Budget(Bytes limit);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  // Every Promise and Charge is gone by then; otherwise it is a bug.
  ~Budget();

  [[nodiscard]] Bytes limit() const { return limit_; }
  // May fall below what is backed; then nothing is promised until enough was given back.
  void set_limit(Bytes limit);
  [[nodiscard]] Bytes backed() const;
  [[nodiscard]] Bytes backed(Purpose purpose) const { return backed_[static_cast<size_t>(purpose)]; }
  [[nodiscard]] Bytes promised() const { return promised_; }
  // Negative while more is backed than a limit that fell allows.
  [[nodiscard]] Bytes available() const { return limit_ - backed() - promised_; }

  // Empty when the ledgers are sound, otherwise what is not, with the values. K9's inequality is not asked: see set_limit().
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
  // A Promise that is assigned to first returns what it holds; one that was moved from holds nothing.
  Promise(Promise&& other) noexcept;
  Promise& operator=(Promise&& other) noexcept;
  ~Promise();

  // Promises `bytes` >= 0 more, all of them or none. There is always room for 0.
  Space take(Bytes bytes);
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  friend class Charge;

  Budget* budget_;
  Bytes bytes_;
};

// Backed bytes of one holder, by purpose.
class Charge {
 public:
  explicit Charge(Budget& budget) : budget_(&budget) {}
  // As with Promise.
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

  [[nodiscard]] Bytes bytes(Purpose purpose) const { return bytes_[static_cast<size_t>(purpose)]; }
  [[nodiscard]] Budget& budget() const { return *budget_; }
  // The promised bytes are backed now. `promise` holds at least as many.
  void absorb(Promise& promise, Purpose purpose, Bytes bytes);
  // The bytes serve `to` from now on. At most bytes(from).
  void move(Purpose from, Purpose to, Bytes bytes);
  // The bytes are not backed any more. At most bytes(purpose).
  void give_back(Purpose purpose, Bytes bytes);

 private:
  void add(Purpose purpose, Bytes bytes);
  void return_all();

  Budget* budget_;
  std::array<Bytes, kPurposes> bytes_;
};

}  // namespace quire::kv
