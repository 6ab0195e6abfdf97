// Engines of tiny models, for tests of what uses an engine.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"
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

// The logits after `tokens`, computed from nothing.
inline std::vector<float> logits_from_nothing(Engine& engine, std::span<const TokenId> tokens) {
  Sequence sequence = Sequence::create(engine, TokenCount(engine.config().context_length)).value();
  EXPECT_TRUE(sequence.extend(tokens).ok());
  const std::span<const float> logits = sequence.logits();
  return {logits.begin(), logits.end()};
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace quire::engine
