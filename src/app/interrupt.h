// Ctrl-C while a reply is written: it stops the reply, not the program.
#pragma once

#include <csignal>

namespace quire::app {

// While one exists, SIGINT is remembered instead of ending the program; the third one ends it, for a model that takes minutes to
// look up. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  [[nodiscard]] bool requested() const;

 private:
  struct sigaction before_;
};

// While one exists, SIGINT does nothing where nobody else handles it: one that comes just after the end of a reply must not end the
// chat.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts();
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;
  ~IgnoredInterrupts();

 private:
  struct sigaction before_;
};

}  // namespace quire::app
