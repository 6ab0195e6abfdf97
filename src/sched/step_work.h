// What is computed in a step: everybody who decodes gets one token; what is left goes to prompts, tenants in turn.
#pragma once

#include <vector>

#include "sched/cost_model.h"
#include "sched/job_table.h"
#include "sched/order.h"
#include "sched/scheduler.h"

namespace quire::sched {

// Tokens of a prompt that a tenant gets in its turn. Several turns of one job in a step are one chunk.
inline constexpr int64_t kTurnTokens = 128;
// Tokens of prompts that a step takes whatever the cost model says.
inline constexpr int64_t kLeastPrefill = 32;

class StepWork {
 public:
  StepWork(const JobTable& table, const SchedulerOptions& options, const CostModel& cost, const OrderClock& clock)
      : table_(table), options_(options), cost_(cost), clock_(clock) {}

  // `last_decoded` is the admission number of the last job that decoded when not all could; it goes on after it.
  [[nodiscard]] std::vector<StepPlan::Work> plan(int64_t& last_decoded);

 private:
  struct Prompt {
    Urgency urgency;
    const Tenant* tenant;  // whose turn it is computed in
    const Job* job;
    int64_t tokens = 0;
  };
  // The prompts of a tenant, the most urgent first, and the virtual time that its next turn begins at.
  struct Turn {
    Urgency urgency;
    size_t next;
    size_t end;

    friend bool operator<(const Turn& a, const Turn& b) { return b.urgency < a.urgency; }
  };

  void decode(const std::vector<const Job*>& decoding, int64_t& last_decoded);
  void prefill(std::vector<Prompt>& prompts);
  [[nodiscard]] Prompt prompt_of(const Job& job) const;
  [[nodiscard]] int64_t rows_now(const Prompt& prompt) const;

  const JobTable& table_;
  const SchedulerOptions& options_;
  const CostModel& cost_;
  const OrderClock clock_;
  StepSize size_;
  std::vector<StepPlan::Work> work_;
};

}  // namespace quire::sched
