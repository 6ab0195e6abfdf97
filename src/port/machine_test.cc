#include "port/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace quire::port {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Machine, ReadsAControlGroupsStatistics) {
  const std::string_view text = "cache 7\ninactive_file 4096\ntotal_inactive_file 8192\nbroken x\n";
  EXPECT_EQ(parse_stat(text, "inactive_file"), Bytes(4096));
  EXPECT_EQ(parse_stat(text, "total_inactive_file"), Bytes(8192));
  EXPECT_EQ(parse_stat(text, "inactive"), std::nullopt);
  EXPECT_EQ(parse_stat(text, "broken"), std::nullopt);
  EXPECT_EQ(parse_stat("", "cache"), std::nullopt);
}

TEST(Machine, ParsesPressure) {
  const std::string text =
      "some avg10=12.50 avg60=0.00 avg300=0.00 total=12966\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=2981\n";
  EXPECT_EQ(parse_pressure(text), 3.25);
  EXPECT_EQ(parse_pressure("some avg10=12.50 avg60=0.00\n"), std::nullopt);
  EXPECT_EQ(parse_pressure("full avg10=much\n"), std::nullopt);
  EXPECT_EQ(parse_pressure("full avg10=101\n"), std::nullopt);
  EXPECT_EQ(parse_pressure("full avg10="), std::nullopt);
  EXPECT_EQ(parse_pressure(""), std::nullopt);
}

TEST(Machine, PressureIsAShare) {
  EXPECT_GE(memory_pressure(), 0);
  EXPECT_LE(memory_pressure(), 100);
}

TEST(Machine, ParsesKilobytes) {
  const std::string text = "MemTotal:       24684040 kB\nMemFree:        23166312 kB\nMemAvailable:   24178000 kB\n";
  EXPECT_EQ(parse_kilobytes(text, "MemAvailable"), Bytes(24178000LL * 1024));
  EXPECT_EQ(parse_kilobytes("VmHWM:\t    1024 kB\n", "VmHWM"), Bytes(1 << 20));
  EXPECT_EQ(parse_kilobytes(text, "Mem"), std::nullopt);
  EXPECT_EQ(parse_kilobytes("", "MemTotal"), std::nullopt);
  EXPECT_EQ(parse_kilobytes("MemTotal: many kB", "MemTotal"), std::nullopt);
  EXPECT_EQ(parse_kilobytes("MemTotal: -5 kB", "MemTotal"), std::nullopt);
  EXPECT_EQ(parse_kilobytes("MemTotal: 9223372036854775807 kB", "MemTotal"), std::nullopt);
}

TEST(Machine, ParsesMemoryLimits) {
  EXPECT_EQ(parse_memory_limit("536870912\n"), Bytes(512 << 20));
  EXPECT_EQ(parse_memory_limit("0\n"), Bytes(0));
  EXPECT_EQ(parse_memory_limit("max\n"), std::nullopt);
  EXPECT_EQ(parse_memory_limit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(parse_memory_limit("-1\n"), std::nullopt);
  EXPECT_EQ(parse_memory_limit(""), std::nullopt);
}

TEST(Machine, ParsesCpuQuotas) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("150000"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("400000\n", "100000\n"), 4.0);
  EXPECT_EQ(parse_cfs_quota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(parse_cfs_quota("100000\n", "0\n"), std::nullopt);
}

constexpr char kMountInfoV1[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr char kSelfV1[] = "4:memory:/service/worker\n1:cpu,cpuacct:/\n0::/\n";

TEST(Machine, FindsV1GroupsWithTheirParents) {
  EXPECT_THAT(group_directories(kSelfV1, kMountInfoV1, GroupVersion::kV1, "memory"),
              ElementsAre("/sys/fs/cgroup/memory/service/worker", "/sys/fs/cgroup/memory/service", "/sys/fs/cgroup/memory"));
  EXPECT_THAT(group_directories(kSelfV1, kMountInfoV1, GroupVersion::kV1, "cpu"), ElementsAre("/sys/fs/cgroup/cpu,cpuacct"));
  EXPECT_THAT(group_directories(kSelfV1, kMountInfoV1, GroupVersion::kV2, "memory"), ElementsAre("/sys/fs/cgroup/unified"));
  EXPECT_THAT(group_directories(kSelfV1, kMountInfoV1, GroupVersion::kV1, "cpuset"), IsEmpty());
}

TEST(Machine, FindsV2GroupsWithTheirParents) {
  const char mounts[] = "25 30 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
  EXPECT_THAT(group_directories("0::/user.slice/app.scope\n", mounts, GroupVersion::kV2, "memory"),
              ElementsAre("/sys/fs/cgroup/user.slice/app.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"));
  EXPECT_THAT(group_directories("0::/x\n", mounts, GroupVersion::kV1, "memory"), IsEmpty());
}

TEST(Machine, InAContainerTheMountPointIsTheGroup) {
  const char mounts[] = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  EXPECT_THAT(group_directories("4:memory:/docker/abc\n", mounts, GroupVersion::kV1, "memory"),
              ElementsAre("/sys/fs/cgroup/memory"));
  EXPECT_THAT(group_directories("4:memory:/docker/abc/in\n", mounts, GroupVersion::kV1, "memory"),
              ElementsAre("/sys/fs/cgroup/memory/in", "/sys/fs/cgroup/memory"));
  const char namespaced[] = "25 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_THAT(group_directories("0::/../../other\n", namespaced, GroupVersion::kV2, "memory"), ElementsAre("/sys/fs/cgroup"));
  EXPECT_THAT(group_directories("0::nonsense\n", namespaced, GroupVersion::kV2, "memory"), ElementsAre("/sys/fs/cgroup"));
  EXPECT_THAT(group_directories("", "", GroupVersion::kV2, "memory"), IsEmpty());
}

TEST(Machine, UsableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Machine, KnowsThisMachineAndProcess) {
  ASSERT_TRUE(total_memory() && available_memory());
  EXPECT_GT(available_memory()->value, 0);
  EXPECT_LE(*available_memory(), *total_memory());
  const ProcessMemory process = process_memory();
  EXPECT_GT(process.resident.value, 0);
  EXPECT_GE(process.peak_resident, process.resident);
  EXPECT_GT(process.page_tables.value, 0);
  const std::optional<GroupMemory> group = group_memory();
  EXPECT_GT(group.value_or(GroupMemory{Bytes(1), Bytes(0)}).limit.value, 0);
}

}  // namespace
}  // namespace quire::port
