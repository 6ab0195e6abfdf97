// The subcommands of the program: each adds itself to the command line and says what to do when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace quire::app {

struct Command {
  CLI::App* line;               // its flags; line->parsed() says whether it was chosen
  std::function<Status()> run;  // an error is printed by main: kInvalidArgument ends with status 2, others with 1
};

[[nodiscard]] Command run_command(CLI::App& root);
[[nodiscard]] Command inspect_command(CLI::App& root);
[[nodiscard]] Command tokenize_command(CLI::App& root);
[[nodiscard]] Command batch_command(CLI::App& root);
[[nodiscard]] Command score_command(CLI::App& root);
[[nodiscard]] Command bench_engine_command(CLI::App& bench);
[[nodiscard]] Command completion_command(CLI::App& root);

}  // namespace quire::app
