// Runs a batch: lines of requests through the step loop, results to a file as they come.
//
//   lines --> requests in flight (bounded) --> step loop --> whole lines of results, each written at once
//
// One thread does all of it but the loop: it reads, submits, collects and writes. A line that cannot be run gets its error, and the
// others go on. What is in flight when run() returns early has left no trace in the output.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step_loop.h"
#include "port/file.h"
#include "server/batch_file.h"
#include "server/latency_histogram.h"
#include "server/openai_reply.h"
#include "server/openai_request.h"

namespace quire::app {

struct BatchRunOptions {
  server::ServedModel model;
  size_t choices_at_once = 256;  // in flight, at most
  uint64_t seed = 0;             // with the custom_id it makes the seed of a request that names none
};

struct BatchCounts {
  int64_t lines = 0;      // read
  int64_t skipped = 0;    // answered before
  int64_t completed = 0;  // with a reply
  int64_t failed = 0;     // with an error
  int64_t refused = 0;    // of them because their keys and values would never fit
};

class BatchRun {
 public:
  // `before`: what `output` holds already. All must outlive the run.
  BatchRun(engine::StepLoop& loop, const BatchRunOptions& options, const server::BatchAnswers& before, port::AppendFile& output);
  ~BatchRun();

  // Until every line of `input` has a result, or `interrupted`, which is asked between events. `on_tick` is called some ten times a
  // second. Errors: the output cannot be written, the input cannot be read.
  [[nodiscard]] Status run(std::istream& input, const std::function<bool()>& interrupted, const std::function<void()>& on_tick);

  [[nodiscard]] const BatchCounts& counts() const { return counts_; }
  [[nodiscard]] const server::LatencyHistogram& first_token_times() const { return first_token_times_; }
  [[nodiscard]] const server::LatencyHistogram& token_intervals() const { return token_intervals_; }

 private:
  class Events;
  struct InFlight;

  [[nodiscard]] Status feed(server::LineReader& lines);
  [[nodiscard]] Status take_line(const server::LineReader::Line& line);
  [[nodiscard]] Status begin(const server::LineReader::Line& line, server::BatchRequest request);
  [[nodiscard]] bool has_room() const;
  void submit_next(InFlight& request);
  void take_event(InFlight& request, size_t choice, int64_t ns);
  [[nodiscard]] Status finish(InFlight& request);
  [[nodiscard]] Status fail(int64_t line, const std::string& custom_id, const server::ApiError& error);
  [[nodiscard]] Status write(const std::string& line);
  [[nodiscard]] Status sync(bool now);

  engine::StepLoop& loop_;
  const BatchRunOptions options_;
  const server::BatchAnswers& before_;
  port::AppendFile& output_;
  std::shared_ptr<Events> events_;

  std::map<int64_t, std::unique_ptr<InFlight>> in_flight_;  // by line
  InFlight* filling_ = nullptr;                             // the one whose choices are not all submitted
  size_t choices_in_flight_ = 0;
  size_t bytes_in_flight_ = 0;
  server::IdSet seen_;
  bool all_read_ = false;
  bool more_to_feed_ = false;  // feed() left although there was room

  BatchCounts counts_;
  server::LatencyHistogram first_token_times_;
  server::LatencyHistogram token_intervals_;
  bool unsynced_ = false;
  int64_t synced_ns_ = 0;
};

}  // namespace quire::app
