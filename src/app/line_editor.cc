#include "app/line_editor.h"

#include <unistd.h>

#include <clocale>

namespace quire::app {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

LineEditor::LineEditor() : screen_(isatty(STDOUT_FILENO) == 1 ? stdout : stderr), history_(history_init()) {
  std::setlocale(LC_CTYPE, "");  // the editor counts characters by it
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &interrupt_before_);
  editor_ = el_init("quire", stdin, screen_, stderr);
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(editor_, EL_PROMPT, prompt_of);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_SIGNAL, 1);
  // A signal may come a moment before the editor reads, and would be lost then; a key is not.
  el_set(editor_, EL_SETTY, "-d", "intr=", nullptr);
  el_set(editor_, EL_ADDFN, "drop-line", "Drop the line that is being written", drop_line);
  el_set(editor_, EL_BIND, "^C", "drop-line", nullptr);
}

LineEditor::~LineEditor() {
  el_end(editor_);
  history_end(history_);
  sigaction(SIGINT, &interrupt_before_, nullptr);
}

LineEditor& LineEditor::self_of(EditLine* editor) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return *self;
}

const char* LineEditor::prompt_of(EditLine* editor) { return self_of(editor).prompt_; }

unsigned char LineEditor::drop_line(EditLine* editor, int) {
  self_of(editor).dropped_ = true;
  return CC_NEWLINE;
}

void LineEditor::new_line() {
  std::fputc('\n', screen_);
  std::fflush(screen_);
}

std::optional<std::string> LineEditor::read(const char* prompt) {
  prompt_ = prompt;
  int length = 0;
  const char* text = nullptr;
  do {
    dropped_ = false;
    text = el_gets(editor_, &length);
    if (dropped_) new_line();
  } while (dropped_);
  if (text == nullptr || length <= 0) {
    new_line();
    return std::nullopt;
  }
  std::string line(text, static_cast<size_t>(length));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  HistEvent event;
  if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
  return line;
}

}  // namespace quire::app
