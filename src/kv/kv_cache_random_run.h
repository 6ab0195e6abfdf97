// Random runs of the cache against a naive model, over whatever port: real memory is written and read as a forward pass would.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "kv/kv_cache_test_support.h"
#include "port/vm.h"

namespace quire::kv {

// What a naive cache would know: every text that somebody computed and did not drop.
struct NaiveCache {
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

struct RunSetting {
  const char* name;
  std::vector<LayerGroupSpec> groups;
  Bytes limit;
  bool share = true;
  TileCount largest{INT64_MAX};
  Bytes granule{4096};  // where the port lets choose
};

class RandomRun {
 public:
  RandomRun(const RunSetting& setting, port::Vm& vm, uint64_t seed)
      : setting_(setting),
        random_(seed),
        cache_(vm, setting.groups, {.limit = setting.limit, .share = setting.share, .segments = {.largest = setting.largest}}) {
    for (const LayerGroupSpec& group : setting.groups) page_tables_ += page_tables(vm, group);
    for (int& weight : weights_) weight = pick(3) == 0 ? 0 : pick(8);
    weights_[0] += 2;
    weights_[1] += 4;
    alphabet_ = 1 + pick(3);
    drops_ = pick(2);
  }

  // Everything is closed and cleared at the end.
  void run(int steps) {
    walk(steps);
    while (!model_.open.empty()) close();
    check("closed");
    cache_.clear();
    EXPECT_EQ(cache_.usage().backed, Bytes(0));
  }

  void walk(int steps) {
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
  }

  [[nodiscard]] const KvCache& cache() const { return cache_; }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(std::max(1, count))); }

  // Of a new set of any size, for the largest text.
  static Bytes page_tables(const port::Vm& vm, const LayerGroupSpec& group) {
    const port::PageTables shape = vm.page_tables();
    const int64_t stripe = group.tile_record.value * ceil_div(900, kTileTokens);
    return shape.table * (static_cast<int64_t>(group.layers.size()) * (ceil_div(stripe, shape.reach.value) + 1));
  }

  // What does not go however short memory is.
  [[nodiscard]] Bytes held_bytes() const {
    const Usage usage = cache_.usage();
    return usage.backed - usage.evictable;
  }

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
    const Bytes before = held_bytes();
    const auto opened = cache_.open(key, tokens, TokenCount(max_tokens));
    ASSERT_TRUE(opened.ok());
    EXPECT_LE(held_bytes(), before + match.pinned + page_tables_) << "what admission counts on";
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

  Tokens next_tokens(const NaiveCache::Open& sequence) {
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
    Bytes bound = held_bytes();
    for (const Growth& growth : growths) {
      const TokenCount from = cache_.length(growth.sequence);
      // Of a set that is reserved for more than this step.
      bound += page_tables_;
      bound += cache_.growth_bytes(from, growth.length, growth.length - from);
    }
    const auto room = cache_.prepare(growths);
    ASSERT_TRUE(room.ok());
    EXPECT_LE(held_bytes(), bound) << "what admission counts on";
    if (room->space == Space::kNoSpace) {
      EXPECT_GT(room->missing.value, 0);
      if (!model_.open.empty() && pick(2) == 0) close();
      return;
    }
    if (pick(12) == 0) return;  // the step does not come
    for (auto& [id, tokens] : steps) {
      NaiveCache::Open& sequence = model_.open.at(id);
      for (const TokenId token : tokens) {
        sequence.held.push_back(token);
        write_lane(cache_, setting_.groups, SequenceId(id), sequence.held);
      }
    }
    for (auto& [id, tokens] : steps) cache_.append(SequenceId(id), tokens);
  }

  void close() {
    if (model_.open.empty()) return;
    const int64_t id = any_open();
    const NaiveCache::Open closed = model_.open.at(id);
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
    if (pick(5) == 0) {
      const Bytes held = held_bytes();
      cache_.set_limit(Bytes(0));
      EXPECT_EQ(cache_.enforce_limit(), held);
      EXPECT_EQ(cache_.usage().backed, held) << "what is evictable can really go";
      EXPECT_EQ(cache_.usage().evictable, Bytes(0));
    }
    cache_.set_limit(Bytes(pick(2) == 0 ? setting_.limit.value : setting_.limit.value * pick(100) / 100));
    const Bytes over = cache_.enforce_limit();
    EXPECT_TRUE(over.value > 0 || cache_.usage().backed <= cache_.usage().limit);
  }

  void want() {
    if (model_.open.empty()) return;
    const int64_t id = any_open();
    cache_.want_checkpoint(SequenceId(id), TokenCount(static_cast<int64_t>(model_.open.at(id).held.size()) + pick(100)));
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
          ASSERT_EQ(lane_fault(cache_, setting_.groups, SequenceId(id), group, sequence.held, position), "")
              << when << ": sequence " << id;
        }
      }
    }
  }

  const RunSetting setting_;
  std::mt19937_64 random_;
  KvCache cache_;
  NaiveCache model_;
  std::vector<Tokens> seen_;
  std::array<int, 6> weights_ = {};
  Bytes page_tables_;
  int alphabet_ = 1;
  int drops_ = 0;  // of four
  bool dropped_ = false;
};

}  // namespace quire::kv
