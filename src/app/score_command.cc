// quire score: what the model thought of each token of a text, as JSON lines, and the perplexity.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "app/command.h"
#include "app/input.h"
#include "app/model_flags.h"
#include "app/output.h"
#include "app/progress.h"
#include "engine/score.h"
#include "port/file.h"

namespace quire::app {
namespace {

constexpr Bytes kMaxInput(int64_t{1} << 30);

struct ScoreFlags {
  ModelFlags model;
  std::string text;
  std::string ids;
  std::string output;
  size_t top = 20;
  bool reference = false;
};

Result<std::vector<TokenId>> read_tokens(const ScoreFlags& flags, const engine::Engine& engine) {
  const std::string& path = flags.text.empty() ? flags.ids : flags.text;
  const Result<std::string> content = port::read_file(path, kMaxInput);
  if (!content.ok()) return not_usage(content.error());
  if (!flags.text.empty()) return engine.tokenizer().encode(*content, {.add_special = true});
  Result<std::vector<TokenId>> ids = parse_token_ids(*content, static_cast<size_t>(engine.config().vocabulary));
  if (!ids.ok()) return at(path, ids.error());
  return ids;
}

// One position as a line of JSON.
std::string json_line(const engine::ScoredPosition& p) {
  std::string line = fmt::format("{{\"position\":{},\"token\":{},\"next_logprob\":", p.position.value, p.token);
  const auto number = [](double logprob) { return std::isfinite(logprob) ? fmt::format("{}", logprob) : "null"; };
  line += p.next_logprob ? number(*p.next_logprob) : "null";
  line += ",\"top\":[";
  for (size_t i = 0; i < p.top.size(); ++i)
    line += fmt::format("{}[{},{}]", i == 0 ? "" : ",", p.top[i].token, number(p.top[i].logprob));
  return line + "]}\n";
}

Result<std::unique_ptr<engine::Engine>> load(const ScoreFlags& flags) {
  ModelFlags model = flags.model;
  if (flags.reference) model.isa = kernels::to_string(kernels::Isa::kReference);
  QUIRE_TRY(const engine::EngineOptions options, engine_options(model));
  return load_engine(options);
}

// The output would take the place of what is read.
Status refuse_own_input(const ScoreFlags& flags) {
  for (const std::string& input : {flags.model.model, flags.text, flags.ids}) {
    std::error_code missing;
    if (flags.output.empty() || input.empty() || !std::filesystem::equivalent(flags.output, input, missing)) continue;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("-o {} is the file that is read; name another", flags.output));
  }
  return {};
}

Status score_text(const ScoreFlags& flags) {
  QUIRE_TRY_STATUS(refuse_own_input(flags));
  QUIRE_TRY(const std::unique_ptr<engine::Engine> engine, load(flags));
  QUIRE_TRY(const std::vector<TokenId> tokens, read_tokens(flags, *engine));
  if (tokens.empty()) {
    return make_error(ErrorCode::kCorrupt, (flags.text.empty() ? flags.ids : flags.text) + ": there are no tokens to score");
  }

  std::ofstream file;
  if (!flags.output.empty()) {
    file.open(flags.output, std::ios::binary | std::ios::trunc);
    if (!file) return make_error(ErrorCode::kIo, flags.output + ": cannot be written; check the folder and its permissions");
  }
  ProgressLine progress("scoring");
  const auto listener = [&](const engine::ScoredPosition& p) {
    if (file.is_open()) file << json_line(p);
    progress.update(p.position.value + 1, static_cast<int64_t>(tokens.size()));
  };
  QUIRE_TRY(const engine::Score result, engine::score(*engine, tokens, flags.top, listener));
  if (file.is_open() && !file.flush()) return make_error(ErrorCode::kIo, flags.output + ": writing failed; is the disk full?");
  print_output("{} tokens, perplexity {:.4f}\n", result.tokens.value, result.perplexity);
  return {};
}

}  // namespace

Command score_command(CLI::App& root) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App* line = root.add_subcommand("score", "Print the perplexity of a text and write the logprobs of its tokens");
  add_model_flags(*line, flags->model);
  CLI::Option_group* input = line->add_option_group("input");
  input->add_option("--text", flags->text, "A text file; bos is added where the model's metadata says so")->type_name("FILE");
  input->add_option("--ids", flags->ids, "A file with a JSON list of token ids")->type_name("FILE");
  input->require_option(1);
  line->add_option("-o,--output", flags->output, "Write a JSON line for each position: position, token, next_logprob, top")
      ->type_name("FILE");
  line->add_option("--top", flags->top, "Most probable tokens listed for each position")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  line->add_flag("--reference", flags->reference, "Compute with the plain f32 reference kernels (same as --isa reference)");
  line->footer("Example: quire score -m models/SmolLM2-135M-Instruct.Q4_1.gguf --text README.md --top 5 -o scores.jsonl");
  return {.line = line, .run = [flags] { return score_text(*flags); }};
}

}  // namespace quire::app
