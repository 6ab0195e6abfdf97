// Measures the engine under many users: what `quire bench engine` prints.
//
// Every user has a prompt of his own after a beginning that all have in common, and gets the same number of new tokens. The common
// beginning is computed before the clock starts. The loop is driven by hand, so that every token has the time of its step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/bandwidth.h"
#include "engine/engine.h"
#include "engine/step_loop.h"

namespace quire::app {

struct EngineLoad {
  int users = 1;
  int64_t shared_prefix = 0;  // tokens that all prompts begin with
  int64_t prompt = 512;       // tokens of each user's own
  int64_t reply = 128;        // new tokens of each user
};

struct EngineMeasurement {
  int64_t prompt_tokens = 0;  // of all users, shared ones counted for each
  int64_t new_tokens = 0;
  double prefill_tps = 0;  // prompt tokens a second until the last user has a first token
  double decode_tps = 0;   // new tokens a second while all users decode; 0 when they never did
  double total_tps = 0;    // all prompt and new tokens over the whole run
  double step_ms_p50 = 0;  // of steps in which all users decode
  double step_ms_p99 = 0;
  double allocation_mbps = 0;      // memory backed a second while all decode, in MB
  double allocation_mbps_max = 0;  // of one step
  double memory_gbps = 0;          // read bandwidth, mean of what was measured before and after the run
  double bandwidth_share = 0;      // bytes that decoding must read, over what could be read in that time
  engine::LoopStatistics statistics;
};

// The first thing that memory could not simply give; empty: nothing of the kind happened.
struct MemoryLimit {
  std::string what;    // "eviction", "suspension", "recomputation", "refusal", "waiting"
  size_t running = 0;  // requests that ran when it came
};

// Runs one load; the cache is cleared before it unless `keep_cache`. `limit`, where given, is filled in and ends the run early.
[[nodiscard]] Result<EngineMeasurement> measure(engine::Engine& engine, engine::BandwidthProbe& probe, const EngineLoad& load,
                                                const sched::SchedulerOptions& scheduler, bool keep_cache = false,
                                                MemoryLimit* limit = nullptr);

}  // namespace quire::app
