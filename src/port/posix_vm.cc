#include "port/posix_vm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "port/file.h"
#include "port/machine.h"

// Linux 5.14's; Debian 12's headers have it, older ones that build for newer kernels do not.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace quire::port {
namespace {

// A kernel page table maps 512 pages of eight-byte entries on x86-64 and AArch64 with 4 KiB pages: one page of entries.
constexpr int64_t kTableEntryBytes = 8;

void* map_reserved(Bytes bytes) {
  return ::mmap(nullptr, static_cast<size_t>(bytes.value), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
}

Error reserve_error(Bytes bytes, int error_number) {
  if (error_number != ENOMEM) {
    return make_error(ErrorCode::kIo,
                      fmt::format("reserving {} of addresses: {}", format_bytes(bytes), std::strerror(error_number)));
  }
  struct rlimit limit {};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string why =
      limited ? fmt::format("this process may have {} of them (ulimit -v): raise that limit, or ask for a shorter context",
                            format_bytes(Bytes(static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)))))
              : std::string("the system has no more: set vm.overcommit_memory to 0 or 1, or ask for a shorter context");
  return make_error(ErrorCode::kOutOfMemory, fmt::format("cannot reserve {} of addresses; {}", format_bytes(bytes), why));
}

// Pages of [address, address + bytes) that hold memory, by the page map: bit 63 present, bit 62 swapped out.
// Documentation: Linux, admin-guide/mm/pagemap.rst. Nothing when it cannot be read.
bool count_by_pagemap(int pagemap, uintptr_t address, Bytes bytes, int64_t page, int64_t& backed) {
  std::array<uint64_t, 1024> entries;
  uint64_t next = address / static_cast<uint64_t>(page);
  const uint64_t end = next + static_cast<uint64_t>(bytes.value / page);
  backed = 0;
  while (next < end) {
    const size_t wanted = std::min<uint64_t>(entries.size(), end - next) * sizeof(uint64_t);
    const ssize_t got = ::pread(pagemap, entries.data(), wanted, static_cast<off_t>(next * sizeof(uint64_t)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const size_t count = static_cast<size_t>(got) / sizeof(uint64_t);
    backed +=
        std::count_if(entries.begin(), entries.begin() + static_cast<int64_t>(count), [](uint64_t e) { return (e >> 62) != 0; });
    next += count;
  }
  return true;
}

int64_t count_by_mincore(std::byte* address, Bytes bytes, int64_t page) {
  std::vector<unsigned char> in_core(static_cast<size_t>(bytes.value / page));
  while (::mincore(address, static_cast<size_t>(bytes.value), in_core.data()) != 0) {
    QUIRE_CHECK(errno == EAGAIN, std::strerror(errno));
  }
  return std::count_if(in_core.begin(), in_core.end(), [](unsigned char state) { return (state & 1) != 0; });
}

}  // namespace

PosixVm::PosixVm() : page_(page_bytes()), pagemap_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

PosixVm::~PosixVm() {
  if (pagemap_ >= 0) ::close(pagemap_);
}

PageTables PosixVm::page_tables() const { return {.reach = Bytes(page_.value / kTableEntryBytes * page_.value), .table = page_}; }

Result<Reservation> PosixVm::reserve(Bytes bytes) {
  QUIRE_CHECK(bytes.value > 0);
  const Bytes rounded(round_up(std::min(bytes.value, INT64_MAX - page_.value), page_.value));
  void* address = map_reserved(rounded);
  if (address == MAP_FAILED) return reserve_error(rounded, errno);
  // Kernels built without huge pages refuse the advice, and need none.
  (void)::madvise(address, static_cast<size_t>(rounded.value), MADV_NOHUGEPAGE);
  (void)::madvise(address, static_cast<size_t>(rounded.value), MADV_DONTDUMP);
  return make_reservation(static_cast<std::byte*>(address), rounded);
}

Result<Backing> PosixVm::back(const Reservation& reservation, VmRange range) {
  check_range(reservation, range);
  while (range.length.value > 0) {
    if (::madvise(reservation.base() + range.offset.value, static_cast<size_t>(range.length.value), MADV_POPULATE_WRITE) == 0)
      break;
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == ENOMEM || errno == EFAULT) return Backing::kNoMemory;
    const char* advice = errno == EINVAL ? "; Linux 5.14 or newer is needed (MADV_POPULATE_WRITE)" : "";
    return make_error(errno == EINVAL ? ErrorCode::kUnsupported : ErrorCode::kIo,
                      fmt::format("backing {} of memory: {}{}", format_bytes(range.length), std::strerror(errno), advice));
  }
  return Backing::kBacked;
}

void PosixVm::give_back(const Reservation& reservation, VmRange range) {
  check_range(reservation, range);
  if (range.length.value == 0) return;
  const int result = ::madvise(reservation.base() + range.offset.value, static_cast<size_t>(range.length.value), MADV_DONTNEED);
  QUIRE_CHECK(result == 0, std::strerror(errno));
}

Bytes PosixVm::query(const Reservation& reservation, VmRange range) const {
  check_range(reservation, range);
  if (range.length.value == 0) return Bytes(0);
  std::byte* address = reservation.base() + range.offset.value;
  int64_t backed = 0;
  if (pagemap_ < 0 || !count_by_pagemap(pagemap_, reinterpret_cast<uintptr_t>(address), range.length, page_.value, backed)) {
    backed = count_by_mincore(address, range.length, page_.value);
  }
  return page_ * backed;
}

void PosixVm::release(Reservation&& reservation) {
  check_mine(reservation);
  const int result = ::munmap(reservation.base(), static_cast<size_t>(reservation.bytes().value));
  QUIRE_CHECK(result == 0, std::strerror(errno));
  dissolve(reservation);
}

bool reserving_is_free(Bytes virtual_bytes) {
  QUIRE_CHECK(virtual_bytes.value > 0);
  const Result<std::string> overcommit = read_file("/proc/sys/vm/overcommit_memory", Bytes(64));
  if (overcommit.ok() && overcommit->starts_with('2')) return false;
  void* address = map_reserved(virtual_bytes);
  if (address == MAP_FAILED) return false;
  ::munmap(address, static_cast<size_t>(virtual_bytes.value));
  return true;
}

}  // namespace quire::port
