// quire batch: many requests from a file, answered together, results to a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "app/batch_report.h"
#include "app/batch_run.h"
#include "app/command.h"
#include "app/input.h"
#include "app/interrupt.h"
#include "app/model_flags.h"
#include "app/output.h"
#include "app/progress.h"
#include "engine/loop_thread.h"
#include "port/clock.h"
#include "port/file.h"

namespace quire::app {
namespace {

struct BatchFlags {
  ModelFlags model;
  UserFlags users;
  std::string chat_template;
  std::string input;
  std::string output;
  std::string report;
  TokenCount context{0};
  uint64_t seed = 0;
  bool resume = false;
};

// What is written would take the place of what is read, or of each other.
Status refuse_same_files(const BatchFlags& flags) {
  const std::array<const std::string*, 3> read = {&flags.input, &flags.model.model, &flags.chat_template};
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code missing;
    return !a.empty() && !b.empty() && (a == b || std::filesystem::equivalent(a, b, missing));
  };
  for (const std::string* written : {&flags.output, &flags.report}) {
    if (std::none_of(read.begin(), read.end(), [&](const std::string* file) { return same(*written, *file); })) continue;
    return make_error(ErrorCode::kInvalidArgument, *written + " is a file that is read; name another to write");
  }
  if (!same(flags.output, flags.report)) return {};
  return make_error(ErrorCode::kInvalidArgument, "-o and --report name the same file; name two");
}

Result<std::ifstream> open_input(const std::string& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) {
    return make_error(ErrorCode::kIo, path + ": is a directory; name a file of JSON lines");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorCode::kNotFound, path + ": cannot be read; check the path and its permissions");
  return file;
}

// Lines of a file; 0 for a pipe, which can be read only once.
int64_t count_lines(const std::string& path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) return 0;
  std::ifstream file(path, std::ios::binary);
  std::string buffer(size_t{1} << 20, '\0');
  int64_t lines = 0;
  char last = '\n';
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    const auto end = buffer.begin() + file.gcount();
    lines += std::count(buffer.begin(), end, '\n');
    last = *(end - 1);
  }
  return lines + (last == '\n' ? 0 : 1);
}

// What the output holds already. A line that was cut off while it was written is taken away.
Result<server::BatchAnswers> look_at_output(const BatchFlags& flags, port::AppendFile& output) {
  if (!flags.resume) {
    if (output.size().value == 0) return server::BatchAnswers();
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} has results already; go on with --resume, name another file, or delete it", flags.output));
  }
  if (!output.regular()) {
    return make_error(ErrorCode::kInvalidArgument,
                      flags.output + " is no file: what was answered cannot be read back; leave out --resume");
  }
  std::ifstream file(flags.output, std::ios::binary);
  Result<server::BatchAnswers> answers = server::read_answers(file);
  if (!answers.ok()) return at(flags.output, answers.error());
  if (file.bad()) return make_error(ErrorCode::kIo, flags.output + ": cannot be read; check its disk");
  QUIRE_TRY_STATUS(output.cut(answers->whole));
  return answers;
}

Result<std::unique_ptr<engine::Engine>> load(const BatchFlags& flags) {
  QUIRE_TRY(engine::EngineOptions options, engine_options(flags.model));
  QUIRE_TRY(options.chat_template, read_template(flags.chat_template));
  return load_engine(options);
}

Result<engine::StepLoopOptions> loop_options(const BatchFlags& flags, const engine::Engine& engine) {
  engine::StepLoopOptions options = engine.loop_options();
  if (flags.context > options.context) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--context {} is more than the {} tokens that the model was made for", flags.context.value,
                                  options.context.value));
  }
  if (flags.context.value > 0) options.context = flags.context;
  apply(flags.users, options.scheduler);
  return options;
}

std::string progress_text(const BatchCounts& counts, int64_t total, const engine::LoopStatistics& statistics,
                          double tokens_per_second) {
  const int64_t done = counts.completed + counts.failed + counts.skipped;
  const std::string lines = total > 0 ? fmt::format("{}/{} lines", done, total) : fmt::format("{} lines", done);
  return fmt::format("{}, {:.0f} tokens/s, KV {} of {}", lines, tokens_per_second, format_bytes(statistics.memory.backed),
                     format_bytes(statistics.memory.limit));
}

// Looks at the loop while the batch runs.
class Observer {
 public:
  Observer(engine::StepLoop& loop, const BatchRun& run, int64_t total)
      : loop_(loop),
        run_(run),
        total_(total),
        started_ns_(port::monotonic_ns()),
        allocation_(started_ns_),
        progress_("batch"),
        shown_ns_(started_ns_) {}

  void look() {
    const engine::LoopStatistics now = loop_.statistics();
    const int64_t ns = port::monotonic_ns();
    allocation_.sample(now.memory.allocated, ns);
    if (!progress_.due()) return;
    const double elapsed = static_cast<double>(ns - shown_ns_) * 1e-9;
    progress_.show(progress_text(run_.counts(), total_, now, static_cast<double>(now.generated_tokens - shown_tokens_) / elapsed));
    shown_ns_ = ns;
    shown_tokens_ = now.generated_tokens;
  }

  [[nodiscard]] const AllocationRate& allocation() const { return allocation_; }
  [[nodiscard]] double seconds() const { return static_cast<double>(port::monotonic_ns() - started_ns_) * 1e-9; }

 private:
  engine::StepLoop& loop_;
  const BatchRun& run_;
  int64_t total_;
  int64_t started_ns_;
  AllocationRate allocation_;
  ProgressLine progress_;
  int64_t shown_ns_;
  int64_t shown_tokens_ = 0;
};

Error interrupted_error(const BatchFlags& flags, const BatchCounts& counts) {
  return make_error(ErrorCode::kLimit,
                    fmt::format("interrupted: {} holds the results of {} lines; the same command with --resume answers the others",
                                flags.output, counts.completed + counts.failed + counts.skipped));
}

Status run_batch(const BatchFlags& flags, engine::Engine& engine, std::istream& input, port::AppendFile& output,
                 const server::BatchAnswers& before, const InterruptGuard& interrupt) {
  QUIRE_TRY(const engine::StepLoopOptions options, loop_options(flags, engine));
  const std::string name = std::filesystem::path(flags.model.model).stem().string();
  BatchRunOptions run_options{.model = {.name = name,
                                        .tokenizer = &engine.tokenizer(),
                                        .chat_template = engine.chat_template(),
                                        .context = options.context},
                              // Those that run, and as many that wait for their turn.
                              .choices_at_once = 2 * static_cast<size_t>(flags.users.max_users),
                              .seed = flags.seed};
  QUIRE_TRY(const auto loop, engine::LoopThread::start(engine.runner(), engine.tokenizer(), engine.cache(), options));
  BatchRun run(loop->loop(), run_options, before, output);
  BatchReport report{.model = name, .reserve = flags.users.reserve, .threads = engine.threads(), .counts = {}, .statistics = {}};
  {
    Observer observer(loop->loop(), run, count_lines(flags.input));
    QUIRE_TRY_STATUS(run.run(
        input, [&] { return interrupt.requested(); }, [&] { observer.look(); }));
    observer.look();
    report.seconds = observer.seconds();
    report.allocation = observer.allocation();
  }
  report.interrupted = interrupt.requested();
  report.counts = run.counts();
  report.statistics = loop->loop().statistics();
  print_message("{}\n", summary(report));
  if (!flags.report.empty()) QUIRE_TRY_STATUS(port::write_file_atomically(flags.report, to_json(report, run).dump(2) + "\n"));
  if (report.interrupted) return interrupted_error(flags, report.counts);
  return {};
}

// What would be found out after hours of work, or after the output was made, is looked at first.
Status check_words(const BatchFlags& flags) {
  const Result<engine::EngineOptions> options = engine_options(flags.model);
  if (!options.ok()) return options.error();
  if (flags.report.empty()) return {};
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::absolute(flags.report, problem).parent_path();
  if (std::filesystem::is_directory(folder, problem) && !std::filesystem::is_directory(flags.report, problem)) return {};
  return make_error(ErrorCode::kNotFound, fmt::format("--report {}: no file can be made there; name one in a folder that exists",
                                                      one_line(flags.report)));
}

Status batch(const BatchFlags& flags) {
  QUIRE_TRY_STATUS(refuse_same_files(flags));
  QUIRE_TRY(std::ifstream input, open_input(flags.input));
  QUIRE_TRY_STATUS(check_words(flags));
  QUIRE_TRY(port::AppendFile output, port::AppendFile::open(flags.output));
  QUIRE_TRY(const server::BatchAnswers before, look_at_output(flags, output));
  const InterruptGuard interrupt;
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load(flags));
  return run_batch(flags, *engine, input, output, before, interrupt);
}

}  // namespace

Command batch_command(CLI::App& root) {
  auto flags = std::make_shared<BatchFlags>();
  CLI::App* line = root.add_subcommand("batch", "Answer a file of requests, many at once");
  line->add_option("input", flags->input, "A file of JSON lines in the format of OpenAI's Batch API")
      ->type_name("FILE")
      ->required();
  line->add_option("-o,--output", flags->output, "The file that the results are written to, as they come")
      ->type_name("FILE")
      ->required();
  add_model_flags(*line, flags->model);
  flags->users.itl_target_ms = 1000;  // nobody reads along
  add_user_flags(*line, flags->users);
  add_template_flag(*line, flags->chat_template);
  line->add_flag("--resume", flags->resume, "Go on where a run was interrupted: what the output answers is not answered again");
  line->add_option("-c,--context,--ctx-size", flags->context.value,
                   "Tokens of prompt and reply at most (default: the model's context)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  line->add_option("-s,--seed", flags->seed, "With its custom_id it makes the seed of a request that names none")
      ->capture_default_str();
  line->add_option("--report", flags->report, "Write what the batch took as JSON")->type_name("FILE");
  line->footer("Example: quire batch requests.jsonl -o results.jsonl -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return {.line = line, .run = [flags] { return batch(*flags); }};
}

}  // namespace quire::app
