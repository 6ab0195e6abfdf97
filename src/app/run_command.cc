// quire run: one question, or a chat at the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "app/chat_session.h"
#include "app/command.h"
#include "app/input.h"
#include "app/interrupt.h"
#include "app/line_editor.h"
#include "app/model_flags.h"
#include "app/output.h"

namespace quire::app {
namespace {

constexpr uint64_t kRandomSeed = UINT64_MAX;  // what --seed -1 means in other programs too

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  std::string chat_template;
  SessionOptions session;
};

// An error that begins with the name of a sampling parameter, with the flag's name instead: top_p is --top-p.
Error as_flag(Error error) {
  const size_t end = std::min(error.message.find(' '), error.message.size());
  std::replace(error.message.begin(), error.message.begin() + static_cast<ptrdiff_t>(end), '_', '-');
  error.message.insert(0, "--");
  return error;
}

// The prompt that is piped in. The line end with which pipes and files end is not part of the question.
Result<std::string> piped_prompt() {
  QUIRE_TRY(std::string text, read_standard_input(Bytes(static_cast<int64_t>(tokenizer::kMaxTextBytes))));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "there is no prompt: write it after the flags, pipe it in, or start at a terminal to chat");
  }
  return text;
}

// Answers one prompt: the reply to stdout, what it took to stderr. Without a reader the reply stops.
Status answer(ChatSession& session, const std::string& prompt) {
  const InterruptGuard interrupt;
  const auto listener = [&](std::string_view piece) {
    write_output(piece);
    return flush_output() == OutputState::kWritten && !interrupt.requested();
  };
  QUIRE_TRY(const Answer answered, session.ask(prompt, listener));
  write_output("\n");
  if (flush_output() == OutputState::kWritten) print_message("{}\n", summary(answered));
  return {};
}

// Questions from the terminal until it is closed. An error (a question that is too long) does not end the chat.
void chat(ChatSession& session) {
  print_message("{}. Ctrl-C stops a reply, Ctrl-D or /exit ends; /clear begins anew.\n",
                session.uses_template() ? "Chat" : "Each line is completed as raw text");
  const IgnoredInterrupts between_replies;
  LineEditor editor;
  while (const std::optional<std::string> line = editor.read("> ")) {
    if (*line == "/exit") break;
    if (*line == "/clear") {
      session.clear();
      print_message("The conversation begins anew.\n");
      continue;
    }
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    if (const Status status = answer(session, *line); !status.ok()) print_message("quire: {}\n", one_line(status.error().message));
    if (flush_output() != OutputState::kWritten) break;
  }
}

Result<std::unique_ptr<engine::Engine>> load(const RunFlags& flags) {
  QUIRE_TRY(engine::EngineOptions options, engine_options(flags.model));
  QUIRE_TRY(options.chat_template, read_template(flags.chat_template));
  return load_engine(options);
}

Status run(RunFlags flags, bool prompt_given) {
  if (flags.session.reply.sampling.seed == kRandomSeed) flags.session.reply.sampling.seed = std::random_device()();
  if (const Status valid = sampling::validate(flags.session.reply.sampling); !valid.ok()) return as_flag(valid.error());
  const bool at_terminal = !prompt_given && isatty(STDIN_FILENO) == 1;
  if (!prompt_given && !at_terminal) {
    QUIRE_TRY(flags.prompt, piped_prompt());
  }
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load(flags));
  QUIRE_TRY(ChatSession session, ChatSession::create(*engine, flags.session));
  if (!session.uses_template() && !flags.session.raw) {
    print_message("This model has no chat template: completing raw text (--chat-template FILE gives it one).\n");
  }
  if (!at_terminal) return answer(session, flags.prompt);
  chat(session);
  return {};
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
  line.add_option("-s,--seed", s.seed, "The same seed gives the same reply (default, or -1: another one each time)");
}

}  // namespace

Command run_command(CLI::App& root) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* line = root.add_subcommand("run", "Answer a prompt, or chat at the terminal");
  add_model_flags(*line, flags->model);
  SessionOptions& session = flags->session;
  session.reply.sampling.seed = kRandomSeed;
  CLI::Option* prompt = line->add_option("prompt,-p,--prompt", flags->prompt,
                                         "The question; without it stdin (less the line end at its end), or a chat at a terminal");
  line->add_flag("--raw", session.raw, "Complete the text as it is, without the chat template");
  line->add_option("--system,--sys", session.system, "The system message");
  add_template_flag(*line, flags->chat_template);
  line->add_option("-n,--max-tokens,--predict", session.reply.max_tokens.value,
                   "Tokens of the reply at most (default: until it ends)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  line->add_option("-c,--context,--ctx-size", session.context.value,
                   "Tokens of prompt and reply at most (default: the model's context)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  line->add_option("--stop", session.reply.stop, "A text that ends the reply; may be given several times")
      ->allow_extra_args(false)
      ->check(
          CLI::Validator([](const std::string& text) { return text.empty() ? "an empty text would end every reply" : ""; }, ""));
  add_sampling_flags(*line, *flags);
  line->footer("Example: quire run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \"Why is the sky blue?\"");
  return {.line = line, .run = [flags, prompt] { return run(*flags, prompt->count() > 0); }};
}

}  // namespace quire::app
