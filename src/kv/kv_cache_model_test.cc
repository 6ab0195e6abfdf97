// The cache against a naive model, over random calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kv/kv_cache_random_run.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

class KvCacheModel : public ::testing::TestWithParam<RunSetting> {};

TEST_P(KvCacheModel, RandomRunsKeepTheInvariants) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    port::SimVm vm({.granule = GetParam().granule, .real_memory = true});
    {
      RandomRun run(GetParam(), vm, seed);
      run.run(150);
    }
    EXPECT_EQ(vm.counters().backed, Bytes(0));
    EXPECT_EQ(vm.counters().reserved, Bytes(0));
  }
}

constexpr int64_t kMiB = 1 << 20;
INSTANTIATE_TEST_SUITE_P(
    Settings, KvCacheModel,
    ::testing::Values(RunSetting{"full_plenty", {full_group(2, 4096)}, Bytes(64 * kMiB)},
                      RunSetting{"full_scarce", {full_group(2, 4096)}, Bytes(400 << 10)},
                      RunSetting{"full_small_records", {full_group(3, 320)}, Bytes(100 << 10)},
                      RunSetting{"full_small_sets", {full_group(1, 4096)}, Bytes(kMiB), true, TileCount(2)},
                      RunSetting{"windowed_plenty", {full_group(1, 4096), window_group(1, 8192, 70)}, Bytes(64 * kMiB)},
                      RunSetting{"windowed_scarce", {full_group(1, 4096), window_group(1, 8192, 70)}, Bytes(500 << 10)},
                      RunSetting{"windows_only", {window_group(0, 4096, 33), window_group(1, 704, 100)}, Bytes(300 << 10)},
                      RunSetting{"tiny_window", {full_group(1, 4096), window_group(1, 4096, 1)}, Bytes(kMiB)},
                      RunSetting{"unshared", {full_group(2, 4096)}, Bytes(kMiB), false},
                      RunSetting{"many_page_tables", {full_group(5, 320)}, Bytes(150 << 10), true, TileCount(INT64_MAX), Bytes(64)},
                      RunSetting{"window_first", {window_group(0, 4096, 100), full_group(2, 4096)}, Bytes(500 << 10)}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace quire::kv
