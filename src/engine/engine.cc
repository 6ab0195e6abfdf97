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

// Where reserving addresses is not free, sets of segments are so small that little is reserved and not used. (Each is a mapping of
// the process, of which there may be 65,530.)
constexpr TileCount kSmallSet(8);
// Sequences of the whole context whose addresses are reserved without a thought.
constexpr int64_t kFreeSequences = 64;

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

// Refuses before anything is packed what could end in the system killing the process: beyond a control group's limit it does.
Status check_weights_fit(const gguf::File& file, const model::ModelConfig& config, Bytes left) {
  QUIRE_TRY(const Bytes weights, model::Weights::check(file, config));
  if (weights + kMemoryMargin <= left) return {};
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("the weights take {} and {} of memory are left ({} of them are kept free); close other programs or "
                                "choose a smaller model or format",
                                format_bytes(weights), format_bytes(left), format_bytes(kMemoryMargin)));
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
  Bytes left;
  const auto read = [&]() -> Status {
    QUIRE_TRY(const gguf::File file, gguf::File::parse(mapping.bytes()));
    QUIRE_TRY(config_, model::read_config(file));
    QUIRE_TRY(tokenizer_, read_tokenizer(file, config_));
    QUIRE_TRY(template_, compile_template(file, options.chat_template));
    left = port::memory_left().value_or(Bytes(INT64_MAX));
    QUIRE_TRY_STATUS(check_weights_fit(file, config_, left));
    QUIRE_TRY(weights_, model::Weights::load(file, mapping, config_, team_, progress));
    return {};
  };
  if (const Status status = read(); !status.ok()) return at(options.model_path, status.error());

  groups_ = model::layer_groups(config_, options.kv_format);
  QUIRE_TRY(forward_, model::Forward::create(config_, *weights_, kernels_, options.kv_format, options.chunk, team_));
  runner_.emplace(*forward_, config_);
  if (const Status status = make_cache(options, left); !status.ok()) return at(options.model_path, status.error());
  return {};
}

// `left`: what the process could take before it took the weights. What is left now may be less than the rest of that: the pages of
// the file that the system keeps as long as nobody needs them are no use of memory, yet they are counted as one where the process
// is in a control group.
Status Engine::make_cache(const EngineOptions& options, Bytes left) {
  const Bytes working = forward_->workspace_bytes();
  const Bytes rest = left - weights_->bytes() - kMemoryMargin;
  if (working >= rest) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("passes of {} tokens take {} of working memory and {} are left beside the weights; close other "
                                  "programs or choose a smaller --chunk",
                                  options.chunk, format_bytes(working), format_bytes(rest)));
  }
  const MemorySource source = this_process();
  constexpr Bytes kAny(INT64_MAX);
  Bytes limit = std::min(rest - working, MemoryCeiling(source, working, Bytes(0), kAny).at_start());
  std::optional<Bytes> asked = options.kv_memory;
  const kv::SegmentPoolOptions pool = segments(limit);
  if (asked && *asked > limit) {
    return make_error(
        ErrorCode::kOutOfMemory,
        fmt::format("a KV cache of {} takes more than the {} that are left beside the weights and {} of working memory; "
                    "close other programs or choose a smaller --kv-memory, or auto",
                    format_bytes(*asked), format_bytes(limit), format_bytes(working)));
  }
  if (!asked && pool.largest == kSmallSet) asked = limit;  // addresses stay as short as they are
  ceiling_.emplace(source, working, Bytes(0), asked);
  cache_.emplace(vm_, groups_,
                 kv::KvCacheOptions{.limit = std::min(limit, ceiling_->at_start()), .share = options.share, .segments = pool});
  return {};
}

// How segments are reserved here. Where addresses are short, the limit falls to what they allow.
kv::SegmentPoolOptions Engine::segments(Bytes& limit) {
  int64_t bytes = 0;
  const int64_t tiles = tiles_for(TokenCount(config_.context_length)).value * kFreeSequences;
  for (const kv::LayerGroupSpec& group : groups_) {
    const int64_t more = kv::saturating_product(kv::tile_bytes(group).value, tiles);
    bytes = more > INT64_MAX - bytes ? INT64_MAX : bytes + more;
  }
  constexpr Bytes kMostAsked(int64_t{1} << 40);
  if (port::reserving_is_free(std::min(Bytes(bytes), kMostAsked))) return {};
  // A quarter is left for all else that needs addresses: stacks of threads, the heap.
  const Bytes addresses = reservable(vm_, std::min(limit, kMostAsked));
  limit = std::min(limit, Bytes(addresses.value / 4 * 3));
  return {.largest = kSmallSet};
}

StepLoopOptions Engine::loop_options() const {
  StepLoopOptions options;
  options.scheduler.step_tokens = TokenCount(forward_->max_rows());
  options.context = TokenCount(config_.context_length);
  options.ceiling = [this] { return kv_ceiling(); };
  return options;
}

Bytes Engine::embedding_bytes() const {
  const kernels::PackedMatrix& embedding = weights_->embedding;
  return Bytes(static_cast<int64_t>(kernels::packed_bytes(embedding.format, embedding.outputs, embedding.inputs)));
}

}  // namespace quire::engine
