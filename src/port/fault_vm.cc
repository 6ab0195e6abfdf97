#include "port/fault_vm.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::port {

bool FaultyVm::fails() {
  const int64_t call = calls_++;
  return plan_ && (call == plan_->nth_call || (plan_->forever && call > plan_->nth_call));
}

Result<Reservation> FaultyVm::reserve(Bytes bytes) {
  if (fails())
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("cannot reserve {} of addresses (a planned fault)", format_bytes(bytes)));
  return inner_.reserve(bytes);
}

Result<Backing> FaultyVm::back(const Reservation& reservation, VmRange range) {
  if (!fails()) return inner_.back(reservation, range);
  const Result<Backing> partly = inner_.back(reservation, {range.offset, std::min(range.length, granule())});
  if (!partly.ok()) return partly.error();
  if (plan_->kind == FaultKind::kError) return make_error(ErrorCode::kIo, "backing memory (a planned fault)");
  return Backing::kNoMemory;
}

}  // namespace quire::port
