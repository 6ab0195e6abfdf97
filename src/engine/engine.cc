#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "gguf/gguf.h"
#include "model/kv_layout.h"
#include "port/file.h"
#include "port/machine.h"
#include "tokenizer/vocabulary_gguf.h"

namespace quire::engine {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

Result<std::optional<chat::Template>> compile_template(const gguf::File& file, const std::string& replacement) {
  std::string_view source = replacement;
  if (source.empty()) {
    if (file.find(kTemplateKey) == nullptr) return std::optional<chat::Template>();
    QUIRE_TRY(source, file.get_string(kTemplateKey));
  }
  Result<chat::Template> compiled = chat::Template::compile(source);
  if (!compiled.ok()) return at(replacement.empty() ? "the model's chat template" : "the chat template", compiled.error());
  return std::optional(std::move(compiled).value());
}

Result<tokenizer::Tokenizer> read_tokenizer(const gguf::File& file, const model::ModelConfig& config) {
  QUIRE_TRY(tokenizer::Vocabulary vocabulary, tokenizer::vocabulary_from(file));
  QUIRE_TRY(tokenizer::Tokenizer tokenizer, tokenizer::Tokenizer::create(std::move(vocabulary)));
  if (tokenizer.vocab_size() > static_cast<size_t>(config.vocabulary)) {
    return make_error(ErrorCode::kCorrupt, fmt::format("the tokenizer has {} tokens, the token embedding {} rows",
                                                       tokenizer.vocab_size(), config.vocabulary));
  }
  return tokenizer;
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : team_(options.threads > 0 ? options.threads : port::usable_cores()),
      kernels_(options.kernels != nullptr ? *options.kernels : kernels::best_kernel_set()) {}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options, const model::LoadProgress& progress) {
  std::unique_ptr<Engine> engine(new Engine(options));
  const Status loaded = engine->load(options, progress);
  if (!loaded.ok()) return loaded.error();
  return engine;
}

Status Engine::load(const EngineOptions& options, const model::LoadProgress& progress) {
  QUIRE_TRY(const port::MappedFile mapping, port::MappedFile::open(options.model_path));
  const auto read = [&]() -> Status {
    QUIRE_TRY(const gguf::File file, gguf::File::parse(mapping.bytes()));
    QUIRE_TRY(config_, model::read_config(file));
    QUIRE_TRY(tokenizer_, read_tokenizer(file, config_));
    QUIRE_TRY(template_, compile_template(file, options.chat_template));
    QUIRE_TRY(weights_, model::Weights::load(file, mapping, config_, team_, progress));
    return {};
  };
  if (const Status status = read(); !status.ok()) return at(options.model_path, status.error());

  groups_ = model::layer_groups(config_, options.kv_format);
  QUIRE_TRY(forward_, model::Forward::create(config_, *weights_, kernels_, options.kv_format, options.chunk, team_));
  // One user may take all that is left; how much of it others need is for them to say.
  budget_.emplace(port::memory_left().value_or(Bytes(INT64_MAX)));
  return {};
}

Bytes Engine::embedding_bytes() const {
  const kernels::PackedMatrix& embedding = weights_->embedding;
  return Bytes(static_cast<int64_t>(kernels::packed_bytes(embedding.format, embedding.outputs, embedding.inputs)));
}

}  // namespace quire::engine
