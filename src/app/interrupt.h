// Ctrl-C while a reply is written: it stops the reply, not the program.
#pragma once

#include <csignal>

namespace quire::app {

// While one exists, SIGINT is remembered instead of ending the program; a second one ends it. One at a time.
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

}  // namespace quire::app
