#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "sched/admission.h"
#include "sched/cost_model.h"
#include "sched/job_table.h"
#include "sched/length_predictor.h"
#include "sched/step_work.h"

namespace quire::sched {

namespace {

// Jobs that the limit stands in the way of are tried again so many times until they have stalled for too long.
constexpr int64_t kStallTries = 1000;
// When a plan had no time for everybody and nobody runs, the next one comes after so long.
constexpr int64_t kPaceNs = 1'000'000;

}  // namespace

std::string_view to_string(Reserve reserve) {
  switch (reserve) {
    case Reserve::kGuaranteed: return "guaranteed";
    case Reserve::kExpected: return "expected";
    case Reserve::kOptimistic: return "optimistic";
  }
  return "";
}

std::optional<Reserve> parse_reserve(std::string_view text) {
  for (const Reserve reserve : {Reserve::kGuaranteed, Reserve::kExpected, Reserve::kOptimistic}) {
    if (text == to_string(reserve)) return reserve;
  }
  return std::nullopt;
}

class Scheduler::Impl {
 public:
  explicit Impl(const SchedulerOptions& options) : options_(options), table_(options.ageing_ns) {
    QUIRE_CHECK(options.max_running >= 1 && options.step_tokens.value >= 1 && options.ageing_ns >= 1);
    QUIRE_CHECK(options.stall_limit_ns >= 0 && options.resume_headroom.value >= 0);
  }

  void submit(const JobSpec& spec) {
    table_.submit(spec);
    fresh_.push_back(spec.id);
  }

  void end(JobId id) {
    Job* job = table_.find(id);
    if (job == nullptr) return;
    lengths_.observe(job->generated);
    table_.erase(*job);
  }

  void set_resting(JobId id, bool resting) {
    if (Job* job = table_.find(id)) table_.set_resting(*job, resting);
  }

  StepPlan plan(int64_t now_ns, const MemoryView& memory) {
    now_ns_ = now_ns;
    ++plans_;
    StepPlan plan;
    const MemoryView::Usage usage = memory.usage();
    expire(plan);
    refuse_new_ones(memory, usage.most(), plan);
    table_.resume_due(plans_, now_ns);
    const bool shrunk = shrink(memory, usage, plan);
    table_.balance_tenants();
    bool cut_short = false;
    if (!shrunk && !stalled()) cut_short = admit(memory, usage, plan);
    note_resting();
    const OrderClock clock{.now_ns = now_ns, .ageing_ns = options_.ageing_ns, .most_urgent = table_.most_urgent()};
    plan.work = StepWork(table_, options_, cost_, clock).plan(last_decoded_);
    if (plan.work.empty()) plan.idle_until_ns = idle_until(plan, cut_short);
    suspensions_ += static_cast<int64_t>(plan.suspended.size());
    return plan;
  }

  void opened(JobId id, TokenCount reused) { table_.opened(table_.at(id), reused); }

  void not_opened(JobId id) {
    Job& job = table_.at(id);
    table_.not_opened(job);
    if (table_.running().empty()) {
      table_.pause(job, now_ns_, pause_end());
    } else {
      table_.block(job, now_ns_);
      if (!job.head && job.state == State::kWaiting) table_.put_off(job, plans_);
    }
  }

  std::optional<JobId> make_room() {
    Job* victim = table_.victim();
    if (victim == nullptr) return std::nullopt;
    if (table_.running().size() == 1) {
      table_.pause(*victim, now_ns_, pause_end());
      return std::nullopt;
    }
    ++suspensions_;
    table_.suspend(*victim);
    return victim->spec.id;
  }

  void restarted(JobId id) { table_.restart(table_.at(id)); }

  void computed(JobId id, TokenCount tokens, TokenCount generated) { table_.computed(table_.at(id), tokens, generated); }

  void step_took(const StepSize& size, int64_t ns) { cost_.learn(size, ns); }

  [[nodiscard]] double expected_ns(const StepSize& size) const { return cost_.expected_ns(size); }

  [[nodiscard]] Counts counts() const {
    const auto& running = table_.running();
    const auto resting = std::count_if(running.begin(), running.end(), [](const Job* job) { return job->resting; });
    return {.waiting = table_.waiting(),
            .following = table_.following(),
            .running = running.size(),
            .resting = static_cast<size_t>(resting),
            .suspended = table_.suspended(),
            .suspensions = suspensions_,
            .refusals = refusals_};
  }

  [[nodiscard]] std::optional<JobId> elder() const {
    const Job* elder = table_.elder();
    return elder == nullptr ? std::nullopt : std::optional(elder->spec.id);
  }

  [[nodiscard]] std::string verify() const { return table_.verify(); }
  [[nodiscard]] std::string dump() const;

 private:
  [[nodiscard]] int64_t pause_ns() const { return std::max<int64_t>(1, options_.stall_limit_ns / kStallTries); }
  [[nodiscard]] int64_t pause_end() const { return now_ns_ + pause_ns(); }

  void expire_one(JobId id, Expiry why, StepPlan& plan) {
    plan.expired.push_back({.job = id, .why = why});
    end(id);
  }

  void expire(StepPlan& plan) {
    while (!table_.deadlines().empty() && table_.deadlines().begin()->first <= now_ns_) {
      expire_one(table_.deadlines().begin()->second, Expiry::kDeadline, plan);
    }
    while (!table_.stalls().empty() && now_ns_ - table_.stalls().begin()->first >= options_.stall_limit_ns) {
      expire_one(table_.stalls().begin()->second, Expiry::kStalled, plan);
    }
  }

  // What can never fit does not wait for its turn to hear it.
  void refuse_new_ones(const MemoryView& memory, Bytes limit, StepPlan& plan) {
    for (const JobId id : std::exchange(fresh_, {})) {
      Job* job = table_.find(id);
      if (job == nullptr) continue;
      const TokenCount at_least = job->spec.max_new_asked ? job->spec.max_new : TokenCount(1);
      const Bytes needed = memory.growth(TokenCount(0), job->spec.prompt + at_least);
      if (needed <= limit) continue;
      plan.refused.push_back({.job = id, .needed = needed, .available = limit});
      ++refusals_;
      table_.erase(*job);
    }
  }

  // The limit has fallen below what is held: whoever must, goes; the next plan sees what came of it. True when somebody went.
  bool shrink(const MemoryView& memory, const MemoryView::Usage& usage, StepPlan& plan) {
    Bytes excess = usage.held - usage.limit;
    while (excess.value > 0) {
      Job* victim = table_.victim();
      if (victim == nullptr) break;
      const bool last = table_.running().size() == 1;
      const TokenCount own = std::min(victim->own, victim->held);
      excess -= std::max(Bytes(1), victim->held > own ? memory.growth(own, victim->held) : Bytes(0));
      plan.suspended.push_back(victim->spec.id);
      table_.suspend(*victim);
      if (last && !victim->resting) table_.pause(*victim, now_ns_, pause_end());
    }
    return !plan.suspended.empty();
  }

  // The only one that runs cannot grow: nobody may take what comes free.
  [[nodiscard]] bool stalled() const {
    const auto& running = table_.running();
    return std::any_of(running.begin(), running.end(), [](const Job* job) { return job->stalled_since_ns && !job->resting; });
  }

  bool admit(const MemoryView& memory, const MemoryView::Usage& usage, StepPlan& plan) {
    AdmissionRound round(table_, options_, lengths_, memory, usage, {.now_ns = now_ns_, .plan = plans_, .pause_ns = pause_ns()},
                         plan);
    round.run();
    refusals_ += round.refused();
    return round.cut_short();
  }

  void note_resting() {
    for (Job* job : table_.running()) {
      if (job->resting && !job->resting_since_ns) job->resting_since_ns = now_ns_;
    }
  }

  // When there may be something to do although nothing happens from outside.
  [[nodiscard]] std::optional<int64_t> idle_until(const StepPlan& plan, bool cut_short) const {
    if (!plan.suspended.empty() || !plan.opened.empty() || !plan.refused.empty() || !plan.expired.empty()) return now_ns_;
    std::optional<int64_t> until;
    const auto at_latest = [&](int64_t time_ns) { until = std::min(until.value_or(time_ns), time_ns); };
    if (cut_short) at_latest(now_ns_ + kPaceNs);
    if (!table_.deadlines().empty()) at_latest(table_.deadlines().begin()->first);
    if (!table_.stalls().empty()) at_latest(table_.stalls().begin()->first + options_.stall_limit_ns);
    if (!table_.pauses().empty()) at_latest(table_.pauses().begin()->first);
    for (const Job* job : table_.running()) {
      const bool in_the_way = job->resting_since_ns && table_.waiting() + table_.suspended() > 0;
      if (in_the_way && now_ns_ - *job->resting_since_ns < kRestGraceNs) at_latest(*job->resting_since_ns + kRestGraceNs);
    }
    return until;
  }

  const SchedulerOptions options_;
  JobTable table_;
  LengthPredictor lengths_;
  CostModel cost_;
  std::vector<JobId> fresh_;  // submitted since the last plan
  int64_t now_ns_ = 0;        // of the last plan
  int64_t plans_ = 0;
  int64_t last_decoded_ = 0;
  int64_t suspensions_ = 0;
  int64_t refusals_ = 0;
};

std::string Scheduler::Impl::dump() const {
  const Counts count = counts();
  std::string out =
      fmt::format("plan {}: {} waiting ({} follow), {} running ({} rest), {} suspended; {} suspensions, {} refusals\n", plans_,
                  count.waiting, count.following, count.running, count.resting, count.suspended, count.suspensions, count.refusals);
  const Job* elder = table_.elder();
  for (const Job* job : table_.sorted()) {
    constexpr std::string_view kStates[] = {"waiting", "following", "running", "suspended"};
    fmt::format_to(std::back_inserter(out), "job {} of '{}' priority {}: {}, {} of {} + {} tokens held, {} of {} generated",
                   job->spec.id.value, job->tenant->name, job->spec.priority, kStates[static_cast<size_t>(job->state)],
                   job->held.value, job->spec.prompt.value, job->generated.value, job->generated.value, job->max_new.value);
    if (job == elder) out += ", elder";
    if (job->head) out += ", head";
    if (job->resting) out += ", resting";
    if (job->pause_until_ns) out += ", paused";
    if (job->put_off_until > 0) out += ", put off";
    if (job->leader != nullptr)
      fmt::format_to(std::back_inserter(out), ", waits for {} at {}", job->leader->spec.id.value, job->position.value);
    out += '\n';
  }
  return out;
}

Scheduler::Scheduler(const SchedulerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Scheduler::~Scheduler() = default;

void Scheduler::submit(const JobSpec& job) { impl_->submit(job); }
void Scheduler::end(JobId job) { impl_->end(job); }
void Scheduler::set_resting(JobId job, bool resting) { impl_->set_resting(job, resting); }
StepPlan Scheduler::plan(int64_t now_ns, const MemoryView& memory) { return impl_->plan(now_ns, memory); }
void Scheduler::opened(JobId job, TokenCount reused) { impl_->opened(job, reused); }
void Scheduler::not_opened(JobId job) { impl_->not_opened(job); }
std::optional<JobId> Scheduler::make_room() { return impl_->make_room(); }
void Scheduler::restarted(JobId job) { impl_->restarted(job); }
void Scheduler::computed(JobId job, TokenCount tokens, TokenCount generated) { impl_->computed(job, tokens, generated); }
void Scheduler::step_took(const StepSize& size, int64_t ns) { impl_->step_took(size, ns); }
double Scheduler::expected_ns(const StepSize& size) const { return impl_->expected_ns(size); }
Scheduler::Counts Scheduler::counts() const { return impl_->counts(); }
std::optional<JobId> Scheduler::elder() const { return impl_->elder(); }
std::string Scheduler::verify() const { return impl_->verify(); }
std::string Scheduler::dump() const { return impl_->dump(); }

}  // namespace quire::sched
