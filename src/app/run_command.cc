// quire run: one question, or a chat at the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>

#include "app/chat_session.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/line_editor.h"
#include "app/model_flags.h"
#include "port/file.h"

namespace quire::app {
namespace {

constexpr Bytes kMaxTemplateBytes(1 << 20);

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  std::string chat_template;
  bool random_seed = true;
  SessionOptions session;
};

// Reads the whole of a pipe or file; at a terminal, nothing.
std::string piped_input() { return isatty(STDIN_FILENO) == 1 ? "" : std::string(std::istreambuf_iterator<char>(std::cin), {}); }

// Answers one prompt: the reply to stdout, what it took to stderr.
Status answer(ChatSession& session, const std::string& prompt) {
  const InterruptGuard interrupt;
  QUIRE_TRY(const Answer answered, session.ask(prompt, [&](std::string_view piece) {
    fmt::print("{}", piece);
    std::fflush(stdout);
    return !interrupt.requested();
  }));
  fmt::print("\n");
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", summary(answered));
  return {};
}

// Questions from the terminal until it is closed. An error (a question that is too long) does not end the chat.
void chat(ChatSession& session) {
  fmt::print(stderr, "{}. Ctrl-C stops a reply, Ctrl-D or /exit ends; /clear begins anew.\n",
             session.uses_template() ? "Chat" : "Each line is completed as raw text");
  LineEditor editor;
  while (const std::optional<std::string> line = editor.read("> ")) {
    if (*line == "/exit") break;
    if (*line == "/clear") {
      session.clear();
      continue;
    }
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    if (const Status status = answer(session, *line); !status.ok()) fmt::print(stderr, "quire: {}\n", status.error().message);
  }
}

Status run(RunFlags flags, bool prompt_given) {
  if (flags.random_seed) flags.session.reply.sampling.seed = std::random_device()();
  QUIRE_TRY_STATUS(sampling::validate(flags.session.reply.sampling));
  QUIRE_TRY(engine::EngineOptions options, engine_options(flags.model));
  if (!flags.chat_template.empty()) {
    QUIRE_TRY(options.chat_template, port::read_file(flags.chat_template, kMaxTemplateBytes));
  }
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load_engine(options));
  QUIRE_TRY(ChatSession session, ChatSession::create(*engine, flags.session));
  if (!session.uses_template() && !flags.session.raw) {
    fmt::print(stderr, "This model has no chat template: completing raw text (--chat-template FILE gives it one).\n");
  }
  if (prompt_given) return answer(session, flags.prompt);
  if (isatty(STDIN_FILENO) == 1) {
    chat(session);
    return {};
  }
  return answer(session, piped_input());
}

void add_sampling_flags(CLI::App& line, RunFlags& flags) {
  sampling::SamplingParameters& s = flags.session.reply.sampling;
  line.add_option("--temperature,--temp", s.temperature, "0 takes the most probable token")->capture_default_str();
  line.add_option("--top-k", s.top_k, "Sample among the k most probable tokens; 0 is off")->capture_default_str();
  line.add_option("--top-p", s.top_p, "Sample among the most probable tokens that sum to p; 1 is off")->capture_default_str();
  line.add_option("--min-p", s.min_p, "Sample among tokens at least so probable, relative to the best; 0 is off")
      ->capture_default_str();
  line.add_option("--repeat-penalty", s.repeat_penalty, "Make tokens of the last 64 less probable; 1 is off")
      ->capture_default_str();
  line.add_option_function<uint64_t>(
      "-s,--seed",
      [&flags](const uint64_t seed) {
        flags.session.reply.sampling.seed = seed;
        flags.random_seed = false;
      },
      "The same seed gives the same reply (default: another one each time)");
}

}  // namespace

Command run_command(CLI::App& root) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* line = root.add_subcommand("run", "Answer a prompt, or chat at the terminal");
  add_model_flags(*line, flags->model);
  SessionOptions& session = flags->session;
  CLI::Option* prompt =
      line->add_option("prompt,-p,--prompt", flags->prompt, "The question; without it stdin, or a chat at a terminal");
  line->add_flag("--raw", session.raw, "Complete the text as it is, without the chat template");
  line->add_option("--system,--sys", session.system, "The system message");
  line->add_option("--chat-template", flags->chat_template, "A file with a Jinja template that replaces the model's");
  line->add_option("-n,--max-tokens,--predict", session.reply.max_tokens.value,
                   "Tokens of the reply at most (default: until it ends)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  line->add_option("-c,--context,--ctx-size", session.context.value,
                   "Tokens of prompt and reply at most (default: the model's context)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  line->add_option("--stop", session.reply.stop, "A text that ends the reply; may be given several times")->allow_extra_args(false);
  add_sampling_flags(*line, *flags);
  line->footer("Example: quire run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \"Why is the sky blue?\"");
  return {.line = line, .run = [flags, prompt] { return run(*flags, prompt->count() > 0); }};
}

}  // namespace quire::app
