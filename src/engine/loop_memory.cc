#include "engine/loop_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire::engine {
namespace {

// Tokens that two jobs have in common from the beginning, at most all but the last one of `waiting`.
TokenCount common_beginning(const Job& waiting, const Job& other) {
  const auto end = waiting.tokens.end() - 1;
  const auto [mine, theirs] = std::mismatch(waiting.tokens.begin(), end, other.tokens.begin(), other.tokens.end());
  return TokenCount(mine - waiting.tokens.begin());
}

}  // namespace

sched::MemoryView::Usage LoopMemory::usage() const {
  const kv::Usage usage = cache_.usage();
  return {.limit = std::min(usage.limit, ceiling_),
          .held = usage.backed - usage.evictable,
          .evictable = usage.evictable,
          .ceiling = std::max(highest_before_, highest_)};
}

void LoopMemory::set_ceiling(Bytes ceiling, int64_t now_ns) {
  constexpr int64_t kWindowNs = 30'000'000'000;
  ceiling_ = ceiling;
  if (window_began_ns_ && now_ns - *window_began_ns_ < kWindowNs) {
    highest_ = std::max(highest_, ceiling);
    return;
  }
  highest_before_ = std::exchange(highest_, ceiling);
  window_began_ns_ = now_ns;
}

Bytes LoopMemory::growth(TokenCount from, TokenCount to) const { return cache_.growth_bytes(from, to, step_); }

sched::MemoryView::Offer LoopMemory::offer(sched::JobId id, std::span<const sched::JobId> opening) const {
  Job& job = *jobs_.at(id.value);
  OfferMemo& memo = job.offer;
  const bool is_new = memo.epoch != epoch_ && !still_follows(memo);
  if (is_new) {
    memo.match = cache_.match(job.key_space, job.tokens);
    memo.epoch = epoch_;
  }
  if (is_new || (memo.epoch == epoch_ && memo.opening != opening.size())) {
    look_for_leader(job, opening);
    memo.opening = opening.size();
  }
  return {.reusable = memo.match.reusable, .pinned = memo.match.pinned, .leader = memo.leader, .position = memo.position};
}

// What the follower would find meanwhile does not matter before the leader has passed the position.
bool LoopMemory::still_follows(const OfferMemo& memo) const {
  if (!memo.leader) return false;
  const auto leader = jobs_.find(memo.leader->value);
  return leader != jobs_.end() && leader->second->running() && leader->second->held < memo.position;
}

void LoopMemory::look_for_leader(Job& job, std::span<const sched::JobId> opening) const {
  // Waiting is worth a tile at least.
  TokenCount best = job.offer.match.reusable + TokenCount(kTileTokens - 1);
  std::optional<sched::JobId> leader;
  const auto consider = [&](const Job& other, TokenCount held) {
    const bool reads_prompt = other.length() - held > TokenCount(1);
    if (!reads_prompt || other.key_space != job.key_space) return;
    const TokenCount common = common_beginning(job, other);
    if (common <= best || common <= held) return;
    best = common;
    leader = other.id;
  };
  for (const Job* other : running_) consider(*other, other->held);
  for (const sched::JobId id : opening) {
    const Job& other = *jobs_.at(id.value);
    consider(other, other.offer.match.reusable);
  }
  job.offer.leader = leader;
  job.offer.position = best;
  if (leader) awaited_.push_back({.leader = *leader, .position = best});
}

std::vector<LoopMemory::AwaitedPosition> LoopMemory::take_awaited() { return std::exchange(awaited_, {}); }

}  // namespace quire::engine
