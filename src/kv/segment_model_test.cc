// A segment against a naive model, under random operations. The model keeps a set of tiles and computes granules one by one from
// byte ranges; it knows nothing of runs, promises or rollback.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

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
  SegmentModel(Shape shape, int64_t granule) : shape_(shape), granule_(granule) {}

  [[nodiscard]] std::set<int64_t> granules(const std::set<int64_t>& tiles) const {
    std::set<int64_t> result;
    for (const int64_t tile : tiles) {
      // Records and granules are multiples of 64 bytes.
      for (int64_t byte = tile * shape_.record; byte < (tile + 1) * shape_.record; byte += 64) result.insert(byte / granule_);
    }
    return result;
  }
  [[nodiscard]] int64_t bytes(const std::set<int64_t>& tiles) const {
    return static_cast<int64_t>(granules(tiles).size()) * granule_ * shape_.layers;
  }
  [[nodiscard]] std::set<int64_t> with_tiles_to(int64_t end) const {
    std::set<int64_t> tiles = tiles_;
    for (int64_t tile = end_; tile < end; ++tile) tiles.insert(tile);
    return tiles;
  }
  void grow(int64_t end) {
    tiles_ = with_tiles_to(end);
    end_ = std::max(end_, end);
  }
  void drop_before(int64_t tile) {
    tiles_.erase(tiles_.begin(), tiles_.lower_bound(tile));
    first_ = std::max(first_, tile);
  }
  void drop_from(int64_t end) {
    tiles_.erase(tiles_.lower_bound(end), tiles_.end());
    end_ = std::min(end_, end);
  }

  Shape shape_;
  int64_t granule_;
  std::set<int64_t> tiles_;
  int64_t first_ = 0;
  int64_t end_ = 0;
  std::map<std::pair<int, int64_t>, int> written_;  // (layer, tile) -> the byte it is filled with
};

enum Operation { kBack, kGiveBackBefore, kGiveBackFrom, kWrite, kOperations };

// One random life of a segment.
class Life {
 public:
  Life(port::Vm& port, uint64_t seed) : random_(seed) {
    const int64_t records[] = {64, 512, 1536, 4096, 6144, 10240};
    shape_ = {.layers = 1 + pick(4), .record = records[pick(6)], .max_tiles = 1 + pick(24)};
    model_.emplace(shape_, port.granule().value);
    // Some lives have room for everything, some for about half.
    const int64_t all = model_->bytes(model_->with_tiles_to(shape_.max_tiles)) + int64_t{64} * 4096;
    budget_.emplace(Bytes(pick(2) == 0 ? all : all / 2));
    LayerGroupSpec group{.name = "model", .layers = {}, .tile_record = Bytes(shape_.record), .window = {}};
    for (int layer = 0; layer < shape_.layers; ++layer) group.layers.push_back(layer);
    Result<Segment> segment = Segment::reserve(port, *budget_, group, TileCount(shape_.max_tiles));
    QUIRE_CHECK(segment.ok());
    segment_.emplace(std::move(*segment));
    // Weights of the operations: about a third are zero.
    for (double& weight : weights_) weight = pick(3) == 0 ? 0 : 1 + pick(9);
    weights_[kBack] += weights_[kWrite] > 0 || weights_[kGiveBackBefore] > 0 ? 1 : 0;
    weights_[kBack] += 0.01;
    has_memory_ = port.has_memory();
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

  void do_one(Operation operation) {
    switch (operation) {
      case kBack: return back(pick(shape_.max_tiles + 1));
      case kGiveBackBefore: {
        const int64_t tile = pick(model_->end_ + 1);
        segment_->give_back_before(TileIndex(tile));
        model_->drop_before(tile);
        return;
      }
      case kGiveBackFrom: {
        const int64_t end = model_->first_ + pick(shape_.max_tiles - model_->first_ + 1);
        segment_->give_back_from(TileCount(end));
        model_->drop_from(end);
        return;
      }
      case kWrite: return write();
      case kOperations: break;
    }
  }

  void back(int64_t end) {
    const Bytes before = budget_->backed();
    const int64_t growth = model_->bytes(model_->with_tiles_to(end)) - model_->bytes(model_->tiles_);
    const Result<Space> space = segment_->back(TileCount(end));
    ASSERT_TRUE(space.ok());
    if (*space == Space::kOk) return model_->grow(end);
    EXPECT_EQ(budget_->backed(), before);
    // Refused although there was room, were it not for a few page tables?
    EXPECT_GT(growth + int64_t{64} * 4096, (budget_->limit() - before).value);
  }

  void write() {
    if (!has_memory_ || model_->tiles_.empty()) return;
    const int64_t tile = *std::next(model_->tiles_.begin(), pick(static_cast<int64_t>(model_->tiles_.size())));
    const int layer = pick(shape_.layers);
    const int value = pick(256);
    const Stripe stripe = segment_->stripe(layer);
    std::memset(stripe.base + tile * stripe.tile_stride, value, static_cast<size_t>(shape_.record));
    model_->written_[{layer, tile}] = value;
  }

  void check() {
    ASSERT_EQ(segment_->verify(), "");
    ASSERT_EQ(budget_->verify(), "");
    ASSERT_EQ(segment_->first_tile().value, model_->first_);
    ASSERT_EQ(segment_->end_tile().value, model_->end_);
    ASSERT_EQ(segment_->backed_bytes().value, model_->bytes(model_->tiles_));
    ASSERT_EQ(budget_->promised(), Bytes(0));
    std::erase_if(model_->written_, [&](const auto& entry) { return !model_->tiles_.contains(entry.first.second); });
    for (const auto& [place, value] : model_->written_) {
      const Stripe stripe = segment_->stripe(place.first);
      const std::byte* record = stripe.base + place.second * stripe.tile_stride;
      for (int64_t byte = 0; byte < shape_.record; byte += 61) {
        ASSERT_EQ(record[byte], static_cast<std::byte>(value)) << "layer " << place.first << " tile " << place.second;
      }
    }
  }

  std::mt19937_64 random_;
  Shape shape_;
  std::optional<SegmentModel> model_;
  std::optional<Budget> budget_;
  std::optional<Segment> segment_;
  std::array<double, kOperations> weights_{};
  bool has_memory_ = false;
};

TEST(SegmentModel, SimulationAgreesWithTheNaiveModel) {
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
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
