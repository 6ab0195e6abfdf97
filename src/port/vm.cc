#include "port/vm.h"

#include <fmt/format.h>

namespace quire::port {

Reservation Vm::make_reservation(std::byte* base, Bytes bytes) const {
  Reservation reservation;
  reservation.port_ = this;
  reservation.base_ = base;
  reservation.bytes_ = bytes;
  return reservation;
}

void Vm::dissolve(Reservation& reservation) {
  reservation.port_ = nullptr;
  reservation.base_ = nullptr;
  reservation.bytes_ = Bytes(0);
}

void Vm::check_mine(const Reservation& reservation) const {
  QUIRE_CHECK(reservation.port() == this, reservation.empty() ? "an empty reservation" : "a reservation of another port");
}

void Vm::check_range(const Reservation& reservation, VmRange range) const {
  check_mine(reservation);
  const int64_t unit = granule().value;
  const bool inside = range.offset.value >= 0 && range.length.value >= 0 && range.offset <= reservation.bytes() &&
                      range.length <= reservation.bytes() - range.offset;
  QUIRE_CHECK(inside && range.offset.value % unit == 0 && range.length.value % unit == 0,
              fmt::format("range [{}, +{}) of {} bytes in granules of {}", range.offset.value, range.length.value,
                          reservation.bytes().value, unit));
}

}  // namespace quire::port
