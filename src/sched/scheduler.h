// The scheduler: which requests run, with how many tokens each, in the next step. Pure decisions on numbers: it knows neither the
// memory nor the model, only counts, bytes and times that others tell it.
//
// States of a job (S1: exactly one, and one end):
//
//   waiting -> running -> ended
//      ^         |  ^
//      |         v  |
//   (following)  suspended
//
//   waiting     submitted, holds nothing. A waiting job may follow: its beginning is being computed by a running job (the leader),
//               and it waits for a position of it, not for the leader's end (S4).
//   running     holds memory; each step computes a part of its prompt, or decodes one token. While its reader is slow it rests.
//   suspended   has computed something; its memory is cache that may be evicted. Comes back before new ones of its tenant.
//
// A step: plan() -> the caller carries it out, in the plan's order -> computed() for each job -> step_took(). What the caller finds
// out on the way it says at once: opened(), not_opened(), make_room(), end().
//
// Order among jobs (urgency, see order.h): one documented function of priority, age and tenant.
//
// The elder is the oldest admitted job over all tenants and priorities whose reader does not rest: it is never suspended while
// another one can be. docs/scheduling.md explains the policies.
//
// Only the owner thread calls any of this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace quire::sched {

using JobId = Quantity<struct JobIdTag>;

struct JobSpec {
  JobId id;                  // the caller's; never used twice
  std::string tenant;        // who shares what is given in turn
  double tenant_weight = 1;  // > 0: of two tenants with much to do, one with twice the weight gets twice the tokens
  int priority = 0;          // smaller goes first, as in vLLM
  int64_t arrival_ns = 0;
  std::optional<int64_t> deadline_ns = {};  // the same clock as plan()'s now
  TokenCount prompt;                        // tokens of the prompt, at least 1
  TokenCount max_new;                       // at most so many new tokens, at least 1; prompt + max_new is within the context
  bool max_new_asked = false;               // somebody asked for max_new; otherwise it is cut to what fits
};

// How memory is set aside for tokens to come.
enum class Reserve {
  kGuaranteed,  // prompt + max_new of everybody: nobody is ever suspended while the limit stays
  kExpected,    // the peak of the future, each ending at its predicted length
  kOptimistic,  // the prompt only
};
[[nodiscard]] std::string_view to_string(Reserve reserve);
// "guaranteed", "expected", "optimistic".
[[nodiscard]] std::optional<Reserve> parse_reserve(std::string_view text);

struct SchedulerOptions {
  Reserve reserve = Reserve::kExpected;
  int max_running = 256;
  TokenCount step_tokens{512};              // at most so many tokens a step (rows of a forward pass)
  double itl_target_ms = 100;               // a step with decoding jobs takes at most about so long, by the cost model
  TokenCount resume_headroom{32};           // resuming needs room for so many more tokens of every running job
  int64_t ageing_ns = 10'000'000'000;       // waiting so long is worth one level of priority
  int64_t stall_limit_ns = 30'000'000'000;  // a lone job that the limit does not let grow ends after so long with what it has
};

// What decisions need to know about memory; asked during plan(), never changed by it.
class MemoryView {
 public:
  virtual ~MemoryView() = default;

  struct Usage {
    Bytes limit;      // what may be held now
    Bytes held;       // what nobody may evict: live, shared, their page tables
    Bytes evictable;  // cache and warm memory
    // What the limit rises to again, where it is lower for a moment only; what exceeds this is refused. Nothing: the limit.
    std::optional<Bytes> ceiling = {};

    [[nodiscard]] Bytes most() const { return ceiling.value_or(limit); }
  };
  [[nodiscard]] virtual Usage usage() const = 0;

  // Bytes that a sequence needs at most to grow from `from` to `to` tokens in steps. From 0: everything that it needs alone.
  [[nodiscard]] virtual Bytes growth(TokenCount from, TokenCount to) const = 0;

  // What a waiting or suspended job would find.
  struct Offer {
    TokenCount reusable;               // tokens that are there at once, less than its tokens
    Bytes pinned;                      // cached bytes that it would make unevictable
    std::optional<JobId> leader = {};  // a running job, not a resting one, that computes its beginning; or one of `opening`
    TokenCount position = {};          // where its common beginning with the leader ends; above reusable
  };
  // `opening`: the jobs that this plan opens, so far. They are about to run and can lead already, so that of many that arrive
  // together with one beginning the first alone is opened.
  [[nodiscard]] virtual Offer offer(JobId job, std::span<const JobId> opening) const = 0;
};

// Whether a job can be admitted, and otherwise how many bytes are missing.
enum class Admission { kNow, kAfterEviction, kLater, kNever };

struct Refusal {
  JobId job;
  Bytes needed;     // that it needs alone
  Bytes available;  // that there could ever be: the limit
};

enum class Expiry { kDeadline, kStalled };

// The decisions for one step, carried out in this order.
struct StepPlan {
  struct Expired {
    JobId job;
    Expiry why;
  };
  struct Open {
    JobId job;
    bool resumed;
    TokenCount max_new;  // cut to what fits where nobody asked for it
  };
  struct Work {
    JobId job;
    TokenCount tokens;  // of the prompt (or of what a suspended job has to compute again), or 1 when it decodes
    bool decode;
  };
  std::vector<Refusal> refused;  // can never fit: ended
  std::vector<Expired> expired;  // ended
  std::vector<JobId> suspended;  // their memory becomes cache
  std::vector<Open> opened;      // to be opened at the memory, in this order
  std::vector<Work> work;        // decoding first

  // Only when there is no work: nothing runs, and until when nothing will unless somebody submits, cancels or reads; nothing: for
  // ever (S3).
  std::optional<int64_t> idle_until_ns = {};
};

// The sizes that a step's time depends on.
struct StepSize {
  int64_t decode_rows = 0;
  int64_t prefill_rows = 0;
  int64_t attended = 0;  // keys that all rows look at, summed
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  void submit(const JobSpec& job);
  // The job is over, or gone at its own wish: in any state. Its memory is the caller's affair. Nothing happens when there is no
  // such job (any more): what plan() has refused or expired has ended already.
  void end(JobId job);
  // A slow reader rests his job until he has read. A resting job keeps its memory while nobody needs it. Nothing happens when there
  // is no such job.
  void set_resting(JobId job, bool resting);

  [[nodiscard]] StepPlan plan(int64_t now_ns, const MemoryView& memory);

  // What became of each of StepPlan::opened, before the next plan(): the job runs and has `reused` of its tokens at once; or there
  // was no room after all, and it is where it was. Work planned for it counts for nothing then.
  void opened(JobId job, TokenCount reused);
  void not_opened(JobId job);

  // The memory has no room for the planned work: who is to be suspended next (he is, from now on), never the elder while there is
  // another; nothing when only one job runs: it rests until there is room (S3) and ends after the stall limit.
  [[nodiscard]] std::optional<JobId> make_room();

  // The only one that runs has given back all that it held, and begins anew at once.
  void restarted(JobId job);

  // `tokens` of the job were computed in this step. `generated`: its next token was chosen (1 when it decodes or its prompt is
  // complete, otherwise 0).
  void computed(JobId job, TokenCount tokens, TokenCount generated);
  // What the step was and how long it took: the cost model learns.
  void step_took(const StepSize& size, int64_t ns);

  // The time that a step of that size is expected to take.
  [[nodiscard]] double expected_ns(const StepSize& size) const;

  struct Counts {
    size_t waiting = 0;
    size_t following = 0;  // of them
    size_t running = 0;
    size_t resting = 0;  // of them
    size_t suspended = 0;
    int64_t suspensions = 0;  // since the beginning
    int64_t refusals = 0;
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] std::optional<JobId> elder() const;

  // Empty when S1 to S4 hold, otherwise which does not.
  [[nodiscard]] std::string verify() const;
  [[nodiscard]] std::string dump() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::sched
