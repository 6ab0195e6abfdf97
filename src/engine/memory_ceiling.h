// How much memory the KV cache may take: what the machine and the control group leave, asked again and again while it runs.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "port/vm.h"

namespace quire::engine {

// Where the numbers come from.
struct MemorySource {
  std::function<std::optional<Bytes>()> left;  // what the process can still take; nothing: no bound is known
  std::function<Bytes()> resident;             // what it has
  std::function<double()> pressure;            // port::memory_pressure
};
[[nodiscard]] MemorySource this_process();

// Memory that is nobody's: texts, tokens, threads, the tables of the system. The KV cache leaves it alone at the start. While it
// runs, a part of it has been taken; it leaves the rest.
inline constexpr Bytes kMemoryMargin(int64_t{16} << 20);
inline constexpr Bytes kRunningMargin(int64_t{8} << 20);

// What a budget of its own choice leaves beside that: on a machine with much memory the others' needs vary more.
[[nodiscard]] constexpr Bytes automatic_margin(Bytes left) { return Bytes(left.value / 20); }

// From this share of time lost for want of memory on, in percent, a cache does not grow: what the system counts as left is then not
// to be had at a bearable price.
inline constexpr double kHighPressure = 10;

// allowed = left + held by the cache - working memory that is not touched yet - margins, at least 0; never above a limit that was
// asked for, nor, under high pressure, above what is held.
class MemoryCeiling {
 public:
  // `working`: bytes of the process that are reserved and that passes touch later. To be made before they do: what the process has
  // now beside `held` is the beginning from which their touching is told. `asked`: the limit, nothing: all that there is.
  MemoryCeiling(MemorySource source, Bytes working, Bytes held, std::optional<Bytes> asked);

  // The bytes that a cache which holds `held` may hold.
  [[nodiscard]] Bytes now(Bytes held) const;
  // The same before anything runs: kMemoryMargin is left.
  [[nodiscard]] Bytes at_start() const;

 private:
  [[nodiscard]] Bytes allowed(Bytes held, Bytes margin) const;

  MemorySource source_;
  Bytes working_;
  std::optional<Bytes> asked_;
  Bytes resident_before_;
};

// The most addresses, up to `most`, that the port hands out at once now: fewer than the machine has memory for where reserving is
// not free (RLIMIT_AS, overcommit_memory=2). Found by reserving and releasing.
[[nodiscard]] Bytes reservable(port::Vm& vm, Bytes most);

}  // namespace quire::engine
