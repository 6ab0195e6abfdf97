// Virtual memory of the host: one anonymous private mapping a reservation, backed page by page.
//
//   reserve    mmap MAP_NORESERVE, MADV_NOHUGEPAGE (khugepaged must not back what was given back), MADV_DONTDUMP (prompts stay out
//   of
//              core dumps). One VMA whatever is backed in it, so that vm.max_map_count is no limit.
//   back       MADV_POPULATE_WRITE (Linux 5.14): the page faults happen here and not when a kernel touches the memory.
//   give_back  MADV_DONTNEED; the page tables stay until release.
//   query      /proc/self/pagemap (present or swapped out); mincore where that cannot be read.
//
// Inside a memory control group the kernel kills instead of refusing, so a budget is decided from its limit (port/machine.h), never
// by trying.
#pragma once

#include "port/vm.h"

namespace quire::port {

class PosixVm final : public Vm {
 public:
  PosixVm();
  ~PosixVm() override;

  [[nodiscard]] Bytes granule() const override { return page_; }
  [[nodiscard]] PageTables page_tables() const override;
  [[nodiscard]] bool has_memory() const override { return true; }
  [[nodiscard]] Result<Reservation> reserve(Bytes bytes) override;
  [[nodiscard]] Result<Backing> back(const Reservation& reservation, VmRange range) override;
  void give_back(const Reservation& reservation, VmRange range) override;
  [[nodiscard]] Bytes query(const Reservation& reservation, VmRange range) const override;
  void release(Reservation&& reservation) override;

 private:
  Bytes page_;
  int pagemap_;  // file descriptor, -1 where the system does not give it
};

static_assert(VmPort<PosixVm>);

// Whether this process may reserve `virtual_bytes` of addresses without paying for them: not under overcommit_memory=2 (reserving
// counts as using) nor under an address space limit (RLIMIT_AS) that they exceed. Asks the system by reserving and releasing them.
[[nodiscard]] bool reserving_is_free(Bytes virtual_bytes);

}  // namespace quire::port
