// The operating system as judge: what it says is backed equals the ledger after every phase of random runs, and thousands of
// sequences' segments live at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "kv/kv_cache_random_run.h"
#include "port/machine.h"
#include "port/posix_vm.h"

namespace quire::kv {
namespace {

// Sanitizers keep shadow memory and mappings of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kProcessHasOtherMemory = true;
#else
constexpr bool kProcessHasOtherMemory = false;
#endif

struct Mappings {
  int64_t count = 0;
  Bytes undumped;  // resident in mappings that stay out of core dumps: those of segments alone
};

Mappings mappings() {
  Mappings found;
  Bytes resident;
  std::ifstream smaps("/proc/self/smaps");
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with("Rss:")) {
      ++found.count;
      resident = Bytes(std::stoll(line.substr(4)) * 1024);
    }
    if (line.starts_with("VmFlags:") && line.find(" dd") != std::string::npos) found.undumped += resident;
  }
  return found;
}

Bytes without_page_tables(const Usage& usage) { return usage.backed - usage.page_tables; }

class KvCacheOnTheSystem : public ::testing::TestWithParam<RunSetting> {};

TEST_P(KvCacheOnTheSystem, WhatTheSystemBacksIsWhatTheLedgerSays) {
  if (kProcessHasOtherMemory) GTEST_SKIP() << "a sanitizer's own memory hides the segments'";
  port::PosixVm vm;
  ASSERT_EQ(mappings().undumped, Bytes(0));
  for (uint64_t seed = 1; seed <= 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun run(GetParam(), vm, seed);
    for (int phase = 0; phase < 6 && !HasFailure(); ++phase) {
      run.walk(25);
      EXPECT_EQ(mappings().undumped, without_page_tables(run.cache().usage())) << "phase " << phase;
    }
    run.run(10);
    EXPECT_EQ(mappings().undumped, Bytes(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, KvCacheOnTheSystem,
                         ::testing::Values(RunSetting{"full", {full_group(2, 4096)}, Bytes(4 << 20)},
                                           RunSetting{"scarce", {full_group(2, 8192)}, Bytes(600 << 10)},
                                           RunSetting{"small_records", {full_group(3, 320)}, Bytes(200 << 10)},
                                           RunSetting{
                                               "windowed", {full_group(1, 4096), window_group(1, 8192, 70)}, Bytes(2 << 20)}),
                         [](const auto& instance) { return std::string(instance.param.name); });

// As many sequences as a large server has, each with addresses for thousands of tokens.
TEST(KvCacheMappings, ThreeThousandSequencesHaveOneMappingEach) {
  if (kProcessHasOtherMemory) GTEST_SKIP() << "a sanitizer needs the addresses for itself";
  constexpr int kSequences = 3000;
  constexpr int64_t kMaxTokens = 4096;
  const LayerGroupSpec group = full_group(30, 24576);
  if (!port::reserving_is_free(tile_bytes(group) * (kMaxTokens / kTileTokens * kSequences))) {
    GTEST_SKIP() << "this machine limits addresses";
  }
  port::PosixVm vm;
  {
    // Records of a page, so that 3,000 sequences fit everywhere.
    const LayerGroupSpec thin = full_group(2, 4096);
    KvCache cache(vm, {thin}, {.limit = Bytes(INT64_MAX)});
    const Mappings before = mappings();
    const Bytes tables_before = port::process_memory().page_tables;
    std::vector<Growth> growths;
    for (int i = 0; i < kSequences; ++i) {
      const auto id = cache.open(std::to_string(i), text(1, 10), TokenCount(kMaxTokens));
      ASSERT_TRUE(id.ok() && *id);
      growths.push_back({**id, TokenCount(40)});
    }
    const Result<Room> room = cache.prepare(growths);
    ASSERT_TRUE(room.ok() && room->space == Space::kOk);
    const Mappings after = mappings();
    EXPECT_EQ(after.undumped, without_page_tables(cache.usage()));
    EXPECT_EQ(after.undumped, Bytes(kSequences * 2 * 2 * 4096));
    EXPECT_LE(after.count - before.count, kSequences + 50) << "vm.max_map_count is 65,530 by default";
    const Bytes tables = port::process_memory().page_tables - tables_before;
    EXPECT_LE(tables, cache.usage().page_tables + Bytes(64 * 4096));
    for (const Growth& growth : growths) cache.append(growth.sequence, text(1, 40));
    for (const Growth& growth : growths) cache.close(growth.sequence, KvCache::Keep::kCache);
    EXPECT_EQ(mappings().undumped, without_page_tables(cache.usage()));
    cache.clear();
    EXPECT_EQ(mappings().undumped, Bytes(0));
    EXPECT_LE(mappings().count, before.count + 50);
  }
  // The shape of a real model: addresses alone.
  KvCache cache(vm, {group}, {.limit = Bytes(int64_t{1} << 30)});
  std::vector<Growth> growths;
  for (int i = 0; i < 1000; ++i) {
    const auto id = cache.open(std::to_string(i), text(1, 10), TokenCount(kMaxTokens));
    ASSERT_TRUE(id.ok() && *id);
    growths.push_back({**id, TokenCount(10)});
  }
  const Result<Room> room = cache.prepare(std::span(growths).first(100));
  ASSERT_TRUE(room.ok() && room->space == Space::kOk);
  EXPECT_EQ(mappings().undumped, without_page_tables(cache.usage()));
  for (const Growth& growth : growths) cache.close(growth.sequence, KvCache::Keep::kDrop);
}

}  // namespace
}  // namespace quire::kv
