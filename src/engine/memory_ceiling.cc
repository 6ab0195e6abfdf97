#include "engine/memory_ceiling.h"

#include <algorithm>
#include <utility>

#include "port/machine.h"

namespace quire::engine {
namespace {

bool can_reserve(port::Vm& vm, Bytes bytes) {
  Result<port::Reservation> reservation = vm.reserve(bytes);
  if (!reservation.ok()) return false;
  vm.release(std::move(reservation).value());
  return true;
}

}  // namespace

MemorySource this_process() {
  return {.left = port::memory_left, .resident = [] { return port::process_memory().resident; }, .pressure = port::memory_pressure};
}

MemoryCeiling::MemoryCeiling(MemorySource source, Bytes working, Bytes held, std::optional<Bytes> asked)
    : source_(std::move(source)), working_(working), asked_(asked), resident_before_(source_.resident() - held) {}

Bytes MemoryCeiling::now(Bytes held) const {
  const Bytes most = allowed(held, kRunningMargin);
  return source_.pressure() >= kHighPressure ? std::min(most, held) : most;
}

Bytes MemoryCeiling::at_start() const { return allowed(Bytes(0), kMemoryMargin); }

Bytes MemoryCeiling::allowed(Bytes held, Bytes margin) const {
  const Bytes most = asked_.value_or(Bytes(INT64_MAX));
  const std::optional<Bytes> left = source_.left();
  if (!left) return most;
  const Bytes touched = std::clamp(source_.resident() - held - resident_before_, Bytes(0), working_);
  const Bytes all = *left + held - (working_ - touched);
  if (!asked_) margin += automatic_margin(all);
  return std::clamp(all - margin, Bytes(0), most);
}

Bytes reservable(port::Vm& vm, Bytes most) {
  if (can_reserve(vm, most)) return most;
  constexpr Bytes kExactly(int64_t{1} << 20);
  Bytes works;
  Bytes fails = most;
  while (fails - works > kExactly) {
    const Bytes middle(works.value + (fails.value - works.value) / 2);
    (can_reserve(vm, middle) ? works : fails) = middle;
  }
  return works;
}

}  // namespace quire::engine
