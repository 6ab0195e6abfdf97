// A line on the terminal that shows how far something is.
#pragma once

#include <cstdint>
#include <string>

namespace quire::app {

// Shows "what: 42 %" on stderr when that is a terminal and the work takes longer than a second; the destructor clears the line.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(int64_t done, int64_t total);

  // "what: text". Where stderr is no terminal it is a line of its own.
  void show(const std::string& text);
  // Whether it is time to show something again: twice a second on a terminal, else once a minute.
  [[nodiscard]] bool due() const;

 private:
  std::string what_;
  double started_;
  double shown_;
  int64_t shown_percent_ = -1;
  bool enabled_;
  bool on_screen_ = false;
};

}  // namespace quire::app
