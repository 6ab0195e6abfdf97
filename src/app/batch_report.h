// What a batch took: the report that --report writes, and the line on the terminal.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "app/batch_run.h"
#include "engine/step_loop.h"

namespace quire::app {

// How fast the KV cache has memory backed, looked at now and then.
class AllocationRate {
 public:
  explicit AllocationRate(int64_t now_ns) : started_ns_(now_ns), last_ns_(now_ns) {}

  // `allocated`: backed since the beginning. Calls closer together than a tenth of a second are passed over.
  void sample(Bytes allocated, int64_t now_ns);

  // In 10^6 bytes a second.
  [[nodiscard]] double mean_mbps() const;
  [[nodiscard]] double maximum_mbps() const { return maximum_; }

 private:
  int64_t started_ns_;
  int64_t last_ns_;
  Bytes last_;
  double maximum_ = 0;
};

struct BatchReport {
  std::string model;
  std::string reserve;
  int threads = 0;
  double seconds = 0;
  bool interrupted = false;
  BatchCounts counts;
  engine::LoopStatistics statistics;
  AllocationRate allocation{0};
};

// docs/batch.md says what each key is.
[[nodiscard]] nlohmann::ordered_json to_json(const BatchReport& report, const BatchRun& run);

// For people.
[[nodiscard]] std::string summary(const BatchReport& report);

}  // namespace quire::app
