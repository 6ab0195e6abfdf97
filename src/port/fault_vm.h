// A stage around another port that makes calls fail: the Nth that can fail, once or from then on. The calls that can fail are
// reserve() and back(). For tests of what happens when memory cannot be had at any moment.
#pragma once

#include <optional>

#include "port/vm.h"

namespace quire::port {

enum class FaultKind {
  kNoMemory,  // back() answers kNoMemory, reserve() an error
  kError,     // both answer an error
};

struct FaultPlan {
  int64_t nth_call = 0;  // the first failing call, counted from 0
  bool forever = false;  // that call and all later ones
  FaultKind kind = FaultKind::kNoMemory;
};

class FaultyVm final : public Vm {
 public:
  // `inner` must outlive this. Without a plan nothing fails.
  explicit FaultyVm(Vm& inner, std::optional<FaultPlan> plan = {}) : inner_(inner), plan_(plan) {}

  // Calls so far that could fail: when a run with the plan "call N" ends with N or fewer, the plan touched nothing.
  [[nodiscard]] int64_t calls() const { return calls_; }

  [[nodiscard]] Bytes granule() const override { return inner_.granule(); }
  [[nodiscard]] PageTables page_tables() const override { return inner_.page_tables(); }
  [[nodiscard]] bool has_memory() const override { return inner_.has_memory(); }
  [[nodiscard]] Result<Reservation> reserve(Bytes bytes) override;
  // A failing call backs the first granule of the range all the same: the contract lets it, and so does the kernel.
  [[nodiscard]] Result<Backing> back(const Reservation& reservation, VmRange range) override;
  void give_back(const Reservation& reservation, VmRange range) override { inner_.give_back(reservation, range); }
  [[nodiscard]] Bytes query(const Reservation& reservation, VmRange range) const override {
    return inner_.query(reservation, range);
  }
  void release(Reservation&& reservation) override { inner_.release(std::move(reservation)); }

 private:
  // Counts the call and says whether it fails.
  bool fails();

  Vm& inner_;
  std::optional<FaultPlan> plan_;
  int64_t calls_ = 0;
};

static_assert(VmPort<FaultyVm>);

}  // namespace quire::port
