// A segment against a naive model, under random operations. The model keeps a purpose for each tile and computes granules one by
// one from byte ranges; it knows nothing of runs, promises or rollback.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kv/segment.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

struct Shape {
  int layers = 1;
  int64_t record = 4096;
  int64_t max_tiles = 16;
};

class SegmentModel {
 public:
  using Tiles = std::map<int64_t, Purpose>;

  SegmentModel(Shape shape, int64_t granule) : shape_(shape), granule_(granule) {}

  // Each granule's purpose: the first that one of its tiles has.
  [[nodiscard]] std::map<int64_t, Purpose> granules(const Tiles& tiles) const {
    std::map<int64_t, Purpose> result;
    for (const auto& [tile, purpose] : tiles) {
      // Records and granules are multiples of 64 bytes.
      for (int64_t byte = tile * shape_.record; byte < (tile + 1) * shape_.record; byte += 64) {
        const auto [granule, is_new] = result.try_emplace(byte / granule_, purpose);
        if (!is_new && purpose < granule->second) granule->second = purpose;
      }
    }
    return result;
  }
  [[nodiscard]] int64_t bytes(const Tiles& tiles) const {
    return static_cast<int64_t>(granules(tiles).size()) * granule_ * shape_.layers;
  }
  [[nodiscard]] int64_t bytes(Purpose wanted) const {
    int64_t count = 0;
    for (const auto& [granule, purpose] : granules(tiles_)) count += purpose == wanted ? 1 : 0;
    return count * granule_ * shape_.layers;
  }
  [[nodiscard]] Tiles with(TileRun run, Purpose purpose) const {
    Tiles tiles = tiles_;
    for (int64_t tile = run.first; tile < run.end; ++tile) tiles[tile] = purpose;
    return tiles;
  }
  void set_purpose(TileRun run, Purpose purpose) {
    for (auto& [tile, now] : tiles_) {
      if (tile >= run.first && tile < run.end) now = purpose;
    }
  }
  void give_back(TileRun run) {
    std::erase_if(tiles_, [&](const auto& entry) { return entry.first >= run.first && entry.first < run.end; });
  }
  // From the end on, one by one.
  int64_t give_back_warm(int64_t bytes) {
    const int64_t before = this->bytes(tiles_);
    for (int64_t tile = shape_.max_tiles - 1; tile >= 0 && before - this->bytes(tiles_) < bytes && this->bytes(Purpose::kWarm) > 0;
         --tile) {
      const auto found = tiles_.find(tile);
      if (found != tiles_.end() && found->second == Purpose::kWarm) tiles_.erase(found);
    }
    return before - this->bytes(tiles_);
  }

  Shape shape_;
  int64_t granule_;
  Tiles tiles_;
  std::map<std::pair<int, int64_t>, int> written_;  // (layer, tile) -> the byte it is filled with
};

enum Operation { kBack, kSteps, kSetPurpose, kGiveBack, kGiveBackWarm, kWrite, kOperations };
constexpr std::array kTilePurposes{Purpose::kLive, Purpose::kShared, Purpose::kCached, Purpose::kWarm};
constexpr int64_t kMostPageTables = 64 * 4096;

// One random life of a segment.
class Life {
 public:
  Life(port::Vm& port, uint64_t seed) : random_(seed), port_(port) {
    const int64_t records[] = {64, 512, 1536, 4096, 6144, 10240, 8192};
    shape_ = {.layers = 1 + pick(4), .record = records[pick(7)], .max_tiles = 1 + pick(24)};
    model_.emplace(shape_, port.granule().value);
    // Some lives have room for everything, some for about half.
    const int64_t all = model_->bytes(model_->with({0, shape_.max_tiles}, Purpose::kLive)) + kMostPageTables;
    budget_.emplace(Bytes(pick(2) == 0 ? all : all / 2));
    LayerGroupSpec group{.name = "model", .layers = {}, .tile_record = Bytes(shape_.record), .window = {}};
    for (int layer = 0; layer < shape_.layers; ++layer) group.layers.push_back(layer);
    Result<Segment> segment = Segment::reserve(port, *budget_, group, TileCount(shape_.max_tiles));
    QUIRE_CHECK(segment.ok());
    segment_.emplace(std::move(*segment));
    // Weights of the operations: about a third are zero.
    for (double& weight : weights_) weight = pick(3) == 0 ? 0 : 1 + pick(9);
    weights_[kBack] += 0.5;
  }

  void run(int steps) {
    std::discrete_distribution<int> operation(weights_.begin(), weights_.end());
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      do_one(static_cast<Operation>(operation(random_)));
      check();
    }
  }

 private:
  int pick(int64_t choices) { return static_cast<int>(std::uniform_int_distribution<int64_t>(0, choices - 1)(random_)); }
  TileRun pick_run() {
    const int64_t first = pick(shape_.max_tiles + 1);
    return {first, first + pick(shape_.max_tiles - first + 1)};
  }
  Purpose pick_purpose() { return kTilePurposes[static_cast<size_t>(pick(kTilePurposes.size()))]; }

  void do_one(Operation operation) {
    const TileRun run = pick_run();
    const Purpose purpose = pick_purpose();
    switch (operation) {
      case kBack: return back(run, purpose);
      case kSteps: return back_in_steps(run, purpose);
      case kSetPurpose: return segment_->set_purpose(run, purpose), model_->set_purpose(run, purpose);
      case kGiveBack: return segment_->give_back(run), model_->give_back(run);
      case kGiveBackWarm: {
        const int64_t bytes = pick(4) == 0 ? INT64_C(1) << 40 : pick(3 * shape_.record * shape_.layers);
        EXPECT_EQ(segment_->give_back_warm(Bytes(bytes)).value, model_->give_back_warm(bytes));
        return;
      }
      case kWrite: return write();
      case kOperations: break;
    }
  }

  void back(TileRun run, Purpose purpose) {
    const Bytes before = budget_->backed();
    const SegmentModel::Tiles after = model_->with(run, purpose);
    const int64_t growth = model_->bytes(after) - model_->bytes(model_->tiles_);
    const Result<Space> space = segment_->back(run, purpose);
    ASSERT_TRUE(space.ok());
    if (*space == Space::kOk) return forget_unused(run), void(model_->tiles_ = after);
    EXPECT_EQ(budget_->backed(), before);
    // Refused although there was room, were it not for a few page tables?
    EXPECT_GT(growth + kMostPageTables, (budget_->limit() - before).value);
  }

  // The port may be asked for some of the ranges only, before it is all undone.
  void back_in_steps(TileRun run, Purpose purpose) {
    const SegmentModel::Tiles after = model_->with(run, purpose);
    const Bytes need = segment_->need(run);
    const int64_t growth = model_->bytes(after) - model_->bytes(model_->tiles_);
    ASSERT_GE(need.value, growth);
    ASSERT_LE(need.value, growth + kMostPageTables);
    ASSERT_EQ(need.value == 0, growth == 0);
    Promise promise(*budget_);
    if (promise.take(need) == Space::kNoSpace) return;
    std::vector<port::VmRange> ranges;
    segment_->ranges(run, ranges);
    ASSERT_EQ(ranges.empty(), growth == 0);
    const bool all = pick(2) == 0;
    for (const port::VmRange& range : ranges) {
      if (!all && pick(2) == 0) continue;
      ASSERT_EQ(*port_.back(segment_->reservation(), range), port::Backing::kBacked);
    }
    if (!all) return segment_->undo(run);
    segment_->commit(run, purpose, promise);
    ASSERT_EQ(promise.bytes(), Bytes(0));
    forget_unused(run);
    model_->tiles_ = after;
  }

  // Tiles that were warm may be overwritten when they are handed out.
  void forget_unused(TileRun run) {
    std::erase_if(model_->written_, [&](const auto& entry) {
      const int64_t tile = entry.first.second;
      const auto found = model_->tiles_.find(tile);
      return tile >= run.first && tile < run.end && (found == model_->tiles_.end() || found->second == Purpose::kWarm);
    });
  }

  void write() {
    if (!port_.has_memory() || model_->tiles_.empty()) return;
    const int64_t tile = std::next(model_->tiles_.begin(), pick(static_cast<int64_t>(model_->tiles_.size())))->first;
    const int layer = pick(shape_.layers);
    const int value = pick(256);
    std::memset(record(layer, tile), value, static_cast<size_t>(shape_.record));
    model_->written_[{layer, tile}] = value;
  }

  [[nodiscard]] std::byte* record(int layer, int64_t tile) const {
    const Stripes stripes = segment_->stripes();
    return stripes.base + layer * stripes.layer_stride + tile * stripes.tile_stride;
  }

  void check() {
    ASSERT_EQ(segment_->verify(), "");
    ASSERT_EQ(budget_->verify(), "");
    for (int64_t tile = 0; tile < shape_.max_tiles; ++tile) {
      const auto found = model_->tiles_.find(tile);
      const std::optional<Purpose> wanted = found == model_->tiles_.end() ? std::nullopt : std::optional(found->second);
      ASSERT_EQ(segment_->purpose(TileIndex(tile)), wanted) << "tile " << tile;
    }
    for (const Purpose purpose : kTilePurposes) {
      ASSERT_EQ(segment_->backed_bytes(purpose).value, model_->bytes(purpose)) << to_string(purpose);
      ASSERT_EQ(budget_->backed(purpose).value, model_->bytes(purpose)) << to_string(purpose);
    }
    ASSERT_EQ(budget_->promised(), Bytes(0));
    std::erase_if(model_->written_, [&](const auto& entry) { return !model_->tiles_.contains(entry.first.second); });
    for (const auto& [place, value] : model_->written_) {
      const std::byte* bytes = record(place.first, place.second);
      for (int64_t byte = 0; byte < shape_.record; byte += 61) {
        ASSERT_EQ(bytes[byte], static_cast<std::byte>(value)) << "layer " << place.first << " tile " << place.second;
      }
    }
  }

  std::mt19937_64 random_;
  port::Vm& port_;
  Shape shape_;
  std::optional<SegmentModel> model_;
  std::optional<Budget> budget_;
  std::optional<Segment> segment_;
  std::array<double, kOperations> weights_{};
};

TEST(SegmentModel, SimulationAgreesWithTheNaiveModel) {
  for (uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    port::SimVm port({.real_memory = seed % 2 == 0});
    { Life(port, seed).run(60); }
    EXPECT_EQ(port.counters().backed, Bytes(0));
    EXPECT_EQ(port.counters().reservations, 0);
  }
}

TEST(SegmentModel, TheHostAgreesWithTheNaiveModel) {
  port::PosixVm port;
  for (uint64_t seed = 1000; seed < 1060 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life(port, seed).run(60);
  }
}

}  // namespace
}  // namespace quire::kv
