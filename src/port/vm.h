// Virtual memory: the contract between those who hold KV (ids and bytes) and who provides it. Implementations: PosixVm
// (port/posix_vm.h), SimVm (port/sim_vm.h), and FaultyVm (port/fault_vm.h), a stage around another that makes its Nth call fail.
// tests/conformance/vm_port_test.cc holds them to this text.
//
// Life of memory:   reserve -> [ back <-> give_back ]* -> release
//
//   reserved    addresses that nobody else gets; they hold nothing and cost nothing but addresses
//   backed      physical memory stands behind a granule; it can be read and written, and was zero when it was backed
//   given back  reserved again; the content is gone
//
// Preconditions, for every call that takes them: the reservation came from this port and was not released; the range lies inside it
// and begins and ends at a multiple of granule(). Breaking one is a bug (a failed check). Memory that is not backed is never read
// or written: POSIX would give zeros and quietly take memory for them, others would fault.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/units.h"

namespace quire::port {

// What became of a wish for memory. No memory is an expected answer, not an error.
enum class [[nodiscard]] Backing {
  kBacked,    // the whole range is backed
  kNoMemory,  // refused; see Vm::back
};

// Bytes [offset, offset + length) of a reservation.
struct VmRange {
  Bytes offset;
  Bytes length;
};

class Vm;

// The right to a range of addresses, and the only way to return it: release() consumes it. Dropping one that was not released is a
// bug (a failed check), because nobody else knows the range.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : port_(std::exchange(other.port_, nullptr)),
        base_(std::exchange(other.base_, nullptr)),
        bytes_(std::exchange(other.bytes_, {})) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(port_, other.port_);
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reservation() { QUIRE_CHECK(port_ == nullptr, "a reservation was dropped without release()"); }

  [[nodiscard]] bool empty() const { return port_ == nullptr; }
  // The first byte, a multiple of granule(). May be dereferenced where Vm::has_memory() says so.
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  // Who made it and can release it.
  [[nodiscard]] const Vm* port() const { return port_; }

 private:
  friend class Vm;

  const Vm* port_ = nullptr;
  std::byte* base_ = nullptr;
  Bytes bytes_;
};

// The kernel's own memory for the mapping: a table of `table` bytes for each `reach` bytes of addresses (aligned) in which
// something was ever backed. It lives until release(), giving back does not return it. A port without such tables has a table of 0
// bytes.
struct PageTables {
  Bytes reach;
  Bytes table;
};

class Vm {
 public:
  virtual ~Vm() = default;
  Vm(const Vm&) = delete;
  Vm& operator=(const Vm&) = delete;

  // The unit of physical memory; a power of two.
  [[nodiscard]] virtual Bytes granule() const = 0;
  [[nodiscard]] virtual PageTables page_tables() const = 0;
  // Whether backed bytes can really be read and written (a simulation may only count).
  [[nodiscard]] virtual bool has_memory() const = 0;

  // Reserves `bytes` > 0 (rounded up to granules), none of them backed. An error gives the numbers and what to do.
  [[nodiscard]] virtual Result<Reservation> reserve(Bytes bytes) = 0;

  // Backs the range; granules that are backed already keep their content. After kNoMemory or an error each granule of the range
  // that was not backed before may be backed or not: the caller gives back those that it does not want to keep. May be called by
  // helper threads for different ranges at the same time.
  [[nodiscard]] virtual Result<Backing> back(const Reservation& reservation, VmRange range) = 0;

  // Gives the range's physical memory back, whether backed or not. Cannot fail.
  virtual void give_back(const Reservation& reservation, VmRange range) = 0;

  // How much of the range is backed, as whoever provides the memory says (never from own bookkeeping, where there is an authority).
  [[nodiscard]] virtual Bytes query(const Reservation& reservation, VmRange range) const = 0;

  // Gives back everything, the addresses too. Cannot fail.
  virtual void release(Reservation&& reservation) = 0;

 protected:
  Vm() = default;

  // For implementations: makes and dissolves tokens, and checks the preconditions.
  [[nodiscard]] Reservation make_reservation(std::byte* base, Bytes bytes) const;
  static void dissolve(Reservation& reservation);
  void check_mine(const Reservation& reservation) const;
  void check_range(const Reservation& reservation, VmRange range) const;
};

// What an implementation offers to those who hold its own type: everything of the contract.
template <typename Port>
concept VmPort =
    std::derived_from<Port, Vm> &&
    requires(Port port, const Port const_port, Bytes bytes, const Reservation& reservation, Reservation token, VmRange range) {
      { const_port.granule() } -> std::same_as<Bytes>;
      { const_port.page_tables() } -> std::same_as<PageTables>;
      { const_port.has_memory() } -> std::same_as<bool>;
      { port.reserve(bytes) } -> std::same_as<Result<Reservation>>;
      { port.back(reservation, range) } -> std::same_as<Result<Backing>>;
      { port.give_back(reservation, range) } -> std::same_as<void>;
      { const_port.query(reservation, range) } -> std::same_as<Bytes>;
      { port.release(std::move(token)) } -> std::same_as<void>;
    } && !std::is_abstract_v<Port>;

}  // namespace quire::port
