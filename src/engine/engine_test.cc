#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_engines.h"

namespace quire::engine {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Error error_of(const std::vector<std::byte>& model, EngineOptions options = {}) {
  const ModelFile file(model);
  options.model_path = file.path();
  const Result<std::unique_ptr<Engine>> engine = Engine::create(options);
  EXPECT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message, StartsWith(file.path() + ": "));
  return engine.error();
}

TEST(Engine, RefusesAModelThatItDoesNotUnderstand) {
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.change = [](test_support::GgufWriter& writer) { writer.add("llama.attention.flux_capacitor", uint32_t{1}); };
  const Error error = error_of(test_support::tiny_llama_model(options));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("llama.attention.flux_capacitor"));
}

TEST(Engine, RefusesABrokenTemplateByItsName) {
  EXPECT_THAT(error_of(test_support::tiny_llama_model(), {.chat_template = "{% for x in %}"}).message,
              HasSubstr("the chat template: "));
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.change = [](test_support::GgufWriter& writer) {
    writer.remove("tokenizer.chat_template");
    writer.add("tokenizer.chat_template", "{{ messages");
  };
  EXPECT_THAT(error_of(test_support::tiny_llama_model(options)).message, HasSubstr("the model's chat template: "));
}

TEST(Engine, ATemplateComesFromTheModelOrTheOptions) {
  EXPECT_NE(tiny_llama()->chat_template(), nullptr);
  EXPECT_EQ(tiny_gemma3()->chat_template(), nullptr);
  EXPECT_NE(tiny_gemma3({.chat_template = "{{ messages }}"})->chat_template(), nullptr);
}

TEST(Engine, KeepsMemoryBesideTheCache) {
  const auto engine = tiny_llama();
  EXPECT_GT(engine->cache().usage().limit, Bytes(0));
  EXPECT_EQ(engine->cache().usage().backed, Bytes(0));
  EXPECT_GT(engine->kv_ceiling(), Bytes(0));
  EXPECT_GT(engine->weight_bytes(), engine->embedding_bytes());
  EXPECT_GT(engine->embedding_bytes(), Bytes(0));
}

TEST(Engine, TakesTheBudgetThatItIsGiven) {
  const auto engine = tiny_llama({.threads = 1, .kv_memory = Bytes(1 << 20)});
  EXPECT_EQ(engine->cache().usage().limit, Bytes(1 << 20));
  EXPECT_EQ(engine->kv_ceiling(), Bytes(1 << 20));
}

TEST(Engine, RefusesABudgetThatIsNotThereWithTheNumbers) {
  const Error error = error_of(test_support::tiny_llama_model(), {.kv_memory = Bytes(int64_t{1} << 50)});
  EXPECT_EQ(error.code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(error.message, HasSubstr("a KV cache of 1024 TiB takes more than the "));
}

TEST(Engine, AMissingFileIsNamed) {
  const Result<std::unique_ptr<Engine>> engine = Engine::create({.model_path = "/nowhere/model.gguf"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(engine.error().message, StartsWith("/nowhere/model.gguf: "));
}

}  // namespace
}  // namespace quire::engine
