// The cache against a naive model, over random calls: real memory is written as a forward pass would write it, every lane with a
// fingerprint of all tokens up to its own, and read as one would read it. Whatever is freed, aliased or copied wrongly shows as a
// wrong fingerprint.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "kv/kv_cache.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

using Tokens = std::vector<TokenId>;

uint64_t fingerprint(std::span<const TokenId> tokens) {
  uint64_t hash = 1469598103934665603ULL;
  for (const TokenId token : tokens) hash = (hash ^ static_cast<uint64_t>(token + 1)) * 1099511628211ULL;
  return hash;
}

// What a naive cache would know: every text that somebody computed and did not drop.
struct Model {
  struct Open {
    std::string key;
    Tokens prompt;
    Tokens held;
    int64_t max_tokens;
  };
  std::map<int64_t, Open> open;
  std::set<std::pair<std::string, Tokens>> kept;

  [[nodiscard]] int64_t longest_match(const std::string& key, const Tokens& prompt) const {
    int64_t best = 0;
    const auto consider = [&](const std::string& other_key, const Tokens& held) {
      if (other_key == key) best = std::max(best, common_beginning(prompt, held));
    };
    for (const auto& [id, sequence] : open) consider(sequence.key, sequence.held);
    for (const auto& [other_key, held] : kept) consider(other_key, held);
    return std::min(best, static_cast<int64_t>(prompt.size()) - 1);
  }
};

struct Setting {
  const char* name;
  std::vector<LayerGroupSpec> groups;
  Bytes limit;
  bool share = true;
  TileCount largest{INT64_MAX};
};

class RandomRun {
 public:
  RandomRun(const Setting& setting, uint64_t seed)
      : setting_(setting),
        random_(seed),
        vm_({.granule = Bytes(4096), .real_memory = true}),
        cache_(vm_, setting.groups, {.limit = setting.limit, .share = setting.share, .segments = {.largest = setting.largest}}) {
    for (int& weight : weights_) weight = pick(3) == 0 ? 0 : pick(8);
    weights_[0] += 2;
    weights_[1] += 4;
    alphabet_ = 1 + pick(3);
    drops_ = pick(2);
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      int choice = pick(std::max(1, weights_[0] + weights_[1] + weights_[2] + weights_[3] + weights_[4] + weights_[5]));
      int action = 0;
      while (action < 5 && choice >= weights_[action]) choice -= weights_[action++];
      switch (action) {
        case 0: open(); break;
        case 1: grow(); break;
        case 2: close(); break;
        case 3: fork(); break;
        case 4: change_limit(); break;
        default: want(); break;
      }
      check(fmt::format("step {} action {}", step, action));
    }
    while (!model_.open.empty()) close();
    check("closed");
    cache_.clear();
    EXPECT_EQ(cache_.usage().backed, Bytes(0));
    EXPECT_EQ(vm_.counters().backed, Bytes(0));
    EXPECT_EQ(vm_.counters().reserved, Bytes(0));
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(std::max(1, count))); }

  Tokens random_tokens(int count) {
    Tokens tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(pick(5) == 0 ? pick(alphabet_ + 1) : 0);
    return tokens;
  }

  // Often the beginning of something that is known, so that hits, joins and cuts happen everywhere.
  Tokens prompt() {
    Tokens tokens;
    if (pick(4) != 0 && !seen_.empty()) {
      tokens = seen_[static_cast<size_t>(pick(static_cast<int>(seen_.size())))];
      if (pick(2) == 0) tokens.resize(static_cast<size_t>(1 + pick(static_cast<int>(tokens.size()))));
    }
    const Tokens more = random_tokens(1 + pick(pick(2) == 0 ? 200 : 20));
    tokens.insert(tokens.end(), more.begin(), more.end());
    if (tokens.size() > 700) tokens.resize(700);
    return tokens;
  }

  void open() {
    if (model_.open.size() > 12) return;
    const std::string key = pick(4) == 0 ? "other" : "";
    const Tokens tokens = prompt();
    const auto max_tokens = static_cast<int64_t>(tokens.size()) + pick(200);
    const Match match = cache_.match(key, tokens);
    const int64_t known = setting_.share ? model_.longest_match(key, tokens) : 0;
    EXPECT_LE(match.known.value, known);
    EXPECT_LE(match.reusable, match.known);
    if (cache_.usage().evicted_tokens == TokenCount(0) && !dropped_) {
      EXPECT_EQ(match.known.value, known) << "nothing was ever lost";
    }
    const auto opened = cache_.open(key, tokens, TokenCount(max_tokens));
    ASSERT_TRUE(opened.ok());
    if (!*opened) return;
    const int64_t length = cache_.length(**opened).value;
    EXPECT_EQ(length, match.reusable.value);
    model_.open[(*opened)->value] = {key, tokens, Tokens(tokens.begin(), tokens.begin() + length), max_tokens};
  }

  int64_t any_open() {
    auto at = model_.open.begin();
    std::advance(at, pick(static_cast<int>(model_.open.size())));
    return at->first;
  }

  Tokens next_tokens(const Model::Open& sequence) {
    const auto held = static_cast<int64_t>(sequence.held.size());
    const auto rest = static_cast<int64_t>(sequence.prompt.size()) - held;
    if (rest > 0) {
      const int64_t count = 1 + pick(static_cast<int>(std::min<int64_t>(rest, 150)));
      return {sequence.prompt.begin() + held, sequence.prompt.begin() + held + count};
    }
    return held < sequence.max_tokens ? random_tokens(1) : Tokens();
  }

  // One step of some of the open sequences.
  void grow() {
    std::vector<Growth> growths;
    std::map<int64_t, Tokens> steps;
    for (const auto& [id, sequence] : model_.open) {
      if (pick(3) == 0) continue;
      Tokens tokens = next_tokens(sequence);
      if (tokens.empty()) continue;
      growths.push_back({SequenceId(id), TokenCount(static_cast<int64_t>(sequence.held.size() + tokens.size()))});
      steps[id] = std::move(tokens);
    }
    const auto room = cache_.prepare(growths);
    ASSERT_TRUE(room.ok());
    if (room->space == Space::kNoSpace) {
      EXPECT_GT(room->missing.value, 0);
      if (!model_.open.empty() && pick(2) == 0) close();
      return;
    }
    for (auto& [id, tokens] : steps) {
      Model::Open& sequence = model_.open.at(id);
      for (const TokenId token : tokens) {
        sequence.held.push_back(token);
        write_last(id, sequence.held);
      }
    }
    for (auto& [id, tokens] : steps) cache_.append(SequenceId(id), tokens);
  }

  void close() {
    if (model_.open.empty()) return;
    const int64_t id = any_open();
    const Model::Open closed = model_.open.at(id);
    model_.open.erase(id);
    const bool keep = pick(4) >= drops_;
    cache_.close(SequenceId(id), keep ? KvCache::Keep::kCache : KvCache::Keep::kDrop);
    // What others published of a dropped text may stay: the naive model cannot know how much, and is generous.
    model_.kept.insert({closed.key, closed.held});
    if (!keep) dropped_ = true;
    if (!closed.held.empty()) seen_.push_back(closed.held);
    if (seen_.size() > 20) seen_.erase(seen_.begin());
  }

  void fork() {
    if (model_.open.empty() || model_.open.size() > 12) return;
    const int64_t id = any_open();
    const auto forked = cache_.fork(SequenceId(id));
    ASSERT_TRUE(forked.ok());
    if (!*forked) return;
    EXPECT_EQ(cache_.length(**forked).value, static_cast<int64_t>(model_.open.at(id).held.size()));
    model_.open[(*forked)->value] = model_.open.at(id);
  }

  void change_limit() {
    cache_.set_limit(Bytes(pick(2) == 0 ? setting_.limit.value : setting_.limit.value * pick(100) / 100));
    const Bytes over = cache_.enforce_limit();
    EXPECT_TRUE(over.value > 0 || cache_.usage().backed <= cache_.usage().limit);
  }

  void want() {
    if (model_.open.empty()) return;
    const int64_t id = any_open();
    cache_.want_checkpoint(SequenceId(id), TokenCount(static_cast<int64_t>(model_.open.at(id).held.size()) + pick(100)));
  }

  std::byte* lane(int64_t id, size_t group, int64_t layer, int64_t position) {
    const int64_t tile = position / kTileTokens;
    for (const Run& run : cache_.runs(SequenceId(id), group)) {
      if (tile < run.first_tile.value || tile >= run.first_tile.value + run.tiles.value) continue;
      return run.base + layer * run.layer_stride + (tile - run.first_tile.value) * run.tile_stride + position % kTileTokens * 8;
    }
    ADD_FAILURE() << "no run has position " << position;
    return nullptr;
  }

  void write_last(int64_t id, const Tokens& held) {
    const uint64_t value = fingerprint(held);
    for (size_t group = 0; group < setting_.groups.size(); ++group) {
      for (size_t layer = 0; layer < setting_.groups[group].layers.size(); ++layer) {
        const uint64_t own = value + group * 1000 + layer;
        std::byte* place = lane(id, group, static_cast<int64_t>(layer), static_cast<int64_t>(held.size()) - 1);
        if (place != nullptr) std::memcpy(place, &own, 8);
      }
    }
  }

  void check(const std::string& when) {
    const std::string problem = cache_.verify();
    ASSERT_EQ(problem, "") << when;
    for (const auto& [id, sequence] : model_.open) {
      const auto length = static_cast<int64_t>(sequence.held.size());
      ASSERT_EQ(cache_.length(SequenceId(id)).value, length) << when;
      for (size_t group = 0; group < setting_.groups.size(); ++group) {
        const std::optional<int64_t> window = setting_.groups[group].window;
        const int64_t first = window ? std::max<int64_t>(0, length - *window + 1) : 0;
        // A few positions, the ends always.
        for (int64_t position = length - 1; position >= first; position -= position == length - 1 ? 1 : 1 + pick(40)) {
          const uint64_t value = fingerprint(std::span(sequence.held).first(static_cast<size_t>(position) + 1));
          for (size_t layer = 0; layer < setting_.groups[group].layers.size(); ++layer) {
            const std::byte* place = lane(id, group, static_cast<int64_t>(layer), position);
            ASSERT_NE(place, nullptr);
            uint64_t found = 0;
            std::memcpy(&found, place, 8);
            ASSERT_EQ(found, value + group * 1000 + layer)
                << when << ": sequence " << id << " group " << group << " position " << position << " of " << length;
          }
        }
      }
    }
  }

  const Setting setting_;
  std::mt19937_64 random_;
  port::SimVm vm_;
  KvCache cache_;
  Model model_;
  std::vector<Tokens> seen_;
  std::array<int, 6> weights_ = {};
  int alphabet_ = 1;
  int drops_ = 0;  // of four
  bool dropped_ = false;
};

LayerGroupSpec full(int layers, int64_t record) {
  LayerGroupSpec group{.name = "full", .layers = {}, .tile_record = Bytes(record), .window = {}};
  for (int layer = 0; layer < layers; ++layer) group.layers.push_back(layer);
  return group;
}
LayerGroupSpec window(int layer, int64_t record, int64_t positions) {
  return {.name = "window", .layers = {layer}, .tile_record = Bytes(record), .window = positions};
}

class KvCacheModel : public ::testing::TestWithParam<Setting> {};

TEST_P(KvCacheModel, RandomRunsKeepTheInvariants) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRun(GetParam(), seed).run(150);
  }
}

constexpr int64_t kMiB = 1 << 20;
INSTANTIATE_TEST_SUITE_P(Settings, KvCacheModel,
                         ::testing::Values(Setting{"full_plenty", {full(2, 4096)}, Bytes(64 * kMiB)},
                                           Setting{"full_scarce", {full(2, 4096)}, Bytes(400 << 10)},
                                           Setting{"full_small_records", {full(3, 320)}, Bytes(100 << 10)},
                                           Setting{"full_small_sets", {full(1, 4096)}, Bytes(kMiB), true, TileCount(2)},
                                           Setting{"windowed_plenty", {full(1, 4096), window(1, 8192, 70)}, Bytes(64 * kMiB)},
                                           Setting{"windowed_scarce", {full(1, 4096), window(1, 8192, 70)}, Bytes(500 << 10)},
                                           Setting{"windows_only", {window(0, 4096, 33), window(1, 704, 100)}, Bytes(300 << 10)},
                                           Setting{"tiny_window", {full(1, 4096), window(1, 4096, 1)}, Bytes(kMiB)},
                                           Setting{"unshared", {full(2, 4096)}, Bytes(kMiB), false}),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace quire::kv
