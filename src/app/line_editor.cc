#include "app/line_editor.h"

#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstring>
#include <cwchar>

namespace quire::app {
namespace {

constexpr int kHistoryLines = 1000;

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) { interrupted = 1; }

void handle_interrupt(void (*handler)(int), struct sigaction* before) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGINT, &action, before);
}

// The editor counts characters by the locale. Where that knows none but ASCII (containers often have none set), UTF-8 is meant.
void choose_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

LineEditor::LineEditor() : screen_(isatty(STDOUT_FILENO) == 1 ? stdout : stderr), history_(history_init()) {
  choose_locale();
  handle_interrupt(SIG_IGN, &interrupt_before_);
  editor_ = el_init("quire", stdin, screen_, stderr);
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(editor_, EL_PROMPT, prompt_of);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_GETCFN, read_key);
}

LineEditor::~LineEditor() {
  el_end(editor_);
  history_end(history_);
  sigaction(SIGINT, &interrupt_before_, nullptr);
}

const char* LineEditor::prompt_of(EditLine* editor) {
  LineEditor* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return self->prompt_;
}

// One character, or -1 when Ctrl-C was pressed. SIGINT is blocked but while this waits, so that none comes a moment too early.
int LineEditor::read_key(EditLine* editor, wchar_t* key) {
  sigset_t waiting;
  pthread_sigmask(SIG_BLOCK, nullptr, &waiting);
  sigdelset(&waiting, SIGINT);
  std::mbstate_t state = {};
  for (;;) {
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ppoll(&input, 1, nullptr, &waiting);
    if (interrupted != 0) return -1;
    if (ready < 0 && errno == EINTR) {  // stopped and continued: the terminal may be set up for the shell
      el_set(editor, EL_PREP_TERM, 1);
      el_set(editor, EL_REFRESH);
      continue;
    }
    char byte = 0;
    const ssize_t got = ready < 0 ? -1 : ::read(STDIN_FILENO, &byte, 1);
    if (got <= 0) return static_cast<int>(got);
    const size_t used = std::mbrtowc(key, &byte, 1, &state);
    if (used == static_cast<size_t>(-1)) state = {};  // no character: it is left out
    if (used <= 1) return 1;
  }
}

void LineEditor::new_line() {
  std::fputc('\n', screen_);
  std::fflush(screen_);
}

std::optional<std::string> LineEditor::edited_line() {
  for (;;) {
    interrupted = 0;
    int length = 0;
    el_set(editor_, EL_PREP_TERM, 1);  // before the prompt is seen: a Ctrl-D that the terminal itself takes is lost
    const char* text = el_gets(editor_, &length);
    if (text != nullptr && length > 0) return std::string(text, static_cast<size_t>(length));
    new_line();
    if (interrupted == 0) return std::nullopt;
    el_reset(editor_);
  }
}

std::optional<std::string> LineEditor::read(const char* prompt) {
  prompt_ = prompt;
  sigset_t interrupts;
  sigset_t mask_before;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupts, &mask_before);
  handle_interrupt(interrupt, nullptr);
  el_resize(editor_);
  std::optional<std::string> line = edited_line();
  handle_interrupt(SIG_IGN, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  if (!line) return line;
  while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->pop_back();
  HistEvent event;
  if (!line->empty()) history(history_, &event, H_ENTER, line->c_str());
  return line;
}

}  // namespace quire::app
