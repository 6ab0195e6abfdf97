// The pool against a naive model, under random operations over a port that may have too little memory or fail. The model keeps
// every set as a table of tiles in one list, in the order in which they were put, and searches it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kv/segment_pool.h"
#include "port/fault_vm.h"
#include "port/posix_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

// What a set should be. Its tiles fill granules, so that each has bytes of its own.
struct ModelSet {
  SegmentSet* set = nullptr;
  bool in_use = true;
  std::vector<std::vector<std::optional<Purpose>>> tiles;  // by group and tile

  [[nodiscard]] int64_t bytes(const std::vector<LayerGroupSpec>& groups, Purpose purpose) const {
    int64_t sum = 0;
    for (size_t group = 0; group < groups.size(); ++group) {
      sum += std::count(tiles[group].begin(), tiles[group].end(), purpose) * tile_bytes(groups[group]).value;
    }
    return sum;
  }
};

class PoolModel {
 public:
  // The last of the class that was put, if there is one.
  std::optional<ModelSet> take(TileCount max_tiles) {
    for (auto entry = sets_.rbegin(); entry != sets_.rend(); ++entry) {
      if (entry->in_use || static_cast<int64_t>(entry->tiles[0].size()) != max_tiles.value) continue;
      ModelSet taken = *entry;
      sets_.erase(std::next(entry).base());
      taken.in_use = true;
      return taken;
    }
    return {};
  }
  // Those on the warm list, oldest first.
  [[nodiscard]] std::vector<ModelSet*> warm_list() {
    std::vector<ModelSet*> list;
    for (ModelSet& entry : sets_) {
      if (!entry.in_use) list.push_back(&entry);
    }
    return list;
  }
  void put(size_t index, const std::vector<LayerGroupSpec>& groups, size_t longest) {
    ModelSet entry = sets_[index];
    sets_.erase(sets_.begin() + static_cast<int64_t>(index));
    entry.in_use = false;
    for (auto& of_group : entry.tiles) {
      for (std::optional<Purpose>& tile : of_group) tile = tile ? std::optional(Purpose::kWarm) : std::nullopt;
    }
    if (entry.bytes(groups, Purpose::kWarm) == 0) return;
    sets_.push_back(entry);
    if (warm_list().size() > longest) drop_oldest();
  }
  void drop_oldest() {
    sets_.erase(std::find_if(sets_.begin(), sets_.end(), [](const ModelSet& entry) { return !entry.in_use; }));
  }

  std::vector<ModelSet> sets_;
};

enum Operation { kTake, kPut, kBack, kSetPurpose, kGiveBack, kShed, kOperations };
constexpr std::array kTilePurposes{Purpose::kLive, Purpose::kShared, Purpose::kCached, Purpose::kWarm};

// One random life of a pool.
class Life {
 public:
  Life(port::Vm& port, uint64_t seed)
      : random_(seed),
        groups_{{.name = "full", .layers = {0, 2}, .tile_record = port.granule() * 2, .window = {}},
                {.name = "window", .layers = {1}, .tile_record = port.granule(), .window = 64}},
        options_{.largest = TileCount(1 + pick(20)), .warm_sets = static_cast<size_t>(pick(6))},
        budget_(port.granule() * (20 + pick(400))),
        pool_(port, budget_, groups_, options_) {
    for (double& weight : weights_) weight = pick(4) == 0 ? 0 : 1 + pick(9);
    weights_[kTake] += 0.5;
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
    if (operation == kTake) return take();
    if (operation == kShed) return shed(pick(4) == 0 ? budget_.limit() : Bytes(pick(12 * 4096)));
    std::vector<size_t> in_use;
    for (size_t index = 0; index < model_.sets_.size(); ++index) {
      if (model_.sets_[index].in_use) in_use.push_back(index);
    }
    if (in_use.empty()) return;
    const size_t index = in_use[static_cast<size_t>(pick(static_cast<int64_t>(in_use.size())))];
    if (operation == kPut) {
      pool_.put(model_.sets_[index].set);
      return model_.put(index, groups_, options_.warm_sets);
    }
    change(operation, model_.sets_[index], static_cast<size_t>(pick(2)));
  }

  void take() {
    const TileCount tiles(1 + pick(24));
    const TileCount expected = std::min(size_class(std::min(tiles, options_.largest)), options_.largest);
    const size_t before = pool_.sets();
    const Result<SegmentSet*> set = pool_.take(tiles);
    if (!set.ok()) {
      EXPECT_EQ(pool_.sets(), before);
      return;
    }
    std::optional<ModelSet> known = model_.take(expected);
    if (!known)
      known = ModelSet{.set = *set, .tiles = {2, std::vector<std::optional<Purpose>>(static_cast<size_t>(expected.value))}};
    ASSERT_EQ(*set, known->set);
    EXPECT_EQ((*set)->max_tiles(), expected);
    EXPECT_EQ((*set)->end, TileIndex(0));
    EXPECT_EQ((*set)->places, 0);
    (*set)->end = TileIndex(1);
    (*set)->places = 1;
    model_.sets_.push_back(*known);
  }

  void change(Operation operation, ModelSet& entry, size_t group) {
    Segment& segment = entry.set->segment(group);
    const int64_t first = pick(segment.max_tiles().value);
    const TileRun run{first, first + 1 + pick(segment.max_tiles().value - first)};
    const Purpose purpose = kTilePurposes[static_cast<size_t>(pick(kTilePurposes.size()))];
    bool backed = false;
    if (operation == kBack) {
      const Result<Space> space = segment.back(run, purpose);
      backed = space.ok() && *space == Space::kOk;
    } else if (operation == kSetPurpose) {
      segment.set_purpose(run, purpose);
    } else {
      segment.give_back(run);
    }
    for (int64_t index = run.first; index < run.end; ++index) {
      std::optional<Purpose>& tile = entry.tiles[group][static_cast<size_t>(index)];
      if (operation == kGiveBack) tile.reset();
      if (backed || (operation == kSetPurpose && tile)) tile = purpose;
    }
  }

  void shed(Bytes bytes) {
    const Bytes backed = budget_.backed();
    const Bytes most = pool_.sheddable();
    // Whole sets, oldest first; their page tables are the segments' to know.
    Bytes of_sets;
    while (of_sets < bytes && !model_.warm_list().empty()) {
      const ModelSet& oldest = *model_.warm_list().front();
      of_sets += Bytes(oldest.bytes(groups_, Purpose::kWarm));
      for (size_t group = 0; group < 2; ++group) of_sets += oldest.set->segment(group).page_table_bytes();
      model_.drop_oldest();
    }
    const Bytes freed = pool_.shed(bytes);
    EXPECT_EQ(freed, backed - budget_.backed());
    EXPECT_GE(freed, std::min(bytes, most));
    EXPECT_GE(freed, of_sets);
    // Then tiles, whichever, one at most too many.
    EXPECT_LT(freed - of_sets, std::max(bytes - of_sets, Bytes(1)) + tile_bytes(groups_[0]));
    Bytes of_tiles;
    for (ModelSet& entry : model_.sets_) of_tiles += follow_shed_tiles(entry, of_sets < bytes);
    EXPECT_EQ(freed, of_sets + of_tiles);
  }

  Bytes follow_shed_tiles(ModelSet& entry, bool may_be_shed) {
    Bytes bytes;
    for (size_t group = 0; group < 2; ++group) {
      for (size_t tile = 0; tile < entry.tiles[group].size(); ++tile) {
        std::optional<Purpose>& purpose = entry.tiles[group][tile];
        if (!may_be_shed || purpose != Purpose::kWarm) continue;
        if (entry.set->segment(group).purpose(TileIndex(static_cast<int64_t>(tile)))) continue;
        purpose.reset();
        bytes += tile_bytes(groups_[group]);
      }
    }
    return bytes;
  }

  void check() {
    ASSERT_EQ(pool_.verify(), "");
    ASSERT_EQ(budget_.verify(), "");
    ASSERT_EQ(pool_.sets(), model_.sets_.size());
    ASSERT_EQ(pool_.warm_sets(), model_.warm_list().size());
    std::array<int64_t, kPurposes> bytes{};
    Bytes tables_of_list;
    for (const ModelSet& entry : model_.sets_) {
      for (const Purpose purpose : kTilePurposes) bytes[static_cast<size_t>(purpose)] += entry.bytes(groups_, purpose);
      for (size_t group = 0; group < 2; ++group) {
        const Segment& segment = entry.set->segment(group);
        if (!entry.in_use) tables_of_list += segment.page_table_bytes();
        for (size_t tile = 0; tile < entry.tiles[group].size(); ++tile) {
          ASSERT_EQ(segment.purpose(TileIndex(static_cast<int64_t>(tile))), entry.tiles[group][tile]);
        }
      }
    }
    for (const Purpose purpose : kTilePurposes) {
      ASSERT_EQ(budget_.backed(purpose).value, bytes[static_cast<size_t>(purpose)]) << to_string(purpose);
    }
    ASSERT_EQ(pool_.sheddable(), budget_.backed(Purpose::kWarm) + tables_of_list);
  }

  std::mt19937_64 random_;
  std::vector<LayerGroupSpec> groups_;
  SegmentPoolOptions options_;
  Budget budget_;
  SegmentPool pool_;
  PoolModel model_;
  std::array<double, kOperations> weights_{};
};

TEST(SegmentPoolModel, SimulationAgreesWithTheNaiveModel) {
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    // Every third has too little memory behind it, every third fails at some call.
    const Bytes memory = seed % 3 == 1 ? Bytes(100 * 4096) : Bytes(INT64_MAX);
    port::SimVm inner({.physical_limit = memory});
    std::optional<port::FaultPlan> plan;
    if (seed % 3 == 2) {
      plan = port::FaultPlan{.nth_call = static_cast<int64_t>(seed / 3),
                             .forever = seed % 2 == 0,
                             .kind = seed % 4 < 2 ? port::FaultKind::kError : port::FaultKind::kNoMemory};
    }
    port::FaultyVm port(inner, plan);
    { Life(port, seed).run(80); }
    EXPECT_EQ(inner.counters().backed, Bytes(0));
    EXPECT_EQ(inner.counters().reservations, 0);
  }
}

TEST(SegmentPoolModel, TheHostAgreesWithTheNaiveModel) {
  port::PosixVm port;
  for (uint64_t seed = 1000; seed < 1040 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life(port, seed).run(80);
  }
}

}  // namespace
}  // namespace quire::kv
