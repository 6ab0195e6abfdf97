#include "app/interrupt.h"

#include <unistd.h>

namespace quire::app {
namespace {

constexpr int kExitInterrupted = 130;  // what shells report for a program ended by SIGINT
constexpr int kLastInterrupt = 3;

volatile std::sig_atomic_t interrupts = 0;

void remember(int) {
  interrupts = interrupts + 1;
  if (interrupts >= kLastInterrupt) _exit(kExitInterrupted);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::requested() const { return interrupts > 0; }

IgnoredInterrupts::IgnoredInterrupts() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  sigaction(SIGINT, &action, &before_);
}

IgnoredInterrupts::~IgnoredInterrupts() { sigaction(SIGINT, &before_, nullptr); }

}  // namespace quire::app
