// Flags that all commands which run a model share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "sched/scheduler.h"

namespace quire::app {

struct ModelFlags {
  std::string model;
  int threads = 0;
  std::string isa;
  std::string kv_format = "f16";
  int chunk = 512;
  std::string kv_memory = "auto";
};

void add_model_flags(CLI::App& line, ModelFlags& flags);

// The flag --chat-template, for commands that answer chats.
void add_template_flag(CLI::App& line, std::string& path);
// The template in a file; empty for no path.
[[nodiscard]] Result<std::string> read_template(const std::string& path);

// Flags of commands that answer several requests at once.
struct UserFlags {
  std::string reserve = "expected";
  int max_users = 256;
  double itl_target_ms = 100;
};

void add_user_flags(CLI::App& line, UserFlags& flags);

// How the scheduler of these flags works.
void apply(const UserFlags& flags, sched::SchedulerOptions& options);

// The options that the flags mean. The instruction set comes from --isa, else from QUIRE_ISA, else it is the fastest.
[[nodiscard]] Result<engine::EngineOptions> engine_options(const ModelFlags& flags);

// Loads the model; shows progress on a terminal when that takes longer than a second.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> load_engine(const engine::EngineOptions& options);

}  // namespace quire::app
