// Lines from a terminal, with editing and a history of this run (nothing is written to disk: prompts are private).
#pragma once

#include <histedit.h>

#include <cstdio>
#include <optional>
#include <string>

namespace quire::app {

class LineEditor {
 public:
  LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // The next line without its end; nothing when the terminal is closed (Ctrl-D). Ctrl-C drops the line that is being written.
  [[nodiscard]] std::optional<std::string> read(const char* prompt);

  [[nodiscard]] const char* prompt() const { return prompt_; }

 private:
  void new_line();

  std::FILE* screen_;  // stdout, or stderr where that is no terminal: what is typed must be seen, and is no output
  EditLine* editor_;
  History* history_;
  const char* prompt_ = "";
};

}  // namespace quire::app
