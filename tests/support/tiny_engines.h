// Engines of tiny models, for tests of what uses an engine.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/key_space.h"
#include "engine/sequence_views.h"
#include "port/file.h"
#include "tests/support/tiny_models.h"

namespace quire::engine {

// A model's file for the length of a test.
class ModelFile {
 public:
  explicit ModelFile(const std::vector<std::byte>& bytes)
      : path_(testing::TempDir() + "engine_test_" + std::to_string(getpid()) + ".gguf") {
    QUIRE_CHECK(port::write_file_atomically(path_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).ok());
  }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  ~ModelFile() { std::remove(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::unique_ptr<Engine> make_engine(const std::vector<std::byte>& model, EngineOptions options) {
  const ModelFile file(model);
  options.model_path = file.path();
  return std::move(Engine::create(options)).value();
}

inline test_support::TinyModelOptions with_q8_0(test_support::TinyModelOptions options) {
  options.matrix_type = gguf::TensorType::kQ8_0;
  options.embedding_type = gguf::TensorType::kQ8_0;
  return options;
}

// Context 512, full attention.
inline std::unique_ptr<Engine> tiny_llama(EngineOptions options = {.threads = 2}) {
  return make_engine(test_support::tiny_llama_model(with_q8_0(test_support::tiny_llama_options())), options);
}
// Context 512, five of six layers with a window of 48.
inline std::unique_ptr<Engine> tiny_gemma3(EngineOptions options = {.threads = 2}) {
  return make_engine(test_support::tiny_gemma3_model(with_q8_0(test_support::tiny_gemma3_options())), options);
}

// Ordinary tokens, the same for the same arguments.
inline std::vector<TokenId> some_tokens(const Engine& engine, int count, int seed = 0) {
  std::vector<TokenId> tokens;
  for (int i = 0; static_cast<int>(tokens.size()) < count; ++i) {
    const TokenId token = (i * 37 + i * i + seed * 11) % engine.config().vocabulary;
    if (engine.tokenizer().contains(token) && !engine.tokenizer().is_control(token)) tokens.push_back(token);
  }
  return tokens;
}

// The logits after `tokens`, computed from nothing, in pieces of at most `chunk`. The engine has no step loop meanwhile.
inline std::vector<float> logits_from_nothing(Engine& engine, std::span<const TokenId> tokens, size_t chunk = 64) {
  kv::KvCache& cache = engine.cache();
  const TokenCount length(static_cast<int64_t>(tokens.size()));
  const kv::SequenceId id = cache.open(key_space({.purpose = "test"}), tokens, length).value().value();
  chunk = std::min(chunk, static_cast<size_t>(engine.runner().max_rows()));
  SequenceViews views;
  size_t last = 0;
  for (size_t done = 0; done < tokens.size(); done += last) {
    last = std::min(chunk, tokens.size() - done);
    const kv::Growth growth{.sequence = id, .length = TokenCount(static_cast<int64_t>(done + last))};
    QUIRE_CHECK(cache.prepare(std::span(&growth, 1)).value().space == kv::Space::kOk);
    const model::SequenceChunk part{.tokens = tokens.subspan(done, last),
                                    .first_position = TokenPos(static_cast<int64_t>(done)),
                                    .layers = views.of(cache, id, engine.runner().layers())};
    engine.runner().run(std::span(&part, 1));
    cache.append(id, tokens.subspan(done, last));
  }
  const int row = static_cast<int>(last) - 1;
  const std::span<const float> logits = engine.runner().logits(std::span(&row, 1));
  cache.close(id, kv::KvCache::Keep::kDrop);
  return {logits.begin(), logits.end()};
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace quire::engine
