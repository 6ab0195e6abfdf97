#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "app/output.h"
#include "port/clock.h"

namespace quire::app {

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), started_(port::monotonic_seconds()), enabled_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_percent_ >= 0) print_message("\r\033[K");
}

void ProgressLine::update(int64_t done, int64_t total) {
  if (!enabled_ || total <= 0 || port::monotonic_seconds() - started_ < 1) return;
  const int64_t percent = 100 * done / total;
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  print_message("\r{}: {} %", what_, percent);
  std::fflush(stderr);
}

}  // namespace quire::app
