// The rules of the cache, one example each.
#include "kv/kv_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "kv/kv_cache_test_support.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

constexpr Bytes kPlenty{64 << 20};
constexpr int64_t kTile = 8192;  // bytes of a tile of full_group(2, 4096)

// Without page tables, so that budgets can be counted in tiles.
class TablelessVm final : public port::Vm {
 public:
  explicit TablelessVm(port::Vm& inner) : inner_(inner) {}

  [[nodiscard]] Bytes granule() const override { return inner_.granule(); }
  [[nodiscard]] port::PageTables page_tables() const override { return {.reach = inner_.page_tables().reach, .table = Bytes(0)}; }
  [[nodiscard]] bool has_memory() const override { return inner_.has_memory(); }
  [[nodiscard]] Result<port::Reservation> reserve(Bytes bytes) override { return inner_.reserve(bytes); }
  [[nodiscard]] Result<port::Backing> back(const port::Reservation& reservation, port::VmRange range) override {
    return inner_.back(reservation, range);
  }
  void give_back(const port::Reservation& reservation, port::VmRange range) override { inner_.give_back(reservation, range); }
  [[nodiscard]] Bytes query(const port::Reservation& reservation, port::VmRange range) const override {
    return inner_.query(reservation, range);
  }
  void release(port::Reservation&& reservation) override { inner_.release(std::move(reservation)); }

 private:
  port::Vm& inner_;
};

// A cache whose sequences write and check every lane, and which verifies itself after each call.
class Users {
 public:
  explicit Users(std::vector<LayerGroupSpec> groups = {full_group(2, 4096)}, const KvCacheOptions& options = {.limit = kPlenty})
      : cache(port, std::move(groups), options) {}
  ~Users() {
    while (!held_.empty()) close(SequenceId(held_.begin()->first), KvCache::Keep::kDrop);
  }

  // Null when there was no room.
  std::optional<SequenceId> try_open(const Tokens& prompt, int64_t more = 1000, std::string_view key_space = "") {
    const auto id = cache.open(key_space, prompt, TokenCount(static_cast<int64_t>(prompt.size()) + more));
    EXPECT_TRUE(id.ok());
    if (id.ok() && *id) held_[(*id)->value] = first(prompt, cache.length(**id).value);
    check();
    return id.ok() ? *id : std::nullopt;
  }

  SequenceId open(const Tokens& prompt, int64_t more = 1000, std::string_view key_space = "") {
    const std::optional<SequenceId> id = try_open(prompt, more, key_space);
    QUIRE_CHECK(id.has_value());
    return *id;
  }

  SequenceId fork(SequenceId original) {
    const auto id = cache.fork(original);
    QUIRE_CHECK(id.ok() && *id);
    held_[(*id)->value] = held_.at(original.value);
    check();
    return **id;
  }

  // Computes tokens in one step; false: there was no room.
  bool compute(SequenceId id, const Tokens& tokens) {
    Tokens& held = held_.at(id.value);
    const Growth growth{.sequence = id, .length = TokenCount(static_cast<int64_t>(held.size() + tokens.size()))};
    const Result<Room> room = cache.prepare(std::span(&growth, 1));
    EXPECT_TRUE(room.ok());
    missing = room.ok() ? room->missing : Bytes(0);
    check();
    if (!room.ok() || room->space == Space::kNoSpace) return false;
    for (const TokenId token : tokens) {
      held.push_back(token);
      write_lane(cache, cache.groups(), id, held);
    }
    cache.append(id, tokens);
    check();
    return true;
  }

  // Opens, computes what is not there, in one step.
  SequenceId prefill(const Tokens& prompt, int64_t more = 1000, std::string_view key_space = "") {
    const SequenceId id = open(prompt, more, key_space);
    const auto length = cache.length(id).value;
    EXPECT_TRUE(compute(id, slice(prompt, length, static_cast<int64_t>(prompt.size()))));
    return id;
  }

  void close(SequenceId id, KvCache::Keep keep = KvCache::Keep::kCache) {
    cache.close(id, keep);
    held_.erase(id.value);
    check();
  }

  // A whole life that leaves its tokens in the cache.
  void remember(const Tokens& tokens, int64_t more = 0) { close(prefill(tokens, more)); }

  [[nodiscard]] int64_t known(const Tokens& tokens, std::string_view key_space = "") const {
    return cache.match(key_space, tokens + text(999, 1)).known.value;
  }
  [[nodiscard]] int64_t reusable(const Tokens& tokens) const { return cache.match("", tokens + text(999, 1)).reusable.value; }

  // Tiles of all groups by purpose.
  [[nodiscard]] int64_t live() const { return cache.usage().live.value / kTile; }
  [[nodiscard]] int64_t shared() const { return cache.usage().shared.value / kTile; }
  [[nodiscard]] int64_t cached() const { return cache.usage().cached.value / kTile; }
  [[nodiscard]] int64_t warm() const { return cache.usage().warm.value / kTile; }

  [[nodiscard]] int64_t nodes() const {
    const std::string dump = cache.dump();
    int64_t count = 0;
    for (size_t at = dump.find("  node "); at != std::string::npos; at = dump.find("  node ", at + 1)) ++count;
    return count;
  }

  // No byte moves but by its own sequence, and every count is what a recount finds.
  void check() {
    ASSERT_EQ(cache.verify(), "");
    for (const auto& [id, held] : held_) {
      for (size_t group = 0; group < cache.groups().size(); ++group) {
        const auto length = static_cast<int64_t>(held.size());
        const int64_t visible = cache.groups()[group].window.value_or(length + 1);
        for (int64_t position = std::max<int64_t>(0, length - visible + 1); position < length; ++position) {
          ASSERT_EQ(lane_fault(cache, cache.groups(), SequenceId(id), group, held, position), "");
        }
      }
    }
  }

  port::SimVm vm{{.real_memory = true}};
  TablelessVm port{vm};
  KvCache cache;
  Bytes missing;  // of the last compute()

 private:
  std::map<int64_t, Tokens> held_;
};

// --- Sharing

TEST(KvCache, ASequenceHoldsTilesForWhatItComputedAndNotForWhatItMayReach) {
  Users users;
  const SequenceId id = users.open(text(1, 100), 100000);
  EXPECT_EQ(users.cache.usage().backed, Bytes(0));
  EXPECT_TRUE(users.compute(id, text(1, 40)));
  EXPECT_EQ(users.live(), 2);
}

TEST(KvCache, WholeTilesAreShared) {
  Users users;
  const SequenceId a = users.prefill(text(1, 100));
  const int64_t calls = users.vm.counters().back_calls;
  const SequenceId b = users.open(text(1, 96) + text(2, 50));
  EXPECT_EQ(users.cache.length(b), TokenCount(96));
  EXPECT_EQ(users.vm.counters().back_calls, calls) << "a hit of whole tiles backs nothing";
  EXPECT_EQ(users.shared(), 3);
  EXPECT_EQ(users.live(), 1);
  EXPECT_EQ(users.cache.runs(b, 0)[0].base, users.cache.runs(a, 0)[0].base);
  EXPECT_TRUE(users.compute(b, text(2, 50)));
  EXPECT_EQ(users.shared(), 3);
  EXPECT_EQ(users.live(), 1 + 2);
}

TEST(KvCache, ThePartlyMatchingTileIsCopiedExactToTheToken) {
  for (const int64_t common : {1, 31, 32, 33, 63, 64, 95, 99}) {
    SCOPED_TRACE(common);
    Users users;
    const SequenceId a = users.prefill(text(1, 100));
    const SequenceId b = users.open(text(1, common) + text(2, 40));
    EXPECT_EQ(users.cache.length(b), TokenCount(common));
    EXPECT_EQ(users.shared(), common / 32);
    EXPECT_TRUE(users.compute(b, text(2, 40)));
    EXPECT_TRUE(users.compute(a, text(3, 40)));  // and users checks that neither wrote into the other's
  }
}

TEST(KvCache, TheLastTokenOfAPromptIsNeverMatched) {
  for (const int64_t size : {1, 2, 32, 33, 64}) {
    Users users;
    users.remember(text(1, size));
    const SequenceId again = users.open(text(1, size));
    EXPECT_EQ(users.cache.length(again), TokenCount(size - 1)) << "its logits must be computed";
  }
}

TEST(KvCache, AConversationGoesOnInPlace) {
  Users users;
  const Tokens turn = text(1, 40) + text(2, 30);
  users.remember(turn, 500);
  EXPECT_EQ(users.cached(), 3);
  const Bytes allocated = users.cache.usage().allocated;
  const SequenceId next = users.open(turn + text(3, 10));
  EXPECT_EQ(users.cache.length(next), TokenCount(70));
  EXPECT_EQ(users.live(), 3);
  EXPECT_EQ(users.cached(), 0);
  EXPECT_TRUE(users.compute(next, text(3, 200)));
  EXPECT_EQ(users.cache.runs(next, 0).size(), 1) << "one run of tiles, as if it had never ended";
  EXPECT_EQ(users.cache.usage().allocated - allocated, Bytes((9 - 3) * kTile)) << "nothing was copied";
}

TEST(KvCache, AConversationGoesOnInPlaceAlsoWhenItsEndWasEvicted) {
  Users users;
  users.remember(text(1, 320), 500);
  users.cache.set_limit(users.cache.usage().backed - Bytes(3 * kTile));
  EXPECT_EQ(users.cache.enforce_limit(), Bytes(0));
  users.cache.set_limit(kPlenty);
  const SequenceId next = users.open(text(1, 320));
  EXPECT_EQ(users.cache.length(next), TokenCount(224));
  EXPECT_TRUE(users.compute(next, slice(text(1, 320), 224, 320)));
  EXPECT_EQ(users.cache.runs(next, 0).size(), 1);
}

TEST(KvCache, TilesForAStepThatDoesNotComeGoWithTheirSequence) {
  Users users;
  const SequenceId id = users.prefill(text(1, 40), 500);
  const Growth growth{.sequence = id, .length = TokenCount(200)};
  const Result<Room> room = users.cache.prepare(std::span(&growth, 1));
  ASSERT_TRUE(room.ok() && room->space == Space::kOk);
  EXPECT_EQ(users.live(), 7);
  users.close(id);
  EXPECT_EQ(users.cached(), 2);
  const SequenceId next = users.prefill(text(1, 40) + text(2, 100));
  EXPECT_EQ(users.cache.runs(next, 0).size(), 1);
}

TEST(KvCache, OnlyOneContinuesInPlaceTheOtherCopies) {
  Users users;
  const Tokens turn = text(1, 70);
  users.remember(turn, 500);
  const SequenceId a = users.open(turn + text(2, 10));
  const SequenceId b = users.open(turn + text(3, 10));
  EXPECT_EQ(users.cache.length(a), TokenCount(70));
  EXPECT_EQ(users.cache.length(b), TokenCount(70));
  EXPECT_EQ(users.shared(), 2);
  EXPECT_EQ(users.live(), 2) << "the tile of the last six tokens, twice";
  EXPECT_TRUE(users.compute(a, text(2, 10)));
  EXPECT_TRUE(users.compute(b, text(3, 10)));
}

TEST(KvCache, WhoLeavesAConversationEarlierCopies) {
  Users users;
  users.remember(text(1, 70), 500);
  const SequenceId edited = users.prefill(text(1, 50) + text(2, 10));
  EXPECT_EQ(users.cache.runs(edited, 0).size(), 2);
  EXPECT_EQ(users.known(text(1, 70)), 70) << "the old turn stays";
  EXPECT_EQ(users.known(text(1, 50) + text(2, 10)), 60);
}

TEST(KvCache, BehindAFullReservationANewSegmentBegins) {
  Users users;
  users.remember(text(1, 64), 0);  // addresses for two tiles
  const SequenceId next = users.prefill(text(1, 64) + text(2, 100));
  EXPECT_EQ(users.cache.runs(next, 0).size(), 2);
  EXPECT_EQ(users.cache.runs(next, 0)[1].first_tile, TileIndex(2));
  users.close(next);
  EXPECT_EQ(users.known(text(1, 64) + text(2, 100)), 164);
}

TEST(KvCache, InsideItsLastTileAConversationContinuesAlsoInAFullReservation) {
  Users users;
  users.remember(text(1, 60), 0);
  (void)users.prefill(text(1, 60) + text(2, 100));
  EXPECT_EQ(users.cached(), 0);
  EXPECT_EQ(users.live(), 5) << "nothing was copied";
}

// Addresses in small pieces: nothing assumes that the next tile lies behind the last.
TEST(KvCache, APathThroughManySegmentsHasNoGaps) {
  Users users({full_group(2, 4096)}, {.limit = kPlenty, .segments = {.largest = TileCount(2)}});
  const SequenceId id = users.prefill(text(1, 300));
  EXPECT_TRUE(users.compute(id, text(2, 1)));
  const std::span<const kv::Run> runs = users.cache.runs(id, 0);
  ASSERT_EQ(runs.size(), 5);
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].first_tile, TileIndex(static_cast<int64_t>(2 * i)));
    EXPECT_EQ(runs[i].tiles, TileCount(2));
  }
}

TEST(KvCache, TheFirstPublisherWins) {
  Users users;
  const Tokens prompt = text(1, 100);
  const SequenceId a = users.open(prompt);
  const SequenceId b = users.open(prompt);
  EXPECT_EQ(users.cache.length(b), TokenCount(0)) << "nothing is computed yet";
  EXPECT_TRUE(users.compute(a, prompt));
  EXPECT_EQ(users.live(), 4);
  EXPECT_TRUE(users.compute(b, prompt));
  EXPECT_EQ(users.shared(), 3) << "b dropped its own whole tiles";
  EXPECT_EQ(users.live(), 2) << "each has its own last one";
  EXPECT_EQ(users.warm() + users.cached(), 0);
  EXPECT_EQ(users.nodes(), 3);
  EXPECT_EQ(users.cache.runs(b, 0)[0].base, users.cache.runs(a, 0)[0].base);
}

TEST(KvCache, TwoThatComputeTheSameInLockstepLeaveNoChainOfNodes) {
  Users users;
  const Tokens prompt = text(1, 1);
  const SequenceId a = users.open(prompt);
  const SequenceId b = users.open(prompt);
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(users.compute(a, {text(1, 200)[static_cast<size_t>(i)]}));
    EXPECT_TRUE(users.compute(b, {text(1, 200)[static_cast<size_t>(i)]}));
  }
  EXPECT_EQ(users.nodes(), 3);
  EXPECT_EQ(users.shared(), 6);
  EXPECT_EQ(users.live(), 2);
  users.close(a);
  users.close(b);
  EXPECT_EQ(users.cached(), 7);
  EXPECT_EQ(users.nodes(), 2);
}

TEST(KvCache, AForkSharesWholeTilesAndCopiesThePartialOne) {
  Users users;
  const SequenceId a = users.prefill(text(1, 70));
  std::vector<SequenceId> choices;
  for (int choice = 0; choice < 3; ++choice) choices.push_back(users.fork(a));
  EXPECT_EQ(users.shared(), 2);
  EXPECT_EQ(users.live(), 4);
  for (int choice = 0; choice < 3; ++choice) EXPECT_TRUE(users.compute(choices[static_cast<size_t>(choice)], text(5 + choice, 50)));
  EXPECT_TRUE(users.compute(a, text(4, 50)));
  EXPECT_EQ(users.shared(), 2);
  users.close(a);
  EXPECT_EQ(users.known(text(1, 70) + text(4, 50)), 120);
}

TEST(KvCache, AForkOfAnEmptySequenceIsEmpty) {
  Users users;
  const SequenceId a = users.open(text(1, 10));
  const SequenceId b = users.fork(a);
  EXPECT_EQ(users.cache.length(b), TokenCount(0));
  EXPECT_TRUE(users.compute(b, text(1, 10)));
}

TEST(KvCache, KeySpacesNeverShare) {
  Users users;
  const Tokens prompt = text(1, 100);
  const std::vector<std::string> spaces = {"", "a", "ab", "b", std::string("a\0", 2), "a "};
  for (size_t i = 0; i < spaces.size(); ++i) {
    for (size_t other = i; other < spaces.size(); ++other) EXPECT_EQ(users.known(prompt, spaces[other]), 0);
    users.close(users.prefill(prompt, 0, spaces[i]));
    EXPECT_EQ(users.known(prompt, spaces[i]), 100) << "and its own repetition is a hit";
  }
}

TEST(KvCache, WithoutSharingNothingIsMatchedAndNothingStays) {
  Users users({full_group(2, 4096)}, {.limit = kPlenty, .share = false});
  const SequenceId a = users.prefill(text(1, 100));
  const SequenceId b = users.prefill(text(1, 100));
  EXPECT_EQ(users.live(), 8);
  users.close(a);
  EXPECT_EQ(users.cached(), 0);
  const SequenceId choice = users.fork(b);
  EXPECT_EQ(users.shared(), 3) << "choices of one request share all the same";
  users.close(choice);
}

TEST(KvCache, DroppedTextsAreNotFound) {
  Users users;
  users.close(users.prefill(text(1, 100)), KvCache::Keep::kDrop);
  EXPECT_EQ(users.known(text(1, 100)), 0);
  const SequenceId a = users.prefill(text(1, 100));
  const SequenceId b = users.prefill(text(1, 64) + text(2, 50));
  users.close(a, KvCache::Keep::kDrop);
  EXPECT_EQ(users.known(text(1, 100)), 64) << "what another holds stays";
  EXPECT_TRUE(users.compute(b, text(2, 10)));
}

// --- Purposes

TEST(KvCache, ATileServesOnePurposeAfterTheOther) {
  Users users;
  const Tokens prompt = text(1, 64);
  const SequenceId a = users.prefill(prompt, 0);
  EXPECT_EQ(users.live(), 2);
  const SequenceId b = users.open(prompt + text(2, 1), 0);
  EXPECT_EQ(users.shared(), 2);
  users.close(b);
  EXPECT_EQ(users.live(), 2);
  users.close(a);
  EXPECT_EQ(users.cached(), 2);
  EXPECT_EQ(users.cache.usage().evictable, users.cache.usage().backed);
  const SequenceId c = users.open(prompt, 0);  // 63 of them: one tile shared, one copied
  EXPECT_EQ(users.live(), 2);
  EXPECT_EQ(users.cached(), 1);
  users.close(c, KvCache::Keep::kDrop);
  EXPECT_EQ(users.cached(), 2);
  EXPECT_EQ(users.warm(), 1);
  users.cache.clear();
  EXPECT_EQ(users.cache.usage().backed, Bytes(0));
  EXPECT_EQ(users.vm.counters().reserved, Bytes(0));
}

TEST(KvCache, WarmMemoryIsUsedAgainWithoutACallToThePort) {
  Users users;
  users.close(users.prefill(text(1, 100), 0), KvCache::Keep::kDrop);
  EXPECT_EQ(users.warm(), 4);
  const port::SimVmCounters before = users.vm.counters();
  (void)users.prefill(text(2, 100), 0);
  EXPECT_EQ(users.vm.counters().back_calls, before.back_calls);
  EXPECT_EQ(users.vm.counters().reserved, before.reserved);
  EXPECT_EQ(users.warm(), 0);
}

TEST(KvCache, LiveBytesThatHoldNoTokenAreAtMostATileForEachRunningSequence) {
  Users users;
  std::mt19937_64 random(7);
  std::vector<SequenceId> ids;
  Bytes needed;
  for (int i = 0; i < 40; ++i) {
    ids.push_back(users.prefill(text(i, 1 + static_cast<int64_t>(random() % 300))));
    needed += Bytes(users.cache.length(ids.back()).value * kTile / kTileTokens);
    const Bytes waste = users.cache.usage().live - needed;
    EXPECT_LT(waste, Bytes(kTile * (i + 1)));
  }
  users.close(ids[0]);
  EXPECT_EQ(users.cache.usage().live + users.cache.usage().cached, users.cache.usage().backed);
}

// --- Room

TEST(KvCache, TheLastTileHasRoomForMoreWhenNothingElseHas) {
  for (int64_t used = 1; used <= 32; ++used) {
    for (int64_t more = 1; more <= 40; more += 3) {
      Users users({full_group(2, 4096)}, {.limit = Bytes(kTile)});
      const SequenceId id = users.prefill(text(1, used));
      EXPECT_EQ(users.cache.usage().backed, users.cache.usage().limit);
      EXPECT_EQ(users.compute(id, text(2, more)), used + more <= 32) << used << " + " << more;
    }
  }
}

TEST(KvCache, ARefusedStepChangesNothing) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(6 * kTile)});
  const SequenceId a = users.prefill(text(1, 90));
  const SequenceId b = users.prefill(text(2, 60));
  const std::string before = users.cache.dump();
  const std::vector<Growth> growths = {{a, TokenCount(97)}, {b, TokenCount(90)}};
  for (int repeat = 0; repeat < 100; ++repeat) {
    const Result<Room> room = users.cache.prepare(growths);
    ASSERT_TRUE(room.ok());
    EXPECT_EQ(room->space, Space::kNoSpace);
    EXPECT_EQ(room->missing, Bytes(kTile)) << "exactly what a smaller step must leave out";
    EXPECT_EQ(users.cache.dump(), before);
  }
  EXPECT_TRUE(users.compute(a, text(1, 32)));
}

TEST(KvCache, MoreThanTheWholeBudgetIsRefusedWithTheNumbers) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(4 * kTile)});
  const SequenceId id = users.open(text(1, 1000));
  EXPECT_FALSE(users.compute(id, text(1, 1000)));
  EXPECT_EQ(users.cache.usage().backed, Bytes(0));
  EXPECT_EQ(users.missing, users.cache.growth_bytes(TokenCount(0), TokenCount(1000), TokenCount(1000)) - users.cache.usage().limit);
  EXPECT_TRUE(users.compute(id, text(1, 100)));
}

TEST(KvCache, WhatIsBackedNeverExceedsTheLimit) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(20 * kTile)});
  for (int i = 0; i < 100; ++i) users.remember(text(i, 40 + i % 7 * 30));
  EXPECT_LE(users.vm.counters().peak_backed, users.cache.usage().limit);
  EXPECT_LE(users.cache.usage().backed, users.cache.usage().limit);
  EXPECT_GT(users.cache.usage().evicted_tokens, TokenCount(0));
}

// An index of what is cached is bounded by what is cached.
TEST(KvCache, TheTreeDoesNotOutgrowTheMemoryThatItDescribes) {
  port::SimVm vm;
  KvCache cache(vm, {full_group(1, 4096)}, {.limit = Bytes(1 << 20)});
  for (int i = 0; i < 20000; ++i) {
    const Tokens prompt(60, i);
    const auto id = cache.open(std::to_string(i % 7), prompt, TokenCount(60));
    ASSERT_TRUE(id.ok() && *id);
    const Growth growth{.sequence = **id, .length = TokenCount(60)};
    const Result<Room> room = cache.prepare(std::span(&growth, 1));
    ASSERT_TRUE(room.ok() && room->space == Space::kOk);
    cache.append(**id, prompt);
    cache.close(**id, KvCache::Keep::kCache);
  }
  const std::string dump = cache.dump();
  EXPECT_LE(std::count(dump.begin(), dump.end(), '\n'), (1 << 20) / (2 * 4096) + 7 + 10);
  EXPECT_EQ(cache.verify(), "");
}

// --- Eviction

TEST(KvCache, WhatWasUsedLongestAgoGoesFirst) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(12 * kTile)});
  for (const int name : {1, 2, 3}) users.remember(text(name, 96));
  users.close(users.open(text(1, 97)));  // 1 is used again
  (void)users.prefill(text(4, 130));
  EXPECT_EQ(users.known(text(1, 96)), 96);
  EXPECT_LT(users.known(text(2, 96)), 96);
  EXPECT_EQ(users.known(text(3, 96)), 96);
}

TEST(KvCache, AskingIsNotUsing) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(12 * kTile)});
  for (const int name : {1, 2, 3}) users.remember(text(name, 96));
  const std::string before = users.cache.dump();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(users.known(text(1, 96)), 96);
  EXPECT_EQ(users.cache.dump(), before);
  (void)users.prefill(text(4, 130));
  EXPECT_LT(users.known(text(1, 96)), 96) << "still the first to go";
}

TEST(KvCache, CacheGoesFromItsEndAndItsBeginningStays) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(10 * kTile)});
  users.remember(text(1, 320));
  const SequenceId id = users.open(text(2, 320), 0);
  for (int64_t tiles = 1; tiles <= 9; ++tiles) {
    EXPECT_TRUE(users.compute(id, slice(text(2, 320), (tiles - 1) * 32, tiles * 32)));
    EXPECT_EQ(users.known(text(1, 320)), (10 - tiles) * 32) << "no more goes than must";
  }
}

TEST(KvCache, BranchesGoBeforeTheirTrunk) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(10 * kTile)});
  const Tokens trunk = text(1, 96);
  users.remember(trunk + text(2, 64));
  users.remember(trunk + text(3, 64));
  (void)users.prefill(text(4, 160));
  EXPECT_GE(users.known(trunk), 96);
  EXPECT_EQ(users.known(trunk + text(2, 64)), 96);
  EXPECT_EQ(users.known(trunk + text(3, 64)), 96 + 64) << "the one used later stays";
}

TEST(KvCache, SetsThatHoldNothingAreUnmappedAsAWhole) {
  Users users({full_group(2, 4096)}, {.limit = kPlenty});
  users.remember(text(1, 320));
  users.remember(text(2, 320));
  const Bytes reserved = users.vm.counters().reserved;
  users.cache.set_limit(users.cache.usage().backed - Bytes(10 * kTile));
  EXPECT_EQ(users.cache.enforce_limit(), Bytes(0));
  EXPECT_EQ(users.known(text(1, 320)), 0);
  EXPECT_EQ(users.vm.counters().reserved, Bytes(reserved.value / 2));
}

TEST(KvCache, EvictionNeverTouchesWhatRuns) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(10 * kTile)});
  const SequenceId a = users.prefill(text(1, 160));
  const SequenceId b = users.prefill(text(1, 96) + text(2, 64));
  EXPECT_EQ(users.live() + users.shared(), 7);
  EXPECT_TRUE(users.compute(b, text(2, 96)));
  EXPECT_FALSE(users.compute(a, text(3, 32)));
  EXPECT_EQ(users.missing, Bytes(kTile));
  EXPECT_EQ(users.cache.enforce_limit(), Bytes(0));
  users.cache.set_limit(Bytes(0));
  EXPECT_EQ(users.cache.enforce_limit(), users.cache.usage().backed) << "only their end would free it";
  users.check();
  EXPECT_EQ(users.cache.usage().evicted, Bytes(0));
}

TEST(KvCache, AHitIsNotEvictedToMakeRoomForItsOwnRest) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(12 * kTile)});
  users.remember(text(1, 160), 0);  // the oldest
  users.remember(text(2, 160), 0);
  const SequenceId again = users.open(text(1, 160) + text(3, 160));
  EXPECT_EQ(users.cache.length(again), TokenCount(160));
  EXPECT_TRUE(users.compute(again, text(3, 160)));
  EXPECT_EQ(users.known(text(1, 160)), 160);
  EXPECT_LT(users.known(text(2, 160)), 160);
}

TEST(KvCache, TheTileThatIsBeingCopiedStays) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(kTile)});
  users.remember(text(1, 20), 0);
  const std::string before = users.cache.dump();
  EXPECT_FALSE(users.try_open(text(1, 10) + text(2, 20), 0)) << "room for one tile, and that is the source";
  EXPECT_EQ(users.known(text(1, 20)), 20);
  EXPECT_EQ(users.cache.dump(), before);
}

TEST(KvCache, BehindTheTileThatIsBeingCopiedCacheMayGo) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(5 * kTile)});
  users.remember(text(1, 160), 0);
  const SequenceId id = users.open(text(1, 10) + text(2, 20), 0);
  EXPECT_EQ(users.cache.length(id), TokenCount(10));
  EXPECT_EQ(users.known(text(1, 160)), 128);
}

TEST(KvCache, ALimitThatFallsIsMadeTrueInBoundedPieces) {
  Users users;
  for (int name = 0; name < 10; ++name) users.remember(text(name, 320), 0);
  const SequenceId running = users.prefill(text(20, 320), 0);
  users.cache.set_limit(Bytes(30 * kTile));
  int pieces = 0;
  while (users.cache.usage().backed > users.cache.usage().limit) {
    const Bytes before = users.cache.usage().backed;
    ASSERT_EQ(users.cache.enforce_limit(Bytes(4 * kTile)), Bytes(0));
    const Bytes freed = before - users.cache.usage().backed;
    EXPECT_GT(freed, Bytes(0));
    EXPECT_LE(freed, Bytes(5 * kTile));
    users.check();
    ++pieces;
  }
  EXPECT_GE(pieces, 16);
  users.cache.set_limit(Bytes(4 * kTile));
  const Bytes over = users.cache.enforce_limit();
  EXPECT_EQ(over, users.cache.usage().backed - Bytes(4 * kTile));
  EXPECT_EQ(users.live(), 10);
  users.close(running);
  EXPECT_EQ(users.cache.enforce_limit(), Bytes(0));
  EXPECT_LE(users.cache.usage().backed, Bytes(4 * kTile));
}

TEST(KvCache, ManyDrainsEndWhereTheyBegan) {
  Users users;
  users.remember(text(0, 100), 0);
  for (int round = 0; round < 50; ++round) {
    const SequenceId a = users.prefill(text(0, 100) + text(1, 40), 0);
    const SequenceId b = users.open(text(0, 50) + text(2, 40), 0);
    const SequenceId c = users.fork(a);
    users.close(a, KvCache::Keep::kDrop);
    users.close(c, KvCache::Keep::kDrop);
    users.close(b, KvCache::Keep::kDrop);  // in the middle of its prompt
    EXPECT_EQ(users.live() + users.shared(), 0);
    EXPECT_EQ(users.cached(), 4);
    EXPECT_EQ(users.cache.usage().evictable, users.cache.usage().backed);
  }
  EXPECT_EQ(users.known(text(0, 100)), 100);
}

TEST(KvCacheDeath, ASequenceIsClosedOnce) {
  port::SimVm vm;
  KvCache cache(vm, {full_group(1, 4096)}, {.limit = kPlenty});
  const auto id = cache.open("", text(1, 10), TokenCount(10));
  ASSERT_TRUE(id.ok() && *id);
  cache.close(**id, KvCache::Keep::kCache);
  EXPECT_DEATH(cache.close(**id, KvCache::Keep::kCache), "sequence 0 is open");
}

// --- Windows: one tile holds 8,192 bytes, of the full group and the windowed one 4,096 each.

std::vector<LayerGroupSpec> with_window(int64_t positions) { return {full_group(1, 4096), window_group(1, 4096, positions)}; }

// Tiles of the windowed group that running sequences read, when each of the others reads all.
int64_t windowed_tiles(const Users& users, int64_t full_tiles) {
  return (users.cache.usage().live + users.cache.usage().shared).value / 4096 - full_tiles;
}

TEST(KvCacheWindows, TilesBehindTheWindowGoAtOnce) {
  Users users(with_window(64), {.limit = kPlenty, .share = false});
  const SequenceId id = users.prefill(text(1, 300));
  EXPECT_EQ(windowed_tiles(users, 10), 3);  // positions 237 to 299
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(users.compute(id, {i}));
    EXPECT_LE(windowed_tiles(users, ceil_div(301 + i, 32)), 3);
  }
}

// Two sequences write far beyond the window: positions stay absolute and no tile is anybody's default.
TEST(KvCacheWindows, BeyondTheWindowEverybodyWritesHisOwnTiles) {
  Users users(with_window(64));
  const SequenceId a = users.prefill(text(1, 10));
  const SequenceId b = users.prefill(text(2, 10));
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(users.compute(a, {i}));
    EXPECT_TRUE(users.compute(b, {i}));
  }
  EXPECT_EQ(users.cache.usage().live, Bytes((2 * 7 + 2 * 3) * 4096));
}

TEST(KvCacheWindows, AHitEndsAtACheckpoint) {
  Users users(with_window(64));
  users.remember(text(1, 200));
  EXPECT_EQ(users.known(text(1, 200)), 200);
  EXPECT_EQ(users.reusable(text(1, 200)), 200) << "the end of a sequence";
  EXPECT_EQ(users.reusable(first(text(1, 200), 199) + text(2, 10)), 199) << "one before the prompt's end";
  EXPECT_EQ(users.known(text(1, 150) + text(2, 10)), 150);
  EXPECT_EQ(users.reusable(text(1, 150) + text(2, 10)), 0) << "what the window there needs is gone";
}

TEST(KvCacheWindows, TheSamePromptAgainIsAHitToItsLastToken) {
  Users users(with_window(64));
  const SequenceId first_time = users.prefill(text(1, 200));
  EXPECT_TRUE(users.compute(first_time, text(2, 100)));
  users.close(first_time);
  const SequenceId again = users.open(text(1, 200));
  EXPECT_EQ(users.cache.length(again), TokenCount(199));
  EXPECT_TRUE(users.compute(again, text(3, 100)));
}

TEST(KvCacheWindows, WherePromptsPartTheThirdFindsACheckpoint) {
  Users users(with_window(64));
  users.remember(text(1, 150) + text(2, 100));
  const Tokens second = text(1, 150) + text(3, 100);
  EXPECT_EQ(users.reusable(second), 0);
  users.remember(second);
  const SequenceId third = users.open(text(1, 150) + text(4, 100));
  EXPECT_EQ(users.cache.length(third), TokenCount(150));
  EXPECT_TRUE(users.compute(third, text(4, 100)));
}

TEST(KvCacheWindows, ALeaderLeavesACheckpointForItsFollowers) {
  Users users(with_window(64));
  const SequenceId leader = users.open(text(1, 400));
  users.cache.want_checkpoint(leader, TokenCount(130));
  EXPECT_TRUE(users.compute(leader, first(text(1, 400), 120)));
  EXPECT_EQ(users.reusable(text(1, 130)), 0);
  EXPECT_TRUE(users.compute(leader, slice(text(1, 400), 120, 400)));
  const SequenceId follower = users.open(text(1, 130) + text(2, 50));
  EXPECT_EQ(users.cache.length(follower), TokenCount(130));
  EXPECT_TRUE(users.compute(follower, text(2, 50)));
}

TEST(KvCacheWindows, ACheckpointWhereTheLeaderStandsIsMadeAtOnce) {
  Users users(with_window(64));
  const SequenceId leader = users.prefill(text(1, 130));
  users.cache.want_checkpoint(leader, TokenCount(130));
  users.cache.want_checkpoint(leader, TokenCount(60));  // it has passed there
  users.check();
  EXPECT_TRUE(users.compute(leader, text(2, 300)));
  EXPECT_EQ(users.reusable(text(1, 130)), 130);
  EXPECT_EQ(users.reusable(text(1, 60)), 0);
}

TEST(KvCacheWindows, TheCheckpointUsedLongestAgoGoesFirst) {
  Users users(with_window(64));
  for (const int name : {1, 2, 3}) users.remember(text(name, 96));
  users.close(users.open(text(1, 96) + text(9, 1)));
  users.cache.set_limit(users.cache.usage().backed - Bytes(1));
  EXPECT_EQ(users.cache.enforce_limit(), Bytes(0));
  EXPECT_EQ(users.reusable(text(1, 96)), 96);
  EXPECT_LT(users.reusable(text(2, 96)), 96);
  EXPECT_EQ(users.reusable(text(3, 96)), 96);
}

TEST(KvCacheWindows, AForkInTheMiddleOfAWindowGoesOn) {
  Users users(with_window(64));
  const SequenceId a = users.prefill(text(1, 150));
  const SequenceId b = users.fork(a);
  EXPECT_TRUE(users.compute(a, text(2, 150)));
  EXPECT_TRUE(users.compute(b, text(3, 150)));
}

// --- A step in three parts

TEST(KvCacheSteps, BackingRunsBesideAskingAndViews) {
  Users users;
  const SequenceId id = users.prefill(text(1, 100));
  const Growth growth{.sequence = id, .length = TokenCount(200)};
  BackingPlan plan;
  ASSERT_EQ(users.cache.plan(std::span(&growth, 1), plan).space, Space::kOk);
  EXPECT_EQ(plan.bytes(), Bytes(3 * kTile));
  std::thread helper([&] { plan.back(); });
  EXPECT_EQ(users.known(text(1, 100)), 100);
  EXPECT_EQ(users.cache.runs(id, 0).size(), 1);
  helper.join();
  const Result<Space> committed = users.cache.commit(std::move(plan));
  ASSERT_TRUE(committed.ok());
  EXPECT_EQ(*committed, Space::kOk);
  EXPECT_EQ(users.live(), 7);
}

TEST(KvCacheSteps, APlanIsChargedBeforeItIsBacked) {
  Users users({full_group(2, 4096)}, {.limit = Bytes(4 * kTile)});
  const SequenceId id = users.open(text(1, 128));
  const Growth growth{.sequence = id, .length = TokenCount(128)};
  {
    BackingPlan plan;
    ASSERT_EQ(users.cache.plan(std::span(&growth, 1), plan).space, Space::kOk);
    EXPECT_NE(users.cache.dump().find("budget promised 32768\n"), std::string::npos);
    plan.back();
    ASSERT_TRUE(users.cache.commit(std::move(plan)).ok());
  }
  EXPECT_NE(users.cache.dump().find("budget promised 0\n"), std::string::npos);
}

TEST(KvCacheSteps, RunsChangeOnlyWhenTheirVersionDoes) {
  Users users;
  const SequenceId id = users.prefill(text(1, 10), 500);
  const int64_t version = users.cache.runs_version(id);
  const std::vector<kv::Run> runs(users.cache.runs(id, 0).begin(), users.cache.runs(id, 0).end());
  for (int i = 0; i < 400; ++i) EXPECT_TRUE(users.compute(id, {i}));
  EXPECT_EQ(users.cache.runs_version(id), version) << "a view can be kept as long as the segment reaches";
  EXPECT_EQ(std::vector<kv::Run>(users.cache.runs(id, 0).begin(), users.cache.runs(id, 0).end()), runs);
}

// Offsets beyond 32 bits, of bytes and of elements.
TEST(KvCacheSteps, PlacesOfHugeLayersAreExact) {
  port::SimVm vm;
  const int64_t record = int64_t{1} << 20;
  KvCache cache(vm, {full_group(3, record)}, {.limit = Bytes(int64_t{1} << 40)});
  const auto id = cache.open("", text(1, 1), TokenCount(10'000 * kTileTokens));
  ASSERT_TRUE(id.ok() && *id);
  const Growth growth{.sequence = **id, .length = TokenCount(9'000 * kTileTokens)};
  const Result<Room> room = cache.prepare(std::span(&growth, 1));
  ASSERT_TRUE(room.ok() && room->space == Space::kOk);
  const kv::Run& run = cache.runs(**id, 0)[0];
  EXPECT_EQ(run.tile_stride, record);
  EXPECT_EQ(run.layer_stride, size_class(TileCount(10'000)).value * record);
  EXPECT_GT(2 * run.layer_stride, int64_t{1} << 34);
  const std::byte* last = lane(cache, **id, 0, 2, 8'999 * kTileTokens);
  EXPECT_EQ(last - run.base, 2 * size_class(TileCount(10'000)).value * record + 8'999 * record);
  cache.close(**id, KvCache::Keep::kDrop);
}

}  // namespace
}  // namespace quire::kv
