#include "port/sim_vm.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::port {
namespace {

// Where simulated addresses begin. User programs never have a mapping there (x86-64 and AArch64 give them 47 and 48 bits, from the
// bottom up), so that a stray access faults.
constexpr uint64_t kFirstSimulatedBase = uint64_t{1} << 56;
constexpr Bytes kMaxRealMemory{1 << 30};
constexpr auto kGarbage = std::byte{0xDB};
constexpr int64_t kTableEntryBytes = 8;

}  // namespace

SimVm::SimVm(const SimVmOptions& options) : options_(options), next_base_(kFirstSimulatedBase) {
  if (options.real_memory) options_.virtual_limit = std::min(options.virtual_limit, kMaxRealMemory);
  QUIRE_CHECK(options.granule.value >= 64 && (options.granule.value & (options.granule.value - 1)) == 0);
}

SimVm::~SimVm() { QUIRE_CHECK(areas_.empty(), fmt::format("{} reservations outlive their port", areas_.size())); }

PageTables SimVm::page_tables() const {
  return {.reach = Bytes(options_.granule.value / kTableEntryBytes * options_.granule.value), .table = options_.granule};
}

Result<Reservation> SimVm::reserve(Bytes bytes) {
  QUIRE_CHECK(bytes.value > 0);
  const int64_t unit = options_.granule.value;
  const Bytes rounded(round_up(std::min(bytes.value, INT64_MAX - unit), unit));
  if (rounded > options_.virtual_limit - counters_.reserved) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("cannot reserve {} of addresses; {} of {} are reserved", format_bytes(rounded),
                                  format_bytes(counters_.reserved), format_bytes(options_.virtual_limit)));
  }
  Area made;
  made.backed.resize(static_cast<size_t>(rounded.value / unit));
  std::byte* base = nullptr;
  if (options_.real_memory) {
    const int64_t reach = page_tables().reach.value;
    const auto offset = static_cast<int64_t>(next_base_ % static_cast<uint64_t>(reach));
    const int64_t block = round_up(offset + rounded.value, reach);
    made.memory.reset(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(reach), static_cast<size_t>(block))));
    QUIRE_CHECK(made.memory != nullptr, "the machine has the memory that is simulated");
    base = made.memory.get() + offset;
    std::fill_n(base, rounded.value, kGarbage);
  } else {
    base = reinterpret_cast<std::byte*>(next_base_);
  }
  next_base_ += static_cast<uint64_t>(rounded.value + unit);
  areas_.emplace(base, std::move(made));
  counters_.reserved += rounded;
  counters_.reservations += 1;
  return make_reservation(base, rounded);
}

Result<Backing> SimVm::back(const Reservation& reservation, VmRange range) {
  check_range(reservation, range);
  Area& target = area(reservation);
  const Bytes unit = options_.granule;
  counters_.back_calls += 1;
  for (Bytes offset = range.offset; offset < range.offset + range.length; offset += unit) {
    const auto index = static_cast<size_t>(offset.value / unit.value);
    if (target.backed[index]) continue;
    if (counters_.backed + unit > options_.physical_limit) return Backing::kNoMemory;
    target.backed[index] = true;
    counters_.backed += unit;
    counters_.peak_backed = std::max(counters_.peak_backed, counters_.backed);
    if (options_.real_memory) std::fill_n(reservation.base() + offset.value, unit.value, std::byte{0});
  }
  return Backing::kBacked;
}

void SimVm::give_back(const Reservation& reservation, VmRange range) {
  check_range(reservation, range);
  Area& target = area(reservation);
  const Bytes unit = options_.granule;
  counters_.give_back_calls += 1;
  for (Bytes offset = range.offset; offset < range.offset + range.length; offset += unit) {
    const auto index = static_cast<size_t>(offset.value / unit.value);
    if (!target.backed[index]) continue;
    target.backed[index] = false;
    counters_.backed -= unit;
    if (options_.real_memory) std::fill_n(reservation.base() + offset.value, unit.value, kGarbage);
  }
}

Bytes SimVm::query(const Reservation& reservation, VmRange range) const {
  check_range(reservation, range);
  const auto& backed = area(reservation).backed;
  const auto first = backed.begin() + range.offset.value / options_.granule.value;
  return options_.granule * std::count(first, first + range.length.value / options_.granule.value, true);
}

void SimVm::release(Reservation&& reservation) {
  check_mine(reservation);
  const Area& going = area(reservation);
  counters_.backed -= options_.granule * std::count(going.backed.begin(), going.backed.end(), true);
  counters_.reserved -= reservation.bytes();
  counters_.reservations -= 1;
  areas_.erase(reservation.base());
  dissolve(reservation);
}

SimVm::Area& SimVm::area(const Reservation& reservation) {
  return const_cast<Area&>(static_cast<const SimVm*>(this)->area(reservation));
}

const SimVm::Area& SimVm::area(const Reservation& reservation) const {
  const auto found = areas_.find(reservation.base());
  QUIRE_CHECK(found != areas_.end());
  return found->second;
}

}  // namespace quire::port
