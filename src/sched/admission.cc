#include "sched/admission.h"

#include <algorithm>

#include "base/check.h"

namespace quire::sched {

bool fits_alone(const MemoryView& memory, Bytes limit, TokenCount tokens) { return memory.growth(TokenCount(0), tokens) <= limit; }

TokenCount cut_to_fit(const MemoryView& memory, Bytes limit, TokenCount prompt, TokenCount max_new) {
  if (fits_alone(memory, limit, prompt + max_new)) return max_new;
  TokenCount fits(0);
  TokenCount too_many = max_new;
  while ((too_many - fits).value > 1) {
    const TokenCount middle((fits.value + too_many.value) / 2);
    (fits_alone(memory, limit, prompt + middle) ? fits : too_many) = middle;
  }
  return fits;
}

AdmissionRound::AdmissionRound(JobTable& table, const SchedulerOptions& options, const LengthPredictor& lengths,
                               const MemoryView& memory, const MemoryView::Usage& usage, const Step& step, StepPlan& plan)
    : table_(table),
      options_(options),
      lengths_(lengths),
      memory_(memory),
      step_(step),
      plan_(plan),
      usage_(usage),
      clock_{.now_ns = step.now_ns, .ageing_ns = options.ageing_ns, .most_urgent = table.most_urgent()} {}

// --- The order

Urgency AdmissionRound::urgency_of(const Job& job) const {
  // What a tenant's running jobs have still to compute counts as done: the next of its jobs comes after it.
  return urgency(job.age, job.tenant->service + job.tenant->admitted, clock_);
}

void AdmissionRound::push(Tenant& tenant) {
  // Suspended ones before new ones, also while the suspended one is the head.
  const Job* head = table_.head();
  const bool head_is_its_suspended = head != nullptr && head->tenant == &tenant && head->state == State::kSuspended;
  Job* job = nullptr;
  if (!tenant.suspended.empty()) {
    job = tenant.suspended.begin()->second;
  } else if (!tenant.waiting.empty() && !head_is_its_suspended) {
    job = tenant.waiting.begin()->second;
  }
  if (job == nullptr) return;
  tenants_.push_back({.urgency = urgency_of(*job), .tenant = &tenant});
  if (is_heap_) std::push_heap(tenants_.begin(), tenants_.end());
}

Job* AdmissionRound::next() {
  Job* head = table_.head();
  const bool ask_head = head != nullptr && !head_asked_;
  if (tenants_.empty() && !ask_head) return nullptr;
  if (ask_head && (tenants_.empty() || urgency_of(*head).level <= tenants_.front().urgency.level)) {
    head_asked_ = true;
    return head;
  }
  std::pop_heap(tenants_.begin(), tenants_.end());
  Tenant* tenant = tenants_.back().tenant;
  tenants_.pop_back();
  return (tenant->suspended.empty() ? tenant->waiting : tenant->suspended).begin()->second;
}

bool AdmissionRound::reserves(const Job& head) const {
  return head.blocked && (step_.now_ns - head.blocked->since_ns >= options_.ageing_ns ||
                          table_.admissions() - head.blocked->admissions >= kMostOvertaken);
}

bool AdmissionRound::is_full() const { return table_.running().size() >= static_cast<size_t>(options_.max_running); }

void AdmissionRound::run() {
  // Nobody is admitted past the elder.
  Job* elder = table_.elder();
  if (elder != nullptr && elder->state == State::kSuspended && (elder->ready || elder->head)) {
    if (is_full()) return suspend_a_resting_one();
    head_asked_ = elder->head;
    if (consider(*elder) == Outcome::kBlocked) return;
  }
  if (table_.head() != nullptr && nothing_fits()) return suspend_a_resting_one();
  for (const auto& tenant : table_.tenants()) push(*tenant);
  std::make_heap(tenants_.begin(), tenants_.end());
  is_heap_ = true;
  while (Job* job = next()) {
    if (offers_ >= kOffers) {
      cut_short_ = true;
      return;
    }
    if (is_full()) return suspend_a_resting_one();
    if (head_blocked_ && reserves(*table_.head())) return;
    Tenant& tenant = *job->tenant;
    const bool was_head = job->head;
    const bool was_suspended = job->state == State::kSuspended;
    const Outcome outcome = consider(*job);
    if (outcome == Outcome::kBlocked) {
      if (job->head) head_blocked_ = true;
      if (nothing_fits()) return;
      if (was_suspended) continue;  // and none of its tenant's
    }
    if (!was_head) push(tenant);
  }
}

// --- One job

AdmissionRound::Outcome AdmissionRound::consider(Job& job) {
  if (const std::optional<Outcome> outcome = consider_limit(job)) return *outcome;
  if (&job != table_.elder() && nothing_fits()) {
    blocked(job);
    return Outcome::kBlocked;
  }
  ++offers_;
  const MemoryView::Offer offer = memory_.offer(job.spec.id, opening_);
  if (job.state == State::kWaiting && follows(job, offer)) return Outcome::kFollows;
  switch (judge(job, offer)) {
    case Admission::kNow:
    case Admission::kAfterEviction: open(job, offer); return Outcome::kOpened;
    case Admission::kLater:
    case Admission::kNever: break;
  }
  blocked(job);
  return Outcome::kBlocked;
}

// What the limit alone decides.
std::optional<AdmissionRound::Outcome> AdmissionRound::consider_limit(Job& job) {
  const TokenCount at_least = job.spec.max_new_asked ? job.spec.max_new : TokenCount(1);
  if (job.state == State::kWaiting && !fits_alone(memory_, usage_.most(), job.spec.prompt + at_least)) {
    plan_.refused.push_back(
        {.job = job.spec.id, .needed = memory_.growth(TokenCount(0), job.spec.prompt + at_least), .available = usage_.most()});
    ++refused_;
    table_.erase(job);
    return Outcome::kRefused;
  }
  if (!job.spec.max_new_asked) {
    const TokenCount fits = cut_to_fit(memory_, usage_.most(), job.spec.prompt, job.spec.max_new);
    job.max_new = std::max({fits, job.generated + TokenCount(1), TokenCount(1)});
  }
  if (job.state == State::kSuspended && !fits_alone(memory_, usage_.most(), std::min(job.known() + TokenCount(1), job.end()))) {
    table_.pause(job, step_.now_ns, step_.now_ns + step_.pause_ns);
    return Outcome::kPaused;
  }
  return std::nullopt;
}

bool AdmissionRound::follows(Job& job, const MemoryView::Offer& offer) {
  if (!offer.leader || offer.position <= offer.reusable) return false;
  Job* leader = table_.find(*offer.leader);
  if (leader == nullptr || leader->state != State::kRunning || !leader->can_work() || leader->held >= offer.position) return false;
  table_.follow(job, *leader, offer.position);
  return true;
}

Reservation::Job AdmissionRound::reservation_job(const Job& job, TokenCount held) const {
  const TokenCount known = std::min(job.known(), job.end());
  return {.held = held,
          .known = known,
          .end = job.end(),
          .predicted = known + lengths_.remaining(job.generated, job.end() - known),
          .own = job.own,
          .holds = job.state == State::kRunning && !job.opening};
}

const Reservation& AdmissionRound::reservation() {
  if (!reservation_) {
    reservation_.emplace(options_.reserve, memory_);
    for (const Job* each : table_.running()) reservation_->add(reservation_job(*each, each->held));
  }
  return *reservation_;
}

// Those who run will need all that there is: nobody has to be asked.
bool AdmissionRound::nothing_fits() {
  return !table_.running().empty() && usage_.held + pinned_ + reservation().total() > usage_.limit;
}

Bytes AdmissionRound::set_aside(const Job& job, const Reservation::Job& candidate) {
  if (job.state == State::kWaiting) return reservation().with(candidate);

  // Coming back, it and all who run can go on for a while. The elder needs no more than that: promises to others are no obstacle.
  const auto some_steps = [&](Reservation::Job each) {
    each.end = std::min(each.known + options_.resume_headroom, each.end);
    return each;
  };
  if (!headroom_) {
    headroom_.emplace(Reserve::kGuaranteed, memory_);
    for (const Job* each : table_.running()) headroom_->add(some_steps(reservation_job(*each, each->held)));
  }
  const Bytes headroom = headroom_->with(some_steps(candidate));
  if (&job == table_.elder() && options_.reserve != Reserve::kGuaranteed) return headroom;
  return std::max(headroom, reservation().with(candidate));
}

Admission AdmissionRound::judge(const Job& job, const MemoryView::Offer& offer) {
  // Alone it is opened whatever the estimates say: it fits alone, and the memory itself has the last word.
  if (table_.running().empty()) return Admission::kAfterEviction;
  // The tile that the job finds in part is copied: it needs that one too.
  const TokenCount whole_tiles(offer.reusable.value / kTileTokens * kTileTokens);
  const Bytes needed = usage_.held + pinned_ + offer.pinned + set_aside(job, reservation_job(job, whole_tiles));
  if (needed > usage_.limit) return Admission::kLater;
  return needed + usage_.evictable > usage_.limit ? Admission::kAfterEviction : Admission::kNow;
}

void AdmissionRound::open(Job& job, const MemoryView::Offer& offer) {
  const bool resumed = job.state == State::kSuspended;
  const TokenCount whole_tiles(offer.reusable.value / kTileTokens * kTileTokens);
  const Reservation::Job added = reservation_job(job, whole_tiles);
  if (reservation_) reservation_->add(added);
  if (headroom_) {
    Reservation::Job some_steps = added;
    some_steps.end = std::min(added.known + options_.resume_headroom, added.end);
    headroom_->add(some_steps);
  }
  pinned_ += offer.pinned;
  plan_.opened.push_back({.job = job.spec.id, .resumed = resumed, .max_new = job.max_new});
  opening_.push_back(job.spec.id);
  table_.start(job, std::min(offer.reusable, job.known() - TokenCount(1)));
  job.tenant->admitted += static_cast<double>(job.to_compute().value) / job.spec.tenant_weight;
}

void AdmissionRound::blocked(Job& job) {
  table_.block(job, step_.now_ns);
  if (!job.head && job.state == State::kWaiting) table_.put_off(job, step_.plan);
  suspend_a_resting_one();
}

void AdmissionRound::suspend_a_resting_one() {
  if (suspended_one_ || options_.reserve == Reserve::kGuaranteed) return;
  Job* victim = table_.victim();
  if (victim == nullptr || !victim->resting_since_ns || step_.now_ns - *victim->resting_since_ns < kRestGraceNs) return;
  suspended_one_ = true;
  plan_.suspended.push_back(victim->spec.id);
  table_.suspend(*victim);
}

}  // namespace quire::sched
