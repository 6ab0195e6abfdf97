// quire: the program. Reads the command line, runs the chosen subcommand, prints its error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "app/command.h"
#include "app/output.h"
#include "app/version.h"

namespace quire::app {
namespace {

constexpr int kUsageError = 2;
constexpr int kOtherError = 1;

int report(const Error& error) {
  print_message("quire: {}\n", one_line(error.message));
  return error.code == ErrorCode::kInvalidArgument ? kUsageError : kOtherError;
}

// Everything that was printed is written now, or that is an error.
int end_of_output() {
  switch (flush_output()) {
    case OutputState::kWritten: return 0;
    case OutputState::kReaderGone: return kOtherError;
    case OutputState::kFailed: return report(output_error());
  }
  QUIRE_CHECK(false, "known OutputState");
  return kOtherError;
}

std::vector<std::string> subcommand_names(const CLI::App& line) {
  std::vector<std::string> names;
  for (const CLI::App* sub : line.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_name().empty()) names.push_back(sub->get_name());  // groups of options have none
  }
  return names;
}

// How many names lead from the program to a command: 0 for the program itself.
size_t depth_of(const CLI::App& line) {
  size_t depth = 0;
  for (const CLI::App* parent = line.get_parent(); parent != nullptr; parent = parent->get_parent()) ++depth;
  return depth;
}

// What is wrong, better than the parser puts it where a command or the model is missing.
std::string explain(const CLI::App& chosen, const CLI::ParseError& error, const std::vector<std::string>& words) {
  if (const std::vector<std::string> names = subcommand_names(chosen); !names.empty()) {
    const std::string choice = fmt::format("choose one of {}", fmt::join(names, ", "));
    const size_t depth = depth_of(chosen);
    if (words.size() <= depth) return fmt::format("which command? {}", choice);
    return fmt::format("'{}' is no {}; {}", words[depth], words[depth].starts_with('-') ? "flag here" : "command", choice);
  }
  if (std::string_view(error.what()) == "--model is required") return "no model is named; give a GGUF file with -m";
  return error.what();
}

// Why the parser takes a value in another way than it was meant; empty where it does not. It takes an empty text for the number 0
// or for no file (a script with an empty variable does not mean that), 010 for the octal number 8, and what has more than 64 bits
// for the largest number.
std::string ambiguity(const std::string& type, const std::string& value) {
  const bool whole = type.starts_with("INT") || type.starts_with("UINT");
  if (value.empty() && (whole || type.starts_with("FLOAT"))) return "an empty text is no number";
  if (value.empty() && type.starts_with("FILE")) return "an empty text names no file";
  if (!whole || value.empty()) return {};
  const std::string_view digits = std::string_view(value).substr(value[0] == '-' || value[0] == '+' ? 1 : 0);
  uint64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec == std::errc::result_out_of_range) return value + " has more than 64 bits";
  const bool octal = digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
  return octal ? value + " begins with 0; leave that out" : "";
}

void refuse_ambiguous_values(const CLI::App& line) {
  for (const CLI::Option* option : line.get_options()) {
    for (const std::string& value : option->results()) {
      const std::string problem = ambiguity(option->get_type_name(), value);
      if (!problem.empty()) throw CLI::ConversionError(option->get_name() + ": " + problem);
    }
  }
  // Groups of options have no name.
  for (const CLI::App* group : line.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); }))
    refuse_ambiguous_values(*group);
}

// Usage errors: one line saying what is wrong, one saying where help is.
int report(const CLI::App& root, const CLI::ParseError& error, const std::vector<std::string>& words) {
  if (error.get_exit_code() == 0) {  // --help, --version
    std::ostringstream text;
    (void)root.exit(error, text, text);
    write_output(text.str());
    return end_of_output();
  }
  const CLI::App* chosen = &root;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  std::string name = chosen->get_name();
  for (const CLI::App* parent = chosen->get_parent(); parent != nullptr; parent = parent->get_parent())
    name = parent->get_name() + " " + name;
  print_message("quire: {}\nSee '{} --help'.\n", explain(*chosen, error, words), name);
  return kUsageError;
}

// Small memory (texts, tokens, tables) that cannot be had ends a command with an error like any other.
Status run_within_memory(const Command& command) {
  try {
    return command.run();
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory,
                      "there is not enough memory for this text; shorten it, close other programs or raise the "
                      "limit (ulimit -v)");
  }
}

int main_program(int argc, char** argv) {
  CLI::App root("Quire runs language models from GGUF files; its product is the memory of the KV cache.", "quire");
  root.set_version_flag("--version", version_text(), "Print the version");
  root.require_subcommand(1);
  root.footer("Example: quire run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \"Why is the sky blue?\"");
  CLI::App* bench = root.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  bench->footer("Example: quire bench engine -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  const std::array commands = {run_command(root),   batch_command(root),          inspect_command(root),   tokenize_command(root),
                               score_command(root), bench_engine_command(*bench), completion_command(root)};
  try {
    root.parse(argc, argv);
    for (const Command& command : commands) refuse_ambiguous_values(*command.line);
  } catch (const CLI::ParseError& error) {
    return report(root, error, {argv + std::min(argc, 1), argv + argc});
  }
  for (const Command& command : commands) {
    if (!command.line->parsed()) continue;
    const Status status = run_within_memory(command);
    return status.ok() ? end_of_output() : report(status.error());
  }
  return kUsageError;
}

}  // namespace
}  // namespace quire::app

int main(int argc, char** argv) { return quire::app::main_program(argc, argv); }
