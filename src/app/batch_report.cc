#include "app/batch_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWindowNs = 100'000'000;

double mbps(Bytes bytes, int64_t ns) { return ns <= 0 ? 0 : static_cast<double>(bytes.value) * 1e3 / static_cast<double>(ns); }

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

Json percentiles(const server::LatencyHistogram& times) {
  return {{"p50", times.percentile_ms(0.5)}, {"p90", times.percentile_ms(0.9)}, {"p99", times.percentile_ms(0.99)}};
}

Json by_purpose(const kv::Usage& usage) {
  return {{"live", usage.live.value}, {"shared", usage.shared.value},           {"cached", usage.cached.value},
          {"warm", usage.warm.value}, {"page_tables", usage.page_tables.value}, {"total", usage.backed.value}};
}

}  // namespace

void AllocationRate::sample(Bytes allocated, int64_t now_ns) {
  if (now_ns - last_ns_ < kWindowNs) return;
  maximum_ = std::max(maximum_, mbps(allocated - last_, now_ns - last_ns_));
  last_ = allocated;
  last_ns_ = now_ns;
}

double AllocationRate::mean_mbps() const { return mbps(last_, last_ns_ - started_ns_); }

Json to_json(const BatchReport& report, const BatchRun& run) {
  const engine::LoopStatistics& s = report.statistics;
  const BatchCounts& counts = report.counts;
  return {{"model", report.model},
          {"threads", report.threads},
          {"reserve", report.reserve},
          {"interrupted", report.interrupted},
          {"seconds", report.seconds},
          {"lines", counts.lines},
          {"skipped", counts.skipped},
          {"completed", counts.completed},
          {"failed", counts.failed},
          {"refused", counts.refused},
          {"kv_limit_bytes", s.memory.limit.value},
          {"peak_bytes", by_purpose(s.peak_memory)},
          {"prompt_tokens", s.prompt_tokens},
          {"reused_tokens", s.reused_tokens},
          {"computed_tokens", s.computed_tokens},
          {"recomputed_tokens", s.recomputed_tokens},
          {"generated_tokens", s.generated_tokens},
          {"generated_tps", rate(s.generated_tokens, report.seconds)},
          {"steps", s.steps},
          {"suspensions", s.jobs.suspensions},
          {"evicted_bytes", s.memory.evicted.value},
          {"allocated_bytes", s.memory.allocated.value},
          {"allocation_mbps", {{"mean", report.allocation.mean_mbps()}, {"maximum", report.allocation.maximum_mbps()}}},
          {"ttft_ms", percentiles(run.first_token_times())},
          {"itl_ms", percentiles(run.token_intervals())}};
}

std::string summary(const BatchReport& report) {
  const engine::LoopStatistics& s = report.statistics;
  const BatchCounts& counts = report.counts;
  std::string lines = fmt::format("{} lines: {} answered", counts.lines, counts.completed);
  if (counts.failed > 0) lines += fmt::format(", {} with errors", counts.failed);
  if (counts.skipped > 0) lines += fmt::format(", {} answered before", counts.skipped);
  return fmt::format("[{}; prompt {} tokens ({} reused), reply {} tokens, {:.0f} tokens/s; KV {} at most; {:.1f} s]", lines,
                     s.prompt_tokens, s.reused_tokens, s.generated_tokens, rate(s.generated_tokens, report.seconds),
                     format_bytes(s.peak_memory.backed), report.seconds);
}

}  // namespace quire::app
