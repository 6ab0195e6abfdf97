// Lines from a terminal, with editing and a history of this run (nothing is written to disk: prompts are private).
#pragma once

#include <histedit.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

namespace quire::app {

// While one exists, Ctrl-C does not end the program: it drops the line that is being written, and between lines it is ignored.
class LineEditor {
 public:
  LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // The next line without its end; nothing when the terminal is closed (Ctrl-D).
  [[nodiscard]] std::optional<std::string> read(const char* prompt);

 private:
  static const char* prompt_of(EditLine* editor);
  static int read_key(EditLine* editor, wchar_t* key);
  [[nodiscard]] std::optional<std::string> edited_line();
  void new_line();

  std::FILE* screen_;  // stdout, or stderr where that is no terminal: what is typed must be seen, and is no output
  EditLine* editor_;
  History* history_;
  const char* prompt_ = "";
  struct sigaction interrupt_before_ = {};
};

}  // namespace quire::app
