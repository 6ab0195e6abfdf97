// All jobs that have not ended, in the state that each is in, and the indexes over them. It moves jobs between states and keeps the
// indexes right; when a job moves is decided elsewhere (admission.h, scheduler.cc).
//
//   ready      a waiting or suspended job that admission may look at, in its tenant's index by age. Not ready are: those that
//   follow,
//              whose reader rests, that were put off for some plans because they did not fit, that pause, and the head.
//   head       the one blocked job that admission asks first; see docs/scheduling.md, overtaking
//   pause      until a time: the memory's limit stands in the way of this job alone; a stall, which ends the job after a while
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sched/order.h"
#include "sched/scheduler.h"

namespace quire::sched {

// Jobs that a plan asks the memory about, at most.
inline constexpr int kOffers = 32;

enum class State { kWaiting, kFollowing, kRunning, kSuspended };

struct Job;

struct Tenant {
  std::string name;
  double service = 0;   // virtual time: tokens computed / weight
  double admitted = 0;  // virtual time of tokens that running jobs have still to compute; of the current plan
  size_t jobs = 0;
  size_t active = 0;              // of them, those whose reader does not rest
  std::map<Age, Job*> waiting;    // ready ones
  std::map<Age, Job*> suspended;  // ready ones
};

struct Job {
  JobSpec spec;
  Tenant* tenant = nullptr;
  Age age;
  State state = State::kWaiting;
  TokenCount max_new;     // cut to what fits
  TokenCount held;        // in memory
  TokenCount generated;   // the last one of them is not computed yet
  TokenCount farthest;    // the most that it ever held
  TokenCount own;         // what it holds below this is or was somebody else's too
  int64_t admission = 0;  // number of its first admission; 0: never admitted

  bool resting = false;
  std::optional<int64_t> resting_since_ns = {};  // while running

  // Running, and opened() or not_opened() is still to come; where it was before.
  bool opening = false;
  State before = State::kWaiting;
  bool first_admission = false;

  bool ready = false;
  bool head = false;
  int64_t put_off_until = 0;  // a plan's number; 0: not put off
  struct Blocked {
    int64_t since_ns;
    int64_t admissions;  // JobTable::admissions() then
  };
  std::optional<Blocked> blocked = {};  // since it was first found not to fit

  std::optional<int64_t> pause_until_ns = {};
  std::optional<int64_t> stalled_since_ns = {};  // no progress since, for want of memory

  Job* leader = nullptr;  // while following
  TokenCount position;    // of the leader, that it waits for
  std::map<Age, Job*> followers = {};

  [[nodiscard]] TokenCount known() const { return spec.prompt + generated; }
  [[nodiscard]] TokenCount end() const { return spec.prompt + max_new; }
  // Tokens that it can compute before another is chosen.
  [[nodiscard]] TokenCount to_compute() const { return known() - held; }
  // The next token that it computes is one of its reply, which nobody has computed yet.
  [[nodiscard]] bool decodes() const { return generated.value > 0 && to_compute().value == 1; }
  [[nodiscard]] bool complete() const { return generated >= max_new; }
  [[nodiscard]] bool can_work() const { return !resting && !pause_until_ns && !complete() && to_compute().value > 0; }
};

class JobTable {
 public:
  explicit JobTable(int64_t ageing_ns) : ageing_ns_(ageing_ns) {}

  Job& submit(const JobSpec& spec);
  void erase(Job& job);
  [[nodiscard]] Job* find(JobId id);
  // Must be there.
  [[nodiscard]] Job& at(JobId id);

  // --- Moves
  void start(Job& job, TokenCount held);  // waiting or suspended -> running, opening
  void opened(Job& job, TokenCount held);
  void not_opened(Job& job);  // back to where it was
  void suspend(Job& job);
  void restart(Job& job);  // goes on running, holding nothing
  void follow(Job& job, Job& leader, TokenCount position);
  void set_resting(Job& job, bool resting);
  void computed(Job& job, TokenCount tokens, TokenCount generated);

  void block(Job& job, int64_t now_ns);  // did not fit; becomes the head when there is none
  // For the longer the more are put off: those who are asked again are at most half of kOffers a plan, and the others get on.
  void put_off(Job& job, int64_t plan);
  void pause(Job& job, int64_t now_ns, int64_t until_ns);
  void resume_due(int64_t plan, int64_t now_ns);  // ends pauses and puttings-off that are over

  // The fairness between tenants, at the beginning of a plan.
  void balance_tenants();

  // --- Looking
  [[nodiscard]] const std::vector<Job*>& running() const { return running_; }  // by admission
  [[nodiscard]] const std::vector<std::unique_ptr<Tenant>>& tenants() const { return tenants_; }
  [[nodiscard]] Job* head() { return head_; }
  [[nodiscard]] Job* elder() const;
  // Who is suspended next: a resting one first, then the lowest priority, then the youngest; the elder when he is the only one.
  [[nodiscard]] Job* victim() const;
  [[nodiscard]] int64_t admissions() const { return admissions_; }
  [[nodiscard]] int most_urgent() const { return priorities_.empty() ? 0 : priorities_.begin()->first; }
  [[nodiscard]] size_t waiting() const { return waiting_; }
  [[nodiscard]] size_t following() const { return following_; }
  [[nodiscard]] size_t suspended() const { return suspended_; }
  [[nodiscard]] const std::set<std::pair<int64_t, JobId>>& deadlines() const { return deadlines_; }
  [[nodiscard]] const std::set<std::pair<int64_t, JobId>>& pauses() const { return pauses_; }
  [[nodiscard]] const std::set<std::pair<int64_t, JobId>>& stalls() const { return stalls_; }
  [[nodiscard]] std::vector<const Job*> sorted() const;  // by id

  [[nodiscard]] std::string verify() const;

 private:
  Tenant& tenant_of(const std::string& name);
  void set_state(Job& job, State state);
  size_t* counter(State state);
  void index(Job& job);
  void clear_waits(Job& job);
  void leave_leader(Job& job);
  void release_followers(Job& job, TokenCount up_to);
  void make_active(Tenant& tenant);
  [[nodiscard]] std::string verify_job(const Job& job) const;

  int64_t ageing_ns_;
  std::unordered_map<int64_t, std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::unordered_map<std::string, Tenant*> tenant_names_;
  double floor_ = 0;  // the virtual time at which a tenant becomes active
  std::vector<Job*> running_;
  std::map<int64_t, Job*> admitted_;  // running and suspended, by admission
  std::map<int, size_t> priorities_;
  std::map<int64_t, std::vector<JobId>> put_off_;  // by plan
  size_t put_off_count_ = 0;
  bool room_changed_ = false;  // somebody gave memory up since the last plan
  std::set<std::pair<int64_t, JobId>> deadlines_;
  std::set<std::pair<int64_t, JobId>> pauses_;  // by end
  std::set<std::pair<int64_t, JobId>> stalls_;  // by beginning
  Job* head_ = nullptr;
  size_t waiting_ = 0;  // following ones included
  size_t following_ = 0;
  size_t suspended_ = 0;
  int64_t admissions_ = 0;
};

}  // namespace quire::sched
