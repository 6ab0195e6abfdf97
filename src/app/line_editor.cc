#include "app/line_editor.h"

#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>

namespace quire::app {
namespace {

constexpr int kHistoryLines = 1000;

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) { interrupted = 1; }

const char* prompt_of(EditLine* editor) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return self->prompt();
}

}  // namespace

LineEditor::LineEditor() : screen_(isatty(STDOUT_FILENO) == 1 ? stdout : stderr), history_(history_init()) {
  std::setlocale(LC_CTYPE, "");  // the editor counts characters by it
  editor_ = el_init("quire", stdin, screen_, stderr);
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(editor_, EL_PROMPT, prompt_of);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_SIGNAL, 1);
}

LineEditor::~LineEditor() {
  el_end(editor_);
  history_end(history_);
}

void LineEditor::new_line() {
  std::fputc('\n', screen_);
  std::fflush(screen_);
}

std::optional<std::string> LineEditor::read(const char* prompt) {
  prompt_ = prompt;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = interrupt;  // without SA_RESTART: reading returns
  sigaction(SIGINT, &action, &before);
  std::optional<std::string> line;
  for (;;) {
    interrupted = 0;
    int length = 0;
    errno = 0;
    const char* text = el_gets(editor_, &length);
    if (text != nullptr && length > 0) {
      line = std::string(text, static_cast<size_t>(length));
      break;
    }
    if (interrupted == 0) break;
    new_line();
    el_reset(editor_);
  }
  sigaction(SIGINT, &before, nullptr);
  if (!line) {
    new_line();
    return line;
  }
  while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->pop_back();
  HistEvent event;
  if (!line->empty()) history(history_, &event, H_ENTER, line->c_str());
  return line;
}

}  // namespace quire::app
