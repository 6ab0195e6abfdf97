// What a seed stands for: a machine, its settings, and the traffic that comes to it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "kv/kv_cache.h"
#include "sched/scheduler.h"
#include "tests/simulation/fake_model.h"
#include "tests/support/random.h"

namespace quire::simulation {

// What can happen. Each scenario has a weight for each, some of them zero.
enum class EventKind {
  kUnrelated,     // a request that begins like no other
  kSharedStart,   // one whose beginning others have too
  kRepeated,      // a prompt that came before
  kConversation,  // a reply and some more tokens, after a prompt that was answered
  kBurst,         // several at once with one beginning, or one prompt with several choices
  kCancel,        // somebody goes away
  kCeiling,       // the memory's ceiling falls or rises
  kSystemMemory,  // the system has less memory than the ceiling says
  kClear,         // the cache is cleared
  kRest,          // nothing comes for a while
};
inline constexpr size_t kEventKinds = 10;

struct Scenario {
  uint64_t seed = 0;

  // The machine.
  Bytes granule;
  std::vector<kv::LayerGroupSpec> groups;
  std::vector<std::optional<int64_t>> windows;  // by layer
  std::vector<int64_t> record_bytes;            // by layer
  FakeModelOptions model;

  // Its settings.
  sched::SchedulerOptions scheduler;
  TokenCount context;
  size_t stream_capacity = 64;
  bool background_backing = false;
  bool share = true;
  kv::SegmentPoolOptions segments;
  double budget_factor = 1;  // of what a full context needs alone

  // The traffic.
  int events = 30;
  std::array<uint32_t, kEventKinds> weights = {};
  int64_t pause_ns = 0;  // mean time from one event to the next
  uint32_t tenants = 1;
  uint32_t priorities = 1;
  uint32_t salts = 1;
  uint32_t slow_readers_in_ten = 0;
  uint32_t deadlines_in_ten = 0;
  uint32_t ends_one_in = 30;
  double lowest_ceiling = 1;  // of the budget; where the full context does not fit any more, replies may be cut

  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] Scenario make_scenario(uint64_t seed);

}  // namespace quire::simulation
