// What the scheduler sees of the KV memory, and who computes what others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/job.h"
#include "kv/kv_cache.h"
#include "sched/scheduler.h"

namespace quire::engine {

// Offers are remembered: a waiting job is compared with the cache again only when what it could find has changed.
class LoopMemory final : public sched::MemoryView {
 public:
  // A sequence grows by at most `step` tokens at once. All arguments must outlive the view.
  LoopMemory(const kv::KvCache& cache, const JobTable& jobs, const std::vector<Job*>& running, TokenCount step)
      : cache_(cache),
        jobs_(jobs),
        running_(running),
        step_(step),
        ceiling_(cache.usage().limit),
        highest_before_(ceiling_),
        highest_(ceiling_) {}

  [[nodiscard]] Usage usage() const override;
  [[nodiscard]] Bytes growth(TokenCount from, TokenCount to) const override;
  [[nodiscard]] Offer offer(sched::JobId id, std::span<const sched::JobId> opening) const override;

  // What the cache may hold. A ceiling that dips, or a limit of the cache that is lower since the system has refused memory, is a
  // reason to wait; requests are refused, and replies cut, by the highest ceiling of the last half to whole minute.
  void set_ceiling(Bytes ceiling, int64_t now_ns);

  // Sequences were opened or closed, prompts went on, cache was evicted.
  void content_changed() { ++epoch_; }

  // Positions that followers wait for, by leader, since the last call.
  struct AwaitedPosition {
    sched::JobId leader;
    TokenCount position;
  };
  [[nodiscard]] std::vector<AwaitedPosition> take_awaited();

 private:
  [[nodiscard]] bool still_follows(const OfferMemo& memo) const;
  void look_for_leader(Job& job, std::span<const sched::JobId> opening) const;

  const kv::KvCache& cache_;
  const JobTable& jobs_;
  const std::vector<Job*>& running_;
  const TokenCount step_;
  Bytes ceiling_;
  Bytes highest_before_;  // ceiling of the window before this one
  Bytes highest_;         // of this one
  std::optional<int64_t> window_began_ns_;
  int64_t epoch_ = 0;
  mutable std::vector<AwaitedPosition> awaited_;
};

}  // namespace quire::engine
