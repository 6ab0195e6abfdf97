// quire: the program. Reads the command line, runs the chosen subcommand, prints its error.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "app/command.h"
#include "app/version.h"

namespace quire::app {
namespace {

constexpr int kUsageError = 2;
constexpr int kOtherError = 1;

int report(const Error& error) {
  fmt::print(stderr, "quire: {}\n", error.message);
  return error.code == ErrorCode::kInvalidArgument ? kUsageError : kOtherError;
}

// Usage errors: one line saying what is wrong, one saying where help is.
int report(const CLI::App& root, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return root.exit(error);  // --help, --version
  const CLI::App* chosen = &root;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  std::string name = chosen->get_name();
  for (const CLI::App* parent = chosen->get_parent(); parent != nullptr; parent = parent->get_parent())
    name = parent->get_name() + " " + name;
  fmt::print(stderr, "quire: {}\nSee '{} --help'.\n", error.what(), name);
  return kUsageError;
}

int main_program(int argc, char** argv) {
  CLI::App root("Quire runs language models from GGUF files; its product is the memory of the KV cache.", "quire");
  root.set_version_flag("--version", version_text(), "Print the version");
  root.require_subcommand(1);
  root.footer("Example: quire run -m models/SmolLM2-135M-Instruct.Q4_1.gguf \"Why is the sky blue?\"");
  CLI::App* bench = root.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  const std::array commands = {run_command(root),   inspect_command(root),        tokenize_command(root),
                               score_command(root), bench_engine_command(*bench), completion_command(root)};
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report(root, error);
  }
  for (const Command& command : commands) {
    if (!command.line->parsed()) continue;
    const Status status = command.run();
    return status.ok() ? 0 : report(status.error());
  }
  return kUsageError;
}

}  // namespace
}  // namespace quire::app

int main(int argc, char** argv) { return quire::app::main_program(argc, argv); }
