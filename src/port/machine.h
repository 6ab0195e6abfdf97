// What the machine has and allows: cores and memory, as the kernel, the affinity mask and the control groups (v1 and v2, with all
// parents) say. The parsers are pure functions over the text of files of /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace quire::port {

// Cores that this process can keep busy: those of its affinity mask, or fewer where a control group's CPU quota allows fewer
// (rounded down: a team that is throttled in the middle of its work waits for its slowest). At least 1.
[[nodiscard]] int usable_cores();

// MemAvailable: what can be had without swapping. Nothing where /proc does not say.
[[nodiscard]] std::optional<Bytes> available_memory();

// The machine's memory. Nothing where /proc does not say.
[[nodiscard]] std::optional<Bytes> total_memory();

// The least limit on memory that this process's control group and its parents set (memory.max, memory.high, limit_in_bytes), and
// what is used of the group that sets it, without the file pages that the kernel takes back when they are needed. Of several limits
// the one with the least room. Nothing without a limit. Beyond it the kernel kills.
struct GroupMemory {
  Bytes limit;
  Bytes used;
};
[[nodiscard]] std::optional<GroupMemory> group_memory();

// What this process can still take: available_memory(), or less where its control group's limit leaves less.
[[nodiscard]] std::optional<Bytes> memory_left();

// The share of the last ten seconds, in percent, in which all work stood still for want of memory: the machine's, or this process's
// control group's (v2) where that is more. 0 where the kernel does not say.
[[nodiscard]] double memory_pressure();

// The unit in which the system backs memory.
[[nodiscard]] Bytes page_bytes();

// This process: resident now, the largest it ever was, and its page tables. Zeros where /proc does not say.
struct ProcessMemory {
  Bytes resident;
  Bytes peak_resident;
  Bytes page_tables;
};
[[nodiscard]] ProcessMemory process_memory();

// --- Parsers ---

// The number of a line "name:   123 kB" of /proc/meminfo or /proc/self/status, in bytes.
[[nodiscard]] std::optional<Bytes> parse_kilobytes(std::string_view text, std::string_view name);

// The number of a line "name 123" of a control group's memory.stat.
[[nodiscard]] std::optional<Bytes> parse_stat(std::string_view text, std::string_view name);

// "avg10" of the line "full ..." of /proc/pressure/memory or a control group's memory.pressure.
[[nodiscard]] std::optional<double> parse_pressure(std::string_view text);

// A memory limit of a control group: "max" and the huge numbers with which v1 says the same are no limit.
[[nodiscard]] std::optional<Bytes> parse_memory_limit(std::string_view text);

// Cores of a v2 quota, "150000 100000" (1.5) or "max 100000" (no limit).
[[nodiscard]] std::optional<double> parse_cpu_max(std::string_view text);

// Cores of a v1 quota: cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us.
[[nodiscard]] std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us);

enum class GroupVersion { kV1, kV2 };

// The directories of this process's control group for `controller` ("memory", "cpu"), from its own up to the root of what is
// mounted here. Texts of /proc/self/cgroup and /proc/self/mountinfo. Empty when that version is not mounted.
[[nodiscard]] std::vector<std::string> group_directories(std::string_view self_cgroup, std::string_view mountinfo,
                                                         GroupVersion version, std::string_view controller);

}  // namespace quire::port
