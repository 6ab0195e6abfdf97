#include "app/model_flags.h"

#include <fmt/format.h>

#include <cstdlib>

#include "app/input.h"
#include "app/progress.h"
#include "port/file.h"

namespace quire::app {
namespace {

constexpr Bytes kMaxTemplateBytes(1 << 20);

// What --isa and QUIRE_ISA accept on this machine, for messages.
std::string available_names() {
  std::string names;
  for (const kernels::KernelSet* set : kernels::available_kernel_sets()) {
    names += (names.empty() ? "" : ", ") + std::string(kernels::to_string(set->isa));
  }
  return names;
}

Result<const kernels::KernelSet*> kernels_named(const std::string& name) {
  const auto isa = kernels::isa_from(name);
  if (!isa) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is no instruction set; this processor runs {}", name, available_names()));
  }
  const kernels::KernelSet* set = kernels::kernel_set(*isa);
  if (set == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("this processor lacks {}; it runs {}", name, available_names()));
  }
  return set;
}

Result<const kernels::KernelSet*> choose_kernels(const std::string& flag) {
  const char* variable = std::getenv("QUIRE_ISA");
  const bool from_variable = flag.empty() && variable != nullptr && *variable != '\0';
  if (flag.empty() && !from_variable) return &kernels::best_kernel_set();
  Result<const kernels::KernelSet*> chosen = kernels_named(from_variable ? variable : flag);
  if (!chosen.ok()) return at(from_variable ? "the environment variable QUIRE_ISA" : "--isa", chosen.error());
  return chosen;
}

Result<std::optional<Bytes>> parse_kv_memory(const std::string& text) {
  if (text == "auto") return std::optional<Bytes>();
  const Result<Bytes> size = parse_bytes(text);
  if (!size.ok()) return at("--kv-memory", make_error(ErrorCode::kInvalidArgument, size.error().message));
  if (size->value == 0) return make_error(ErrorCode::kInvalidArgument, "--kv-memory 0 holds no token; give a size or auto");
  return std::optional<Bytes>(*size);
}

}  // namespace

void add_model_flags(CLI::App& line, ModelFlags& flags) {
  line.add_option("-m,--model", flags.model, "The model, a GGUF file")->type_name("FILE")->required();
  line.add_option("-t,--threads", flags.threads, "Threads that compute (default: the cores this process may use)")
      ->check(CLI::Range(1, 1024));
  line.add_option("--isa", flags.isa,
                  "Instruction set: reference, portable, avx2, avx512, avx512-vnni (default: the fastest here)");
  line.add_option("--kv-format", flags.kv_format, "Numbers of the KV cache")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  line.add_option("--chunk,-b,--batch-size", flags.chunk, "Prompt tokens that are computed together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  line.add_option("--kv-memory", flags.kv_memory, "Memory of the KV cache at most, such as 2GiB; auto: what the machine leaves")
      ->type_name("SIZE")
      ->capture_default_str();
}

void add_template_flag(CLI::App& line, std::string& path) {
  line.add_option("--chat-template", path, "A file with a Jinja template that replaces the model's")->type_name("FILE");
}

Result<std::string> read_template(const std::string& path) {
  if (path.empty()) return std::string();
  Result<std::string> source = port::read_file(path, kMaxTemplateBytes);
  if (!source.ok()) return not_usage(source.error());
  if (source->empty()) return make_error(ErrorCode::kCorrupt, path + ": is empty; a chat template is Jinja text");
  return source;
}

void add_user_flags(CLI::App& line, UserFlags& flags) {
  line.add_option("--reserve", flags.reserve, "Memory set aside for tokens to come: guaranteed, expected or optimistic")
      ->check(CLI::IsMember({"guaranteed", "expected", "optimistic"}))
      ->capture_default_str();
  line.add_option("--max-users", flags.max_users, "Requests that are answered at once, at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  line.add_option("--itl-target-ms", flags.itl_target_ms,
                  "While somebody decodes, a step takes no more of others' prompts than fits this time")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
}

void apply(const UserFlags& flags, sched::SchedulerOptions& options) {
  options.reserve = sched::parse_reserve(flags.reserve).value();
  options.max_running = flags.max_users;
  options.itl_target_ms = flags.itl_target_ms;
}

Result<engine::EngineOptions> engine_options(const ModelFlags& flags) {
  QUIRE_TRY(const kernels::KernelSet* kernels, choose_kernels(flags.isa));
  engine::EngineOptions options;
  options.model_path = flags.model;
  options.threads = flags.threads;
  options.kernels = kernels;
  options.kv_format = flags.kv_format == "f32" ? kernels::KvFormat::kF32 : kernels::KvFormat::kF16;
  options.chunk = flags.chunk;
  QUIRE_TRY(options.kv_memory, parse_kv_memory(flags.kv_memory));
  return options;
}

Result<std::unique_ptr<engine::Engine>> load_engine(const engine::EngineOptions& options) {
  ProgressLine progress("loading " + options.model_path);
  auto engine = engine::Engine::create(options, [&](Bytes done, Bytes total) { progress.update(done.value, total.value); });
  if (!engine.ok()) return not_usage(engine.error());  // all that it refuses is in files
  return engine;
}

}  // namespace quire::app
