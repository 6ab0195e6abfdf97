// quire tokenize: text on stdin to a JSON list of token ids on stdout, or back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "app/command.h"
#include "app/input.h"
#include "app/output.h"
#include "gguf/gguf.h"
#include "port/file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_gguf.h"

namespace quire::app {
namespace {

constexpr Bytes kMaxInput(int64_t{1} << 30);

struct TokenizeFlags {
  std::string model;
  bool special = false;
  bool bos = false;
  bool decode = false;
};

Result<tokenizer::Tokenizer> load_tokenizer(const std::string& path) {
  const Result<port::MappedFile> mapping = port::MappedFile::open(path);
  if (!mapping.ok()) return not_usage(mapping.error());
  const auto load = [&]() -> Result<tokenizer::Tokenizer> {
    QUIRE_TRY(const gguf::File file, gguf::File::parse(mapping->bytes()));
    QUIRE_TRY(tokenizer::Vocabulary vocabulary, tokenizer::vocabulary_from(file));
    return tokenizer::Tokenizer::create(std::move(vocabulary));
  };
  Result<tokenizer::Tokenizer> loaded = load();
  if (!loaded.ok()) return at(path, loaded.error());
  return loaded;
}

Status tokenize(const TokenizeFlags& flags) {
  QUIRE_TRY(const tokenizer::Tokenizer tokenizer, load_tokenizer(flags.model));
  QUIRE_TRY(const std::string input, read_standard_input(kMaxInput));
  if (flags.decode) {
    const Result<std::vector<TokenId>> ids = parse_token_ids(input, tokenizer.vocab_size());
    if (!ids.ok()) return at("stdin", ids.error());
    QUIRE_TRY(const std::string text, tokenizer.decode(*ids, {.include_special = flags.special}));
    write_output(text);
    return {};
  }
  QUIRE_TRY(std::vector<TokenId> ids, tokenizer.encode(input, {.parse_special = flags.special}));
  if (flags.bos) {
    if (!tokenizer.bos()) return make_error(ErrorCode::kUnsupported, fmt::format("{}: the model has no bos token", flags.model));
    ids.insert(ids.begin(), *tokenizer.bos());
  }
  print_output("[{}]\n", fmt::join(ids, ", "));
  return {};
}

}  // namespace

Command tokenize_command(CLI::App& root) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* line = root.add_subcommand("tokenize", "Turn text on stdin into token ids on stdout, or back");
  line->add_option("-m,--model", flags->model, "The model, a GGUF file")->type_name("FILE")->required();
  line->add_flag("--special", flags->special, "Special tokens written in the text become tokens; with --decode they are printed");
  line->add_flag("--bos", flags->bos, "Begin with the model's bos token");
  line->add_flag("--decode", flags->decode, "Read a JSON list of ids, write the text");
  line->footer("Example: echo -n 'Hello world' | quire tokenize -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return {.line = line, .run = [flags] { return tokenize(*flags); }};
}

}  // namespace quire::app
