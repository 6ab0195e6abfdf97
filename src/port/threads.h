// A team of threads that do one piece of work together, again and again: the fork and join of a forward pass.
//
//   ThreadTeam team(usable_cores());
//   team.run([&](TeamMember& me) {
//     first_half(me.index, me.count);
//     me.barrier();                        // every member has finished its first half
//     second_half(me.index, me.count);
//   });
//
// States of a worker: spinning (looks for work for a short time after the last), parked (sleeps in the kernel), working. A waker
// enters the kernel only when somebody is parked. A team larger than the cores it may use does not spin, it parks at once: there
// the thread that is waited for needs the core.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "port/machine.h"

namespace quire::port {

// A number that only grows, on which threads wait: they spin for a while, then park in the kernel.
class alignas(64) Doorbell {
 public:
  [[nodiscard]] uint32_t rings() const { return rings_.load(std::memory_order_acquire); }

  // Everything that was written before ring() is seen by who returns from wait_beyond().
  void ring();

  // Returns when rings() differs from `seen`; spins for at most about `spin_ns` before it parks.
  void wait_beyond(uint32_t seen, int64_t spin_ns);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> parked_{0};
};

class ThreadTeam;

// What a member knows of itself while it works.
class TeamMember {
 public:
  const int index;  // 0 is the thread that called run()
  const int count;

  // Waits until every member of the team has come here; what they wrote before is then seen by all. Every member calls it equally
  // often.
  void barrier();

 private:
  friend class ThreadTeam;
  TeamMember(int member_index, int member_count, ThreadTeam& team) : index(member_index), count(member_count), team_(team) {}

  ThreadTeam& team_;
};

class ThreadTeam {
 public:
  // `threads` >= 1, the caller of run() included. When the system refuses to start that many, the team is smaller: see size().
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  [[nodiscard]] int size() const { return count_; }

  // Calls work(TeamMember&) on every member, the calling thread being member 0, and returns when all have returned. Allocates
  // nothing. `work` must not throw, nor call run() of the same team; one thread at a time may call it.
  template <typename Work>
  void run(Work&& work) {
    using Target = std::remove_reference_t<Work>;
    run_erased({const_cast<void*>(static_cast<const void*>(std::addressof(work))),
                [](void* object, TeamMember& member) { (*static_cast<Target*>(object))(member); }});
  }

 private:
  friend class TeamMember;

  struct WorkReference {
    void* object = nullptr;
    void (*call)(void* object, TeamMember& member) = nullptr;
  };

  void run_erased(WorkReference work);
  void worker_loop(int index);
  void barrier();

  int count_ = 1;
  // How long a member spins before it parks: for the next run, and inside a run (where its partners are known to be near).
  int64_t idle_spin_ns_ = 0;
  int64_t busy_spin_ns_ = 0;
  WorkReference work_;     // written before start_ rings
  bool stopping_ = false;  // likewise
  bool running_ = false;   // touched by the caller of run() alone

  Doorbell start_;
  Doorbell done_;
  Doorbell barrier_open_;
  alignas(64) std::atomic<int> working_{0};  // workers that have not finished the current run
  alignas(64) std::atomic<int> arrived_{0};  // members that have come to the current barrier
  std::vector<std::thread> workers_;
};

}  // namespace quire::port
