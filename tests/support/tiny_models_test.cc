#include "tests/support/tiny_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/hash.h"
#include "gguf/dequantize.h"
#include "gguf/gguf.h"

namespace quire::test_support {
namespace {

using gguf::TensorType;
using ::testing::ElementsAre;

void expect_a_complete_model(const std::vector<std::byte>& bytes, const ModelShape& shape) {
  const auto file = gguf::File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto tokens = file->get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  EXPECT_EQ(std::set<std::string_view>(tokens->begin(), tokens->end()).size(), tokens->size()) << "tokens are unique";
  EXPECT_EQ(file->get_integers("tokenizer.ggml.token_type")->size(), tokens->size());
  EXPECT_EQ(file->get_tensor("token_embd.weight")->dims[1], static_cast<int64_t>(tokens->size()));
  EXPECT_EQ(file->tensors().size(), plan_tensors(shape, static_cast<int64_t>(tokens->size())).size());
  EXPECT_EQ(file->find_tensor("output.weight") == nullptr, shape.tied_output);
}

// Tests elsewhere may compare with numbers that such models gave once: the bytes change only on purpose.
TEST(TinyModels, AreTheSameEverywhere) {
  EXPECT_EQ(hash64(tiny_llama_model()), 1225273678571433552u);
  EXPECT_EQ(hash64(tiny_gemma3_model()), 2718868266416796448u);
}

TEST(TinyModels, AreComplete) {
  expect_a_complete_model(tiny_llama_model(), tiny_llama_options().shape);
  expect_a_complete_model(tiny_gemma3_model(), tiny_gemma3_options().shape);
  const auto gemma = tiny_gemma3_model();
  const auto file = gguf::File::parse(gemma);
  EXPECT_EQ(file->get_floats("tokenizer.ggml.scores")->size(), file->get_strings("tokenizer.ggml.tokens")->size());
  EXPECT_EQ(*file->get_u64("gemma3.attention.sliding_window"), 48u);
}

TEST(TinyModels, EveryByteHasItsTokenInTheBpeVocabulary) {
  GgufWriter writer;
  add_tiny_bpe_tokenizer(writer);
  const auto bytes = writer.bytes();
  const auto tokens = gguf::File::parse(bytes)->get_strings("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens->at(3 + 'A'), "A");
  EXPECT_EQ(tokens->at(3 + ' '), "\u0120");
  EXPECT_EQ(tokens->at(3 + '\n'), "\u010a");
  EXPECT_EQ(tokens->at(3 + 0x7f), "\u0121");
  EXPECT_EQ(tokens->at(3 + 0xad), "\u0143");
  EXPECT_EQ(tokens->at(3 + 0xff), "\u00ff");
}

TEST(TinyModels, TakeTheTypesAskedFor) {
  TinyModelOptions options = tiny_llama_options();
  options.shape.embedding = 256;
  options.shape.heads = 4;
  options.shape.tied_output = false;
  options.shape.rope_factors = llama3_rope_factors(64, 500000, 8);
  options.matrix_type = TensorType::kQ4_K;
  options.embedding_type = TensorType::kQ8_0;
  options.output_type = TensorType::kQ6_K;
  const auto bytes = tiny_llama_model(options);
  expect_a_complete_model(bytes, options.shape);
  const auto file = gguf::File::parse(bytes);
  EXPECT_EQ(file->get_tensor("blk.1.attn_v.weight")->type, TensorType::kQ4_K);
  EXPECT_EQ(file->get_tensor("token_embd.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ(file->get_tensor("output.weight")->type, TensorType::kQ6_K);
  EXPECT_EQ(file->get_tensor("rope_freqs.weight")->dims[0], 32);
}

TEST(TinyModels, QuantizedAndPlainWeightsAgree) {
  TinyModelOptions options = tiny_llama_options();
  const auto plain_bytes = tiny_llama_model(options);
  options.matrix_type = TensorType::kQ8_0;
  const auto quantized_bytes = tiny_llama_model(options);
  const auto plain = gguf::File::parse(plain_bytes)->get_tensor("blk.0.ffn_up.weight");
  const auto quantized = gguf::File::parse(quantized_bytes)->get_tensor("blk.0.ffn_up.weight");
  std::vector<float> expected(128);
  std::vector<float> actual(128);
  gguf::dequantize_row(plain->type, plain->row(17), expected);
  gguf::dequantize_row(quantized->type, quantized->row(17), actual);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 0.002);
}

TEST(TinyModels, ChangesReachTheFile) {
  TinyModelOptions options = tiny_llama_options();
  options.change = [](GgufWriter& writer) {
    writer.remove("llama.block_count");
    writer.add("llama.expert_count", uint32_t{8});
  };
  const auto bytes = tiny_llama_model(options);
  const auto file = gguf::File::parse(bytes);
  EXPECT_EQ(file->find("llama.block_count"), nullptr);
  EXPECT_EQ(*file->get_u64("llama.expert_count"), 8u);
}

TEST(ModelShapes, HeadsFitTheirModels) {
  for (const std::string& name : known_shape_names()) {
    const auto shape = known_shape(name);
    ASSERT_TRUE(shape.has_value()) << name;
    EXPECT_EQ(shape->heads % shape->kv_heads, 0) << name;
    if (shape->architecture == "llama") {
      EXPECT_EQ(shape->heads * shape->head_dim, shape->embedding) << name;
    }
  }
  EXPECT_FALSE(known_shape("llama-2").has_value());
}

TEST(ModelShapes, RopeFactorsRiseFromOneToTheFactor) {
  const auto factors = llama3_rope_factors(128, 500000, 8);
  ASSERT_EQ(factors.size(), 64u);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
  EXPECT_TRUE(std::is_sorted(factors.begin(), factors.end()));
  // The wavelengths 2 pi 500000^(2i/128) of the pairs 34 and 35 are 6695 and 8219, on both sides of 8192.
  EXPECT_EQ(factors[35], 8.0f);
  const double smooth = (8192 / 6695.109481 - 1) / 3;
  EXPECT_NEAR(factors[34], 1 / ((1 - smooth) / 8 + smooth), 1e-5);
}

TEST(ModelShapes, FittingTypes) {
  EXPECT_EQ(fitting_type(TensorType::kQ4_K, 512), TensorType::kQ4_K);
  EXPECT_EQ(fitting_type(TensorType::kQ4_K, 576), TensorType::kQ5_0);
  EXPECT_EQ(fitting_type(TensorType::kQ6_K, 576), TensorType::kQ8_0);
  EXPECT_EQ(fitting_type(TensorType::kQ4_0, 48), TensorType::kF16);
}

}  // namespace
}  // namespace quire::test_support
