// Memory that cannot be had at any moment: the Nth call to the port fails, for every N, once and from then on. Nothing is lost,
// nothing leaks, every count holds, and who was refused goes on when there is memory again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "kv/kv_cache_test_support.h"
#include "port/fault_vm.h"
#include "port/sim_vm.h"

namespace quire::kv {
namespace {

class Script {
 public:
  Script(port::Vm& vm, std::vector<LayerGroupSpec> groups, Bytes limit, bool recovers)
      : limit_(limit), recovers_(recovers), cache_(vm, std::move(groups), {.limit = limit}) {}

  void run() {
    const Tokens shared = text(1, 150);
    open("a", shared + text(2, 60), 400);
    compute("a", 100);
    compute("a", 110);
    open("b", first(shared, 140) + text(3, 40), 400);  // whole tiles shared, one copied
    open("c", text(4, 90), 100);
    step({"a", "b", "c"}, 40);
    fork("a", "a2");
    step({"a", "a2", "b", "c"}, 30);
    close("c", KvCache::Keep::kCache);
    close("b", KvCache::Keep::kDrop);
    open("c2", text(4, 90) + text(5, 40), 400);  // in place, then beyond the old reservation
    compute("c2", 90);
    open("d", text(6, 300), 320);
    compute("d", 150);
    step({"a", "a2", "c2", "d"}, 33);
    compute("d", 100);
    for (const char* name : {"a", "c2", "d"}) close(name, KvCache::Keep::kCache);
    open("e", shared + text(7, 400), 560);  // does not fit beside all cache
    compute("e", 200);
    compute("e", 200);
    for (const char* name : {"a2", "e"}) close(name, KvCache::Keep::kCache);
  }

  // Closed by whatever way, nothing is backed.
  void end() {
    while (!open_.empty()) close(open_.begin()->first, KvCache::Keep::kCache);
    cache_.clear();
    EXPECT_EQ(cache_.usage().backed, Bytes(0));
  }

  [[nodiscard]] int64_t evicted() const { return cache_.usage().evicted.value; }
  [[nodiscard]] int refusals() const { return refusals_; }

 private:
  struct Open {
    SequenceId id;
    Tokens prompt;
    Tokens held;
  };

  // Tries again, as an engine would a step later.
  template <typename Call>
  bool attempt(const Call& call) {
    for (int attempts = 0; attempts < 3; ++attempts) {
      const std::string before = cache_.dump();
      const Bytes limit = cache_.usage().limit;
      const bool done = call();
      check();
      if (done) return true;
      ++refusals_;
      // A port without memory lowers the limit to what is backed; everything else leaves it.
      const Usage usage = cache_.usage();
      EXPECT_TRUE(usage.limit == limit || usage.limit <= usage.backed) << before << cache_.dump();
      EXPECT_EQ(cache_.sequences(), open_.size());
      cache_.set_limit(limit_);
    }
    EXPECT_FALSE(recovers_) << "memory is there again, and nobody gets it\n" << cache_.dump();
    return false;
  }

  void open(const std::string& name, const Tokens& prompt, int64_t max_tokens) {
    attempt([&] {
      const auto id = cache_.open("", prompt, TokenCount(max_tokens));
      if (!id.ok() || !*id) return false;
      open_[name] = {**id, prompt, first(prompt, cache_.length(**id).value)};
      return true;
    });
  }

  void fork(const std::string& original, const std::string& name) {
    if (!open_.contains(original)) return;
    attempt([&] {
      const auto id = cache_.fork(open_.at(original).id);
      if (!id.ok() || !*id) return false;
      open_[name] = open_.at(original);
      open_[name].id = **id;
      return true;
    });
  }

  void compute(const std::string& name, int64_t tokens) { step({name}, tokens); }

  // One step of those that are there; all of them or none.
  void step(const std::vector<std::string>& names, int64_t count) {
    attempt([&] {
      std::vector<Growth> growths;
      for (const std::string& name : names) {
        const auto found = open_.find(name);
        if (found == open_.end()) continue;
        growths.push_back({found->second.id, TokenCount(static_cast<int64_t>(found->second.held.size()) + count)});
      }
      const Result<Room> room = cache_.prepare(growths);
      if (!room.ok() || room->space == Space::kNoSpace) return false;
      for (const std::string& name : names) {
        const auto found = open_.find(name);
        if (found == open_.end()) continue;
        Open& sequence = found->second;
        Tokens tokens;
        for (int64_t i = 0; i < count; ++i) {
          const size_t position = sequence.held.size();
          tokens.push_back(position < sequence.prompt.size() ? sequence.prompt[position] : static_cast<TokenId>(position));
          sequence.held.push_back(tokens.back());
          write_lane(cache_, cache_.groups(), sequence.id, sequence.held);
        }
        cache_.append(sequence.id, tokens);
      }
      return true;
    });
  }

  void close(const std::string& name, KvCache::Keep keep) {
    const auto found = open_.find(name);
    if (found == open_.end()) return;
    cache_.close(found->second.id, keep);
    open_.erase(found);
    check();
  }

  void check() {
    ASSERT_EQ(cache_.verify(), "");
    for (const auto& [name, sequence] : open_) {
      const auto length = static_cast<int64_t>(sequence.held.size());
      ASSERT_EQ(cache_.length(sequence.id), TokenCount(length)) << name;
      for (size_t group = 0; group < cache_.groups().size(); ++group) {
        const int64_t visible = cache_.groups()[group].window.value_or(length + 1);
        for (int64_t position = std::max<int64_t>(0, length - visible + 1); position < length; ++position) {
          ASSERT_EQ(lane_fault(cache_, cache_.groups(), sequence.id, group, sequence.held, position), "") << name;
        }
      }
    }
  }

  Bytes limit_;
  bool recovers_;
  KvCache cache_;
  std::map<std::string, Open> open_;
  int refusals_ = 0;
};

using Groups = std::vector<LayerGroupSpec>;
class KvCacheFaults : public ::testing::TestWithParam<Groups> {};

TEST_P(KvCacheFaults, TheNthCallToThePortFails) {
  // So scarce that cache must go on the way, and all are served.
  Bytes limit;
  {
    port::SimVm vm({.real_memory = true});
    Script script(vm, GetParam(), Bytes(INT64_MAX), true);
    script.run();
    script.end();
    limit = Bytes(vm.counters().peak_backed.value * 9 / 10);
  }
  int64_t calls = 0;
  {
    port::SimVm vm({.real_memory = true});
    port::FaultyVm faulty(vm);
    Script script(faulty, GetParam(), limit, true);
    script.run();
    calls = faulty.calls();
    EXPECT_GT(script.evicted(), 0) << "the script is to need eviction";
    EXPECT_EQ(script.refusals(), 0);
    script.end();
  }
  ASSERT_GT(calls, 30);
  int refused_runs = 0;
  for (const port::FaultKind kind : {port::FaultKind::kNoMemory, port::FaultKind::kError}) {
    for (const bool forever : {false, true}) {
      for (int64_t nth = 0; nth < calls && !HasFailure(); ++nth) {
        SCOPED_TRACE(fmt::format("call {} fails {} with {}", nth, forever ? "and all later ones" : "once",
                                 kind == port::FaultKind::kError ? "an error" : "no memory"));
        port::SimVm vm({.real_memory = true});
        port::FaultyVm faulty(vm, port::FaultPlan{.nth_call = nth, .forever = forever, .kind = kind});
        {
          Script script(faulty, GetParam(), limit, !forever);
          script.run();
          refused_runs += script.refusals() > 0 ? 1 : 0;
          script.end();
        }
        EXPECT_GT(faulty.calls(), nth);
        EXPECT_EQ(vm.counters().backed, Bytes(0));
        EXPECT_EQ(vm.counters().reserved, Bytes(0));
      }
    }
  }
  EXPECT_GT(refused_runs, 3 * calls) << "a fault is mostly seen, not swallowed";
}

INSTANTIATE_TEST_SUITE_P(Groups, KvCacheFaults,
                         ::testing::Values(Groups{full_group(2, 4096)}, Groups{full_group(1, 4096), window_group(1, 4096, 80)},
                                           Groups{full_group(3, 2560)}));

// Errors of the port reach the caller with their place; having no memory is no error.
TEST(KvCacheFaultRoads, AnErrorIsAnErrorAndNoMemoryIsNot) {
  for (const port::FaultKind kind : {port::FaultKind::kNoMemory, port::FaultKind::kError}) {
    port::SimVm vm;
    port::FaultyVm faulty(vm, port::FaultPlan{.nth_call = 1, .kind = kind});
    KvCache cache(faulty, {full_group(2, 4096)}, {.limit = Bytes(1 << 20)});
    const auto id = cache.open("", text(1, 40), TokenCount(40));
    ASSERT_TRUE(id.ok() && *id);
    const Growth growth{.sequence = **id, .length = TokenCount(40)};
    const Result<Room> room = cache.prepare(std::span(&growth, 1));
    if (kind == port::FaultKind::kError) {
      ASSERT_FALSE(room.ok());
      EXPECT_NE(room.error().message.find("KV memory"), std::string::npos) << room.error().message;
      EXPECT_EQ(cache.usage().limit, Bytes(1 << 20));
    } else {
      ASSERT_TRUE(room.ok());
      EXPECT_EQ(room->space, Space::kNoSpace);
      EXPECT_GT(room->missing, Bytes(0));
      EXPECT_EQ(cache.usage().limit, cache.usage().backed) << "there is no more than what is backed";
    }
    cache.close(**id, KvCache::Keep::kDrop);
  }
}

}  // namespace
}  // namespace quire::kv
