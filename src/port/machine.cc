#include "port/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "port/file.h"

namespace quire::port {
namespace {

constexpr Bytes kMaxProcFile{4 << 20};

// The file's text, empty where it is not there: every caller treats an absent fact as unknown.
std::string text_of(const std::string& path) {
  Result<std::string> text = read_file(path, kMaxProcFile);
  return text.ok() ? std::move(text).value() : std::string();
}

// Cuts off and returns what comes before `separator`, or all the rest.
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return piece;
}

std::optional<int64_t> parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

bool list_contains(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) return true;
  }
  return false;
}

// The path of the group in its hierarchy: a line "4:memory:/path" (v1) or "0::/path" (v2).
std::optional<std::string> group_path(std::string_view self_cgroup, GroupVersion version, std::string_view controller) {
  while (!self_cgroup.empty()) {
    std::string_view line = take_until(self_cgroup, '\n');
    const std::string_view id = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const bool wanted = version == GroupVersion::kV2 ? id == "0" && controllers.empty() : list_contains(controllers, controller);
    if (wanted) return std::string(line);
  }
  return std::nullopt;
}

struct GroupMount {
  std::string root;   // which group the mount point shows
  std::string point;  // where
};

// A line "31 23 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory".
std::optional<GroupMount> group_mount(std::string_view mountinfo, GroupVersion version, std::string_view controller) {
  while (!mountinfo.empty()) {
    std::string_view line = take_until(mountinfo, '\n');
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view system = line.substr(dash + 3);
    const std::string_view type = take_until(system, ' ');
    take_until(system, ' ');
    const bool wanted = version == GroupVersion::kV2 ? type == "cgroup2" : type == "cgroup" && list_contains(system, controller);
    if (!wanted) continue;
    for (int field = 0; field < 3; ++field) take_until(line, ' ');
    const std::string_view root = take_until(line, ' ');
    return GroupMount{std::string(root), std::string(take_until(line, ' '))};
  }
  return std::nullopt;
}

template <typename Visit>
void for_each_group(std::string_view controller, const Visit& visit) {
  const std::string self_cgroup = text_of("/proc/self/cgroup");
  const std::string mountinfo = text_of("/proc/self/mountinfo");
  for (const GroupVersion version : {GroupVersion::kV2, GroupVersion::kV1}) {
    for (const std::string& directory : group_directories(self_cgroup, mountinfo, version, controller)) visit(version, directory);
  }
}

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More cores than the mask has bits for.
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

int usable_cores() {
  double cores = affinity_cores();
  for_each_group("cpu", [&](GroupVersion version, const std::string& directory) {
    const std::optional<double> quota = version == GroupVersion::kV2 ? parse_cpu_max(text_of(directory + "/cpu.max"))
                                                                     : parse_cfs_quota(text_of(directory + "/cpu.cfs_quota_us"),
                                                                                       text_of(directory + "/cpu.cfs_period_us"));
    if (quota) cores = std::min(cores, *quota);
  });
  return std::max(1, static_cast<int>(std::floor(cores)));
}

std::optional<Bytes> available_memory() { return parse_kilobytes(text_of("/proc/meminfo"), "MemAvailable"); }

std::optional<Bytes> total_memory() { return parse_kilobytes(text_of("/proc/meminfo"), "MemTotal"); }

std::optional<GroupMemory> group_memory() {
  std::optional<GroupMemory> tightest;
  const auto consider = [&](const std::string& limit_file, const std::string& usage_file, Bytes reclaimable) {
    const std::optional<Bytes> limit = parse_memory_limit(text_of(limit_file));
    if (!limit) return;
    const Bytes used = std::max(Bytes(0), Bytes(parse_number(text_of(usage_file)).value_or(0)) - reclaimable);
    if (!tightest || *limit - used < tightest->limit - tightest->used) tightest = GroupMemory{*limit, used};
  };
  for_each_group("memory", [&](GroupVersion version, const std::string& directory) {
    const std::string stat = text_of(directory + "/memory.stat");
    if (version == GroupVersion::kV2) {
      const Bytes reclaimable = parse_stat(stat, "inactive_file").value_or(Bytes(0));
      consider(directory + "/memory.max", directory + "/memory.current", reclaimable);
      consider(directory + "/memory.high", directory + "/memory.current", reclaimable);
    } else {
      const Bytes reclaimable = parse_stat(stat, "total_inactive_file").value_or(Bytes(0));
      consider(directory + "/memory.limit_in_bytes", directory + "/memory.usage_in_bytes", reclaimable);
    }
  });
  return tightest;
}

std::optional<Bytes> memory_left() {
  std::optional<Bytes> left = available_memory();
  if (const std::optional<GroupMemory> group = group_memory()) {
    const Bytes in_group = std::max(Bytes(0), group->limit - group->used);
    left = left ? std::min(*left, in_group) : in_group;
  }
  return left;
}

double memory_pressure() {
  double pressure = parse_pressure(text_of("/proc/pressure/memory")).value_or(0);
  for_each_group("memory", [&](GroupVersion version, const std::string& directory) {
    if (version != GroupVersion::kV2) return;
    pressure = std::max(pressure, parse_pressure(text_of(directory + "/memory.pressure")).value_or(0));
  });
  return pressure;
}

Bytes page_bytes() { return Bytes(::sysconf(_SC_PAGESIZE)); }

ProcessMemory process_memory() {
  const std::string status = text_of("/proc/self/status");
  return {.resident = parse_kilobytes(status, "VmRSS").value_or(Bytes(0)),
          .peak_resident = parse_kilobytes(status, "VmHWM").value_or(Bytes(0)),
          .page_tables = parse_kilobytes(status, "VmPTE").value_or(Bytes(0))};
}

std::optional<Bytes> parse_kilobytes(std::string_view text, std::string_view name) {
  constexpr int64_t kLargest = INT64_MAX / 1024;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (take_until(line, ':') != name) continue;
    const std::optional<int64_t> kilobytes = parse_number(line);
    if (!kilobytes || *kilobytes < 0 || *kilobytes > kLargest) return std::nullopt;
    return Bytes(*kilobytes * 1024);
  }
  return std::nullopt;
}

std::optional<Bytes> parse_stat(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
      const std::optional<int64_t> number = parse_number(line.substr(name.size() + 1));
      return number ? std::optional(Bytes(*number)) : std::nullopt;
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return std::nullopt;
}

std::optional<double> parse_pressure(std::string_view text) {
  constexpr std::string_view kBegin = "full avg10=";
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    if (!line.starts_with(kBegin)) continue;
    const std::string_view number = line.substr(kBegin.size());
    double percent = 0;
    const auto [rest, failed] = std::from_chars(number.data(), number.data() + number.size(), percent);
    if (failed != std::errc() || !(percent >= 0 && percent <= 100)) return std::nullopt;
    return percent;
  }
  return std::nullopt;
}

std::optional<Bytes> parse_memory_limit(std::string_view text) {
  // v1 says "no limit" by the largest number of whole pages.
  constexpr int64_t kNoLimit = INT64_MAX / 2;
  const std::optional<int64_t> limit = parse_number(text);
  if (!limit || *limit < 0 || *limit >= kNoLimit) return std::nullopt;
  return Bytes(*limit);
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::string_view quota = take_until(text, ' ');
  return parse_cfs_quota(quota, text);
}

std::optional<double> parse_cfs_quota(std::string_view quota_us, std::string_view period_us) {
  const std::optional<int64_t> quota = parse_number(quota_us);
  const std::optional<int64_t> period = parse_number(period_us);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::vector<std::string> group_directories(std::string_view self_cgroup, std::string_view mountinfo, GroupVersion version,
                                           std::string_view controller) {
  const std::optional<std::string> path = group_path(self_cgroup, version, controller);
  const std::optional<GroupMount> mount = group_mount(mountinfo, version, controller);
  if (!path || !mount) return {};
  // Inside a container the mount shows a part of the hierarchy (root), or the path is seen from outside it ("/../..") and then the
  // mount point itself is the group.
  std::string below = *path;
  if (mount->root != "/") below = below.starts_with(mount->root) ? below.substr(mount->root.size()) : "";
  if (!below.starts_with('/') || below.find("..") != std::string::npos) below.clear();
  std::vector<std::string> directories;
  while (!below.empty() && below != "/") {
    directories.push_back(mount->point + below);
    below.erase(below.rfind('/'));
  }
  directories.push_back(mount->point);
  return directories;
}

}  // namespace quire::port
