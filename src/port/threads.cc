#include "port/threads.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <system_error>

#include "base/check.h"
#include "port/clock.h"

namespace quire::port {
namespace {

// Waking a parked thread costs 5 to 50 µs on a virtual machine: that much more spinning is worth it, between runs (sampling, the
// next step's plan) as inside one, where a member waits for partners that are working now. After the first part of that time the
// partner is probably not on a core, and perhaps waits for this one: from then on each look offers it.
constexpr int64_t kIdleSpinNs = 100'000;
constexpr int64_t kBusySpinNs = 200'000;
constexpr int64_t kUnyieldingSpinNs = 30'000;
constexpr int64_t kOversubscribedSpinNs = 0;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is the atomic itself");

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// The two sides meet in the total order of the sequentially consistent operations: either the ringer's load of parked_ comes after
// the waiter's increment, and it wakes; or the waiter's load of rings_ comes after the ring, and it does not sleep. A ring between
// that load and the system call changes the futex's value, so that the call returns at once.
void Doorbell::ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) != 0) futex_wake_all(rings_);
}

void Doorbell::wait_beyond(uint32_t seen, int64_t spin_ns) {
  // The first looks need no clock: a partner that is about to arrive is the common case.
  constexpr int kLooksPerClock = 128;
  int64_t begin_ns = -1;
  for (int64_t spent_ns = 0; spent_ns < spin_ns;) {
    for (int look = 0; look < kLooksPerClock; ++look) {
      if (rings_.load(std::memory_order_acquire) != seen) return;
      pause_cpu();
    }
    const int64_t now_ns = monotonic_ns();
    if (begin_ns < 0) begin_ns = now_ns;
    spent_ns = now_ns - begin_ns;
    if (spent_ns > kUnyieldingSpinNs) std::this_thread::yield();
  }
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (rings_.load(std::memory_order_seq_cst) == seen) futex_wait(rings_, seen);
  parked_.fetch_sub(1, std::memory_order_relaxed);
}

void TeamMember::barrier() { team_.barrier(); }

ThreadTeam::ThreadTeam(int threads) {
  QUIRE_CHECK(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  // Signals are for the thread that made the team: its handlers may belong to it alone.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    // A worker touches nothing of the team but start_ before the first run.
    for (int index = 1; index < threads; ++index) workers_.emplace_back([this, index] { worker_loop(index); });
  } catch (const std::system_error&) {
    // The system gives no more threads (a limit on processes): the team works with those that it has.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  count_ = 1 + static_cast<int>(workers_.size());
  const bool cores_suffice = count_ <= usable_cores();
  idle_spin_ns_ = cores_suffice ? kIdleSpinNs : kOversubscribedSpinNs;
  busy_spin_ns_ = cores_suffice ? kBusySpinNs : kOversubscribedSpinNs;
}

ThreadTeam::~ThreadTeam() {
  QUIRE_CHECK(!running_);
  stopping_ = true;
  start_.ring();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_erased(WorkReference work) {
  QUIRE_CHECK(!running_, "run() inside run()");
  running_ = true;
  const int workers = count_ - 1;
  uint32_t done_seen = 0;
  if (workers > 0) {
    work_ = work;
    working_.store(workers, std::memory_order_relaxed);
    done_seen = done_.rings();
    start_.ring();
  }
  TeamMember caller(0, count_, *this);
  work.call(work.object, caller);
  if (workers > 0) done_.wait_beyond(done_seen, busy_spin_ns_);
  running_ = false;
}

void ThreadTeam::worker_loop(int index) {
  uint32_t seen = 0;
  // Until the first run this worker parks at once: the team's spin times are not set before all workers have started.
  int64_t spin_ns = 0;
  while (true) {
    start_.wait_beyond(seen, spin_ns);
    ++seen;
    if (stopping_) return;
    TeamMember member(index, count_, *this);
    work_.call(work_.object, member);
    spin_ns = idle_spin_ns_;
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.ring();
  }
}

void ThreadTeam::barrier() {
  if (count_ == 1) return;
  const uint32_t seen = barrier_open_.rings();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_open_.ring();
  } else {
    barrier_open_.wait_beyond(seen, busy_spin_ns_);
  }
}

}  // namespace quire::port
