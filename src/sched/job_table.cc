#include "sched/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace quire::sched {

namespace {

// So many tenants without a job are remembered for what they owe.
constexpr size_t kIdleTenants = 4096;

[[nodiscard]] bool by_admission(const Job* a, const Job* b) { return a->admission < b->admission; }

}  // namespace

// --- Coming and going

Job& JobTable::submit(const JobSpec& spec) {
  QUIRE_CHECK(spec.prompt.value >= 1 && spec.max_new.value >= 1 && spec.tenant_weight > 0);
  auto [place, is_new] = jobs_.try_emplace(spec.id.value, std::make_unique<Job>());
  QUIRE_CHECK(is_new, "a job's id is used twice");
  Job& job = *place->second;
  job.spec = spec;
  job.max_new = spec.max_new;
  job.tenant = &tenant_of(spec.tenant);
  job.age = {.aged_arrival_ns = aged_arrival(spec.priority, spec.arrival_ns, ageing_ns_), .id = spec.id};
  ++job.tenant->jobs;
  make_active(*job.tenant);
  ++priorities_[spec.priority];
  if (spec.deadline_ns) deadlines_.emplace(*spec.deadline_ns, spec.id);
  ++waiting_;
  index(job);
  return job;
}

void JobTable::erase(Job& job) {
  clear_waits(job);
  leave_leader(job);
  release_followers(job, TokenCount(std::numeric_limits<int64_t>::max()));
  if (job.state == State::kRunning) {
    std::erase(running_, &job);
    room_changed_ = true;
  }
  if (size_t* count = counter(job.state)) --*count;
  if (job.admission > 0) admitted_.erase(job.admission);
  if (job.spec.deadline_ns) deadlines_.erase({*job.spec.deadline_ns, job.spec.id});
  if (job.ready) (job.state == State::kWaiting ? job.tenant->waiting : job.tenant->suspended).erase(job.age);
  const auto priority = priorities_.find(job.spec.priority);
  if (--priority->second == 0) priorities_.erase(priority);
  --job.tenant->jobs;
  if (!job.resting) --job.tenant->active;
  jobs_.erase(job.spec.id.value);
}

Job* JobTable::find(JobId id) {
  const auto place = jobs_.find(id.value);
  return place == jobs_.end() ? nullptr : place->second.get();
}

Job& JobTable::at(JobId id) {
  Job* job = find(id);
  QUIRE_CHECK(job != nullptr, fmt::format("no job {}", id.value));
  return *job;
}

// --- Tenants

Tenant& JobTable::tenant_of(const std::string& name) {
  Tenant*& tenant = tenant_names_[name];
  if (tenant == nullptr) {
    tenants_.push_back(std::make_unique<Tenant>());
    tenant = tenants_.back().get();
    tenant->name = name;
  }
  return *tenant;
}

void JobTable::make_active(Tenant& tenant) {
  // Time without anything to do is no credit.
  if (tenant.active++ == 0) tenant.service = std::max(tenant.service, floor_);
}

void JobTable::balance_tenants() {
  double least = std::numeric_limits<double>::infinity();
  double most = floor_;
  size_t idle = 0;
  for (const auto& tenant : tenants_) {
    tenant->admitted = 0;
    most = std::max(most, tenant->service);
    if (tenant->active > 0) least = std::min(least, tenant->service);
    if (tenant->jobs == 0) ++idle;
  }
  if (jobs_.empty()) least = most;
  if (least < std::numeric_limits<double>::infinity()) floor_ = std::max(floor_, least);
  if (idle > 0) {
    // Whoever is owed nothing and owes nothing is forgotten; so are debts when there are too many of them.
    std::erase_if(tenants_, [&](const auto& tenant) {
      const bool forget = tenant->jobs == 0 && (tenant->service <= floor_ || idle > kIdleTenants);
      if (forget) tenant_names_.erase(tenant->name);
      return forget;
    });
  }
  for (Job* job : running_) job->tenant->admitted += static_cast<double>(job->to_compute().value) / job->spec.tenant_weight;
}

// --- States

size_t* JobTable::counter(State state) {
  if (state == State::kWaiting) return &waiting_;
  if (state == State::kSuspended) return &suspended_;
  return nullptr;
}

void JobTable::set_state(Job& job, State state) {
  if (job.ready) (job.state == State::kWaiting ? job.tenant->waiting : job.tenant->suspended).erase(job.age);
  job.ready = false;
  if (size_t* count = counter(job.state)) --*count;
  if (job.state == State::kRunning) std::erase(running_, &job);
  job.state = state;
  if (size_t* count = counter(job.state)) ++*count;
  if (job.state == State::kRunning) running_.insert(std::upper_bound(running_.begin(), running_.end(), &job, by_admission), &job);
  index(job);
}

void JobTable::index(Job& job) {
  const bool waits = job.state == State::kWaiting || job.state == State::kSuspended;
  const bool ready = waits && !job.resting && !job.head && job.put_off_until == 0 && !job.pause_until_ns;
  if (ready == job.ready) return;
  auto& tenant_index = job.state == State::kWaiting ? job.tenant->waiting : job.tenant->suspended;
  if (ready) {
    tenant_index.emplace(job.age, &job);
  } else {
    tenant_index.erase(job.age);
  }
  job.ready = ready;
}

// Takes the job out of everything that it waits in, but for its tenant's index.
void JobTable::clear_waits(Job& job) {
  if (job.head) head_ = nullptr;
  job.head = false;
  job.put_off_until = 0;
  job.blocked.reset();
  if (job.pause_until_ns) pauses_.erase({*job.pause_until_ns, job.spec.id});
  job.pause_until_ns.reset();
  if (job.stalled_since_ns) stalls_.erase({*job.stalled_since_ns, job.spec.id});
  job.stalled_since_ns.reset();
}

void JobTable::start(Job& job, TokenCount held) {
  QUIRE_CHECK(job.state == State::kWaiting || job.state == State::kSuspended);
  job.before = job.state;
  job.first_admission = job.admission == 0;
  ++admissions_;
  if (job.first_admission) {
    job.admission = admissions_;
    admitted_.emplace(job.admission, &job);
  }
  if (job.head) head_ = nullptr;
  job.head = false;
  job.put_off_until = 0;
  job.opening = true;
  job.held = held;
  job.own = held;
  set_state(job, State::kRunning);
}

void JobTable::opened(Job& job, TokenCount held) {
  QUIRE_CHECK(job.opening && held < job.known());
  job.opening = false;
  // There is room again: computing what was lost is no stall.
  clear_waits(job);
  job.held = held;
  job.own = held;
  job.farthest = std::max(job.farthest, held);
  job.blocked.reset();
  release_followers(job, held);
}

void JobTable::not_opened(Job& job) {
  QUIRE_CHECK(job.opening);
  job.opening = false;
  job.held = job.own = TokenCount(0);
  release_followers(job, TokenCount(std::numeric_limits<int64_t>::max()));
  if (job.first_admission) {
    admitted_.erase(job.admission);
    job.admission = 0;
  }
  set_state(job, job.before);
}

void JobTable::suspend(Job& job) {
  QUIRE_CHECK(job.state == State::kRunning && !job.opening);
  release_followers(job, TokenCount(std::numeric_limits<int64_t>::max()));
  job.held = job.own = TokenCount(0);
  job.resting_since_ns.reset();
  room_changed_ = true;
  set_state(job, State::kSuspended);
}

void JobTable::restart(Job& job) {
  QUIRE_CHECK(job.state == State::kRunning && !job.opening);
  job.held = job.own = TokenCount(0);
  clear_waits(job);
}

void JobTable::set_resting(Job& job, bool resting) {
  if (job.resting == resting) return;
  job.resting = resting;
  job.resting_since_ns.reset();
  if (resting) {
    --job.tenant->active;
    // Nobody else is to wait for this reader.
    release_followers(job, TokenCount(std::numeric_limits<int64_t>::max()));
    if (job.state != State::kFollowing) clear_waits(job);
    room_changed_ = true;
  } else {
    make_active(*job.tenant);
  }
  index(job);
}

void JobTable::computed(Job& job, TokenCount tokens, TokenCount generated) {
  QUIRE_CHECK(job.state == State::kRunning && !job.opening && tokens.value >= 0 && tokens <= job.to_compute());
  QUIRE_CHECK(generated.value == 0 || (generated.value == 1 && tokens == job.to_compute()));
  job.held += tokens;
  job.generated += generated;
  job.tenant->service += static_cast<double>(tokens.value) / job.spec.tenant_weight;
  if (job.held > job.farthest) {
    job.farthest = job.held;
    clear_waits(job);
  }
  release_followers(job, job.held);
}

// --- Leaders and followers

void JobTable::follow(Job& job, Job& leader, TokenCount position) {
  QUIRE_CHECK(job.state == State::kWaiting && leader.state == State::kRunning && leader.held < position);
  clear_waits(job);
  set_state(job, State::kFollowing);
  ++waiting_;
  ++following_;
  job.leader = &leader;
  job.position = position;
  leader.followers.emplace(job.age, &job);
}

void JobTable::leave_leader(Job& job) {
  if (job.leader == nullptr) return;
  job.leader->followers.erase(job.age);
  job.leader = nullptr;
  --waiting_;
  --following_;
  set_state(job, State::kWaiting);
}

void JobTable::release_followers(Job& job, TokenCount up_to) {
  if (job.followers.empty()) return;
  std::vector<Job*> released;
  for (const auto& [age, follower] : job.followers) {
    if (follower->position <= up_to) released.push_back(follower);
  }
  // A leader of whom they have got what they can shares it with them.
  for (Job* follower : released) {
    if (follower->position <= job.held) job.own = std::max(job.own, follower->position);
    leave_leader(*follower);
  }
}

// --- What stands in a job's way

void JobTable::block(Job& job, int64_t now_ns) {
  if (!job.blocked) job.blocked = Job::Blocked{.since_ns = now_ns, .admissions = admissions_};
  if (head_ != nullptr) return;
  head_ = &job;
  job.head = true;
  index(job);
}

void JobTable::put_off(Job& job, int64_t plan) {
  job.put_off_until = plan + 1 + static_cast<int64_t>(2 * put_off_count_ / kOffers);
  ++put_off_count_;
  put_off_[job.put_off_until].push_back(job.spec.id);
  index(job);
}

void JobTable::pause(Job& job, int64_t now_ns, int64_t until_ns) {
  if (job.head) head_ = nullptr;
  job.head = false;
  if (job.pause_until_ns) pauses_.erase({*job.pause_until_ns, job.spec.id});
  job.pause_until_ns = until_ns;
  pauses_.emplace(until_ns, job.spec.id);
  if (!job.stalled_since_ns) {
    job.stalled_since_ns = now_ns;
    stalls_.emplace(now_ns, job.spec.id);
  }
  index(job);
}

void JobTable::resume_due(int64_t plan, int64_t now_ns) {
  while (!pauses_.empty() && pauses_.begin()->first <= now_ns) {
    Job& job = at(pauses_.begin()->second);
    pauses_.erase(pauses_.begin());
    job.pause_until_ns.reset();
    index(job);
  }
  // While nobody works no plans pass: whoever could fit now is looked at now.
  const bool works = std::any_of(running_.begin(), running_.end(), [](const Job* job) { return job->can_work(); });
  const bool all = !works && (room_changed_ || running_.empty());
  room_changed_ = false;
  while (!put_off_.empty() && (all || put_off_.begin()->first <= plan)) {
    for (const JobId id : put_off_.begin()->second) {
      Job* job = find(id);
      if (job == nullptr || job->put_off_until != put_off_.begin()->first) continue;
      job->put_off_until = 0;
      index(*job);
    }
    put_off_count_ -= put_off_.begin()->second.size();
    put_off_.erase(put_off_.begin());
  }
}

// --- Looking

Job* JobTable::elder() const {
  for (const auto& [admission, job] : admitted_) {
    if (!job->resting) return job;
  }
  return admitted_.empty() ? nullptr : admitted_.begin()->second;
}

Job* JobTable::victim() const {
  const Job* elder = this->elder();
  const auto rank = [](const Job* job) { return std::tuple(job->resting, job->spec.priority, job->admission); };
  Job* chosen = nullptr;
  Job* spared = nullptr;
  for (Job* job : running_) {
    if (job->opening) continue;
    if (job == elder) {
      spared = job;
    } else if (chosen == nullptr || rank(job) > rank(chosen)) {
      chosen = job;
    }
  }
  return chosen != nullptr ? chosen : spared;
}

std::vector<const Job*> JobTable::sorted() const {
  std::vector<const Job*> all;
  all.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) all.push_back(job.get());
  std::sort(all.begin(), all.end(), [](const Job* a, const Job* b) { return a->spec.id < b->spec.id; });
  return all;
}

// --- Checking

std::string JobTable::verify_job(const Job& job) const {
  const int64_t id = job.spec.id.value;
  const bool runs = std::find(running_.begin(), running_.end(), &job) != running_.end();
  if (runs != (job.state == State::kRunning)) return fmt::format("S1: job {} is in two states", id);
  const bool waits = job.state == State::kWaiting || job.state == State::kSuspended;
  const auto& tenant_index = job.state == State::kSuspended ? job.tenant->suspended : job.tenant->waiting;
  const auto place = tenant_index.find(job.age);
  const bool indexed = place != tenant_index.end() && place->second == &job;
  if (indexed != job.ready || (job.ready && !waits)) return fmt::format("S1: job {} is in a wrong index", id);
  const bool reachable = job.ready || job.resting || job.head || job.put_off_until > 0 || job.pause_until_ns;
  if (waits && !reachable) return fmt::format("S1: job {} waits where nobody looks", id);
  if (job.put_off_until > 0 && !put_off_.contains(job.put_off_until)) return fmt::format("S1: job {} is put off for ever", id);
  if (job.pause_until_ns && !pauses_.contains({*job.pause_until_ns, job.spec.id})) return fmt::format("S3: job {} never wakes", id);
  if (job.stalled_since_ns && !stalls_.contains({*job.stalled_since_ns, job.spec.id}))
    return fmt::format("S3: job {} stalls for ever", id);
  if ((job.admission > 0) != admitted_.contains(job.admission)) return fmt::format("S1: job {} has a wrong admission", id);
  if (job.state == State::kSuspended && job.admission == 0) return fmt::format("S1: job {} is suspended but never ran", id);
  if (job.state != State::kRunning && job.held.value != 0) return fmt::format("S1: job {} holds memory and does not run", id);
  if (job.held > job.known() || job.generated > job.max_new) return fmt::format("S1: job {} has more tokens than there are", id);
  if ((job.state == State::kFollowing) != (job.leader != nullptr)) return fmt::format("S4: job {} follows nobody", id);
  if (job.leader != nullptr) {
    const Job& leader = *job.leader;
    if (leader.state != State::kRunning || leader.resting) return fmt::format("S4: job {} follows one that does not run", id);
    if (leader.held >= job.position) return fmt::format("S4: job {} follows one that has passed", id);
    if (!leader.followers.contains(job.age)) return fmt::format("S4: job {} is unknown to its leader", id);
  }
  return {};
}

std::string JobTable::verify() const {
  size_t waiting = 0;
  size_t following = 0;
  size_t suspended = 0;
  size_t running = 0;
  std::unordered_map<const Tenant*, std::pair<size_t, size_t>> tenants;  // jobs, active ones
  for (const auto& [id, job] : jobs_) {
    if (std::string wrong = verify_job(*job); !wrong.empty()) return wrong;
    waiting += job->state == State::kWaiting || job->state == State::kFollowing;
    following += job->state == State::kFollowing;
    suspended += job->state == State::kSuspended;
    running += job->state == State::kRunning;
    auto& [jobs, active] = tenants[job->tenant];
    ++jobs;
    active += !job->resting;
  }
  if (waiting != waiting_ || following != following_ || suspended != suspended_ || running != running_.size()) {
    return "S1: the counts of states are wrong";
  }
  for (const auto& tenant : tenants_) {
    const auto& [jobs, active] = tenants[tenant.get()];
    if (tenant->jobs != jobs || tenant->active != active)
      return fmt::format("the tenant '{}' counts its jobs wrongly", tenant->name);
  }
  if (!std::is_sorted(running_.begin(), running_.end(), by_admission)) return "running jobs are out of order";
  if (head_ != nullptr && !head_->head) return "the head does not know it";
  return {};
}

}  // namespace quire::sched
