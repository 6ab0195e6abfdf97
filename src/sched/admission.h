// Who is opened in a step: goes through the ready jobs in the order of order.h and asks for each whether its memory is there.
//
// At most kOffers jobs are asked a step. What does not fit is put off for some plans (JobTable::put_off), so that all get their
// turn however many wait; the first that did not fit is the head and is asked in every plan.
//
// Overtaking is bounded: jobs that fit pass a head that does not, but after kMostOvertaken of them, or after waiting blocked for as
// long as one level of priority is worth, nobody is admitted any more before it who is not of a more urgent level.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sched/job_table.h"
#include "sched/length_predictor.h"
#include "sched/order.h"
#include "sched/reservation.h"
#include "sched/scheduler.h"

namespace quire::sched {

inline constexpr int64_t kMostOvertaken = 32;
// A reader who rests for so long keeps nobody waiting any more: his job's memory is given to those who wait.
inline constexpr int64_t kRestGraceNs = 1'000'000'000;

// Whether the limit can ever hold so many tokens of one job.
[[nodiscard]] bool fits_alone(const MemoryView& memory, Bytes limit, TokenCount tokens);

// The most new tokens, at most `max_new`, that fit after a prompt when nobody else is there; less than 1 when not even one fits.
[[nodiscard]] TokenCount cut_to_fit(const MemoryView& memory, Bytes limit, TokenCount prompt, TokenCount max_new);

class AdmissionRound {
 public:
  struct Step {
    int64_t now_ns;
    int64_t plan;      // its number
    int64_t pause_ns;  // for jobs that the limit stands in the way of
  };
  AdmissionRound(JobTable& table, const SchedulerOptions& options, const LengthPredictor& lengths, const MemoryView& memory,
                 const MemoryView::Usage& usage, const Step& step, StepPlan& plan);

  void run();

  // Ready jobs are left that there was no time for.
  [[nodiscard]] bool cut_short() const { return cut_short_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  enum class Outcome { kOpened, kFollows, kRefused, kPaused, kBlocked };
  struct Candidate {
    Urgency urgency;
    Tenant* tenant;

    friend bool operator<(const Candidate& a, const Candidate& b) { return b.urgency < a.urgency; }
  };

  [[nodiscard]] Urgency urgency_of(const Job& job) const;
  void push(Tenant& tenant);
  [[nodiscard]] Job* next();
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] bool reserves(const Job& head) const;

  [[nodiscard]] Outcome consider(Job& job);
  [[nodiscard]] std::optional<Outcome> consider_limit(Job& job);
  [[nodiscard]] bool follows(Job& job, const MemoryView::Offer& offer);
  [[nodiscard]] Admission judge(const Job& job, const MemoryView::Offer& offer);
  [[nodiscard]] const Reservation& reservation();
  [[nodiscard]] bool nothing_fits();
  [[nodiscard]] Bytes set_aside(const Job& job, const Reservation::Job& candidate);
  void open(Job& job, const MemoryView::Offer& offer);
  void blocked(Job& job);
  void suspend_a_resting_one();
  [[nodiscard]] Reservation::Job reservation_job(const Job& job, TokenCount held) const;

  JobTable& table_;
  const SchedulerOptions& options_;
  const LengthPredictor& lengths_;
  const MemoryView& memory_;
  const Step step_;
  StepPlan& plan_;
  const MemoryView::Usage usage_;
  OrderClock clock_;
  std::vector<Candidate> tenants_;  // a heap, the most urgent first
  bool is_heap_ = false;
  std::vector<JobId> opening_;
  Bytes pinned_;                            // by those opened in this plan
  std::optional<Reservation> reservation_;  // of those that run; made when somebody asks
  std::optional<Reservation> headroom_;     // the same for the tokens of resume_headroom
  bool head_asked_ = false;
  bool head_blocked_ = false;
  bool suspended_one_ = false;
  bool cut_short_ = false;
  int offers_ = 0;
  int refused_ = 0;
};

}  // namespace quire::sched
