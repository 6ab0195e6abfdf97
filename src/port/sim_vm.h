// Virtual memory in simulation: arithmetic over granules, with a limit on what may be backed at once. With `real_memory` the backed
// bytes can be read and written too; there memory that was never backed or was given back holds garbage, so that whoever reads it
// shows (POSIX would give zeros). Real memory is taken when it is reserved, so at most 1 GiB of it can be. Where a reservation lies
// beside the page tables' borders is the same in every run, with memory or without.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "port/vm.h"

namespace quire::port {

struct SimVmOptions {
  Bytes granule{4096};
  Bytes physical_limit{INT64_MAX};        // what may be backed at once over all reservations; beyond it back() is refused
  Bytes virtual_limit{INT64_C(1) << 40};  // what may be reserved at once; beyond it reserve() is an error
  bool real_memory = false;
};

// What the port was asked for and what is held now. All zeros at the end but for the calls: nothing leaked.
struct SimVmCounters {
  Bytes reserved;
  Bytes backed;
  Bytes peak_backed;
  int64_t reservations = 0;
  int64_t back_calls = 0;
  int64_t give_back_calls = 0;
};

class SimVm final : public Vm {
 public:
  explicit SimVm(const SimVmOptions& options = {});
  ~SimVm() override;

  [[nodiscard]] const SimVmCounters& counters() const { return counters_; }
  // The limit may fall below what is backed: then nothing more is backed until enough was given back.
  void set_physical_limit(Bytes limit) { options_.physical_limit = limit; }

  [[nodiscard]] Bytes granule() const override { return options_.granule; }
  // As if pages had eight-byte entries, in tables of one granule.
  [[nodiscard]] PageTables page_tables() const override;
  [[nodiscard]] bool has_memory() const override { return options_.real_memory; }
  [[nodiscard]] Result<Reservation> reserve(Bytes bytes) override;
  // Refused, it has backed what came before the limit, as the kernel does.
  [[nodiscard]] Result<Backing> back(const Reservation& reservation, VmRange range) override;
  void give_back(const Reservation& reservation, VmRange range) override;
  [[nodiscard]] Bytes query(const Reservation& reservation, VmRange range) const override;
  void release(Reservation&& reservation) override;

 private:
  struct Area {
    struct Free {
      void operator()(std::byte* block) const { std::free(block); }
    };
    std::vector<bool> backed;                 // by granule
    std::unique_ptr<std::byte, Free> memory;  // where has_memory()
  };

  [[nodiscard]] Area& area(const Reservation& reservation);
  [[nodiscard]] const Area& area(const Reservation& reservation) const;

  SimVmOptions options_;
  SimVmCounters counters_;
  uint64_t next_base_;
  std::map<const std::byte*, Area> areas_;  // by base
};

static_assert(VmPort<SimVm>);

}  // namespace quire::port
