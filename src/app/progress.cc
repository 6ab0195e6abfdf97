#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "app/output.h"
#include "port/clock.h"

namespace quire::app {
namespace {

// Seconds.
constexpr double kBetweenLines = 60;
constexpr double kBetweenUpdates = 0.5;

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), started_(port::monotonic_seconds()), shown_(started_), enabled_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (on_screen_) print_message("\r\033[K");
}

void ProgressLine::update(int64_t done, int64_t total) {
  if (!enabled_ || total <= 0 || port::monotonic_seconds() - started_ < 1) return;
  const int64_t percent = 100 * done / total;
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  on_screen_ = true;
  print_message("\r{}: {} %", what_, percent);
}

bool ProgressLine::due() const {
  const double now = port::monotonic_seconds();
  if (!enabled_) return now - shown_ >= kBetweenLines;
  return now - started_ >= 1 && now - shown_ >= kBetweenUpdates;
}

void ProgressLine::show(const std::string& text) {
  shown_ = port::monotonic_seconds();
  if (enabled_) {
    on_screen_ = true;
    print_message("\r{}: {}\033[K", what_, text);
  } else {
    print_message("{}: {}\n", what_, text);
  }
}

}  // namespace quire::app
