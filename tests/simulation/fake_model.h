// A model for the step loop that computes nothing but remembers everything: it writes what stands for a token's keys and values
// into its tile records, reads every position that attention would read, and knows what must be there. Memory that is shared
// wrongly, freed too early, stale or copied wrongly is seen in the step that reads it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/model_runner.h"
#include "tests/simulation/fake_law.h"
#include "tests/support/random.h"

namespace quire::simulation {

// How long a pass takes.
struct Latency {
  int64_t pass_ns = 300'000;
  int64_t decode_row_ns = 20'000;
  int64_t prefill_row_ns = 9'000;
  int64_t attended_key_ns = 20;
  uint32_t slow_one_in = 200;  // passes that take ten times as long
};

struct FakeModelOptions {
  int max_rows = 64;
  int max_logit_rows = 4;
  int vocabulary = 0;
  std::vector<int64_t> record_bytes;  // of a tile, by layer; at least 256
  Latency latency;
  uint64_t seed = 0;
};

class FakeModel final : public engine::ModelRunner {
 public:
  // `clock` moves on by what each pass takes. The arguments must outlive the model.
  FakeModel(const FakeLaw& law, const FakeModelOptions& options, int64_t& clock_ns);

  // Tells of a history that may be computed from now on: it contains all that the reply will have. Until forget().
  void expect(const History& history) { expected_.insert(&history); }
  void forget(const History& history) { expected_.erase(&history); }

  // Empty, or what was found first.
  [[nodiscard]] const std::string& failure() const { return failure_; }

  // Of all passes: a hash of their chunks.
  [[nodiscard]] uint64_t trace() const { return trace_; }
  [[nodiscard]] int64_t passes() const { return passes_; }

  [[nodiscard]] int max_rows() const override { return options_.max_rows; }
  [[nodiscard]] int max_logit_rows() const override { return options_.max_logit_rows; }
  [[nodiscard]] int layers() const override { return law_.layers(); }
  [[nodiscard]] int vocabulary() const override { return options_.vocabulary; }
  void run(std::span<const model::SequenceChunk> chunks) override;
  [[nodiscard]] std::span<const float> logits(std::span<const int> rows) override;

 private:
  // Where a position's lane is; null, and a failure, when the pieces do not reach it.
  [[nodiscard]] std::byte* lane(const model::SequenceChunk& chunk, int layer, int64_t position);
  void check_pieces(const model::SequenceChunk& chunk, int layer);
  void write(const model::SequenceChunk& chunk);
  void read(const model::SequenceChunk& chunk, int last_row);
  [[nodiscard]] const History* whose(const model::SequenceChunk& chunk, uint64_t hash_before);
  [[nodiscard]] std::string describe(uint64_t hash) const;
  void take_time(std::span<const model::SequenceChunk> chunks);
  void fail(const std::string& what);

  struct OldestFirst {
    bool operator()(const History* a, const History* b) const { return a->id() < b->id(); }
  };

  const FakeLaw& law_;
  const FakeModelOptions options_;
  int64_t& clock_ns_;
  test_support::Random random_;
  std::set<const History*, OldestFirst> expected_;
  std::vector<std::pair<int, uint64_t>> seen_;  // by chunk of the last pass: its last row, what that saw
  std::vector<float> logits_;
  std::string failure_;
  uint64_t trace_ = 0;
  int64_t passes_ = 0;
};

}  // namespace quire::simulation
