#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "model/kv_layout.h"
#include "model/weights.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/model_shape.h"

namespace quire::model {
namespace {

using test_support::GgufWriter;
using test_support::ModelShape;
using testing::HasSubstr;

constexpr int64_t kVocabulary = 64;

ModelShape llama_shape() {
  return {.architecture = "llama",
          .name = "Tiny",
          .layers = 3,
          .embedding = 64,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .feed_forward = 96,
          .context = 512};
}

ModelShape gemma3_shape() {
  ModelShape shape = llama_shape();
  shape.architecture = "gemma3";
  shape.layers = 7;
  shape.rope_base = 1000000;
  shape.sliding_window = 40;
  return shape;
}

// The header of a file of that shape, its tensors without data; `change` may spoil it before it is read.
std::vector<std::byte> file_of(const ModelShape& shape, const std::function<void(GgufWriter&)>& change = {}) {
  GgufWriter writer;
  test_support::add_architecture(writer, shape, kVocabulary, 0);
  for (const test_support::TensorPlan& tensor : test_support::plan_tensors(shape, kVocabulary)) {
    uint64_t elements = 1;
    for (const uint64_t dim : tensor.dims) elements *= dim;
    writer.declare_tensor(tensor.name, gguf::TensorType::kF32, tensor.dims, elements * sizeof(float));
  }
  if (change) change(writer);
  return writer.bytes();
}

Result<ModelConfig> config_of(const ModelShape& shape, const std::function<void(GgufWriter&)>& change = {}) {
  const std::vector<std::byte> bytes = file_of(shape, change);
  QUIRE_TRY(const gguf::File file, gguf::File::parse(bytes));
  QUIRE_TRY(ModelConfig config, read_config(file));
  QUIRE_TRY_STATUS(Weights::check(file, config));
  return config;
}

std::string refusal_of(const ModelShape& shape, const std::function<void(GgufWriter&)>& change) {
  const Result<ModelConfig> config = config_of(shape, change);
  return config.ok() ? "accepted" : config.error().message;
}

TEST(Config, ReadsALlama) {
  const Result<ModelConfig> read = config_of(llama_shape());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->architecture, "llama");
  EXPECT_EQ(read->layers.size(), 3u);
  EXPECT_EQ(read->vocabulary, kVocabulary);
  EXPECT_EQ(read->rope_pairs, kernels::RopePairs::kAdjacent);
  EXPECT_EQ(read->gate, kernels::Gate::kSilu);
  EXPECT_FALSE(read->qk_norm);
  EXPECT_EQ(read->attention_scale, 0.25f);
  EXPECT_EQ(read->embedding_scale, 1.0f);
  EXPECT_TRUE(read->tied_output);
  EXPECT_EQ(read->layers[0].window, 0);
}

TEST(Config, ReadsFrequencyFactorsAndAnOutputMatrixOfItsOwn) {
  ModelShape shape = llama_shape();
  shape.rope_factors.assign(8, 2.0f);
  shape.tied_output = false;
  const Result<ModelConfig> read = config_of(shape);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->rope_factors);
  EXPECT_FALSE(read->tied_output);
}

TEST(Config, GemmaHasAWindowOnFiveOfSixLayersAndTwoBases) {
  const Result<ModelConfig> read = config_of(gemma3_shape());
  ASSERT_TRUE(read.ok()) << read.error().message;
  for (size_t i = 0; i < 7; ++i) {
    const bool global = i == 5;
    EXPECT_EQ(read->layers[i].window, global ? 0 : 40) << i;
    EXPECT_EQ(read->layers[i].rope.base, global ? 1000000 : 10000) << i;
  }
  EXPECT_EQ(read->embedding_scale, 8.0f);
  EXPECT_TRUE(read->qk_norm);
  EXPECT_TRUE(read->post_norms);

  const std::vector<kv::LayerGroupSpec> groups = layer_groups(*read, kernels::KvFormat::kF16);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].layers, (std::vector<int>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(groups[0].window, 40);
  EXPECT_EQ(groups[1].layers, std::vector<int>{5});
  EXPECT_FALSE(groups[1].window.has_value());
  EXPECT_EQ(groups[0].tile_record, Bytes(2 * 2 * 16 * 32 * 2));
}

TEST(Config, LinearScalingDividesPositionsOnGlobalLayersOnly) {
  ModelShape shape = gemma3_shape();
  shape.linear_rope_factor = 8.0f;
  const Result<ModelConfig> read = config_of(shape);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->layers[0].rope.position_divisor, 1);
  EXPECT_EQ(read->layers[5].rope.position_divisor, 8);
}

TEST(Config, RefusesLocalBasesThatAreNoBases) {
  for (const float base : {0.0f, -5.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* key : {"gemma3.rope.freq_base_swa", "gemma3.rope.local.freq_base"}) {
      EXPECT_THAT(refusal_of(gemma3_shape(), [&](GgufWriter& w) { w.add(key, base); }), HasSubstr("freq_base")) << key << base;
    }
  }
}

TEST(Config, FrequencyFactorsAreLlamasAlone) {
  const auto add_factors = [](GgufWriter& w) { w.declare_tensor("rope_freqs.weight", gguf::TensorType::kF32, {8}, 32); };
  EXPECT_EQ(refusal_of(llama_shape(), add_factors), "accepted");
  EXPECT_THAT(refusal_of(gemma3_shape(), add_factors), HasSubstr("rope_freqs.weight"));
}

TEST(Config, The27BModelScalesQueriesByItsWidth) {
  ModelShape shape = gemma3_shape();
  shape.layers = 62;
  shape.embedding = 144;  // 144 / 4 heads = 36, the head's width is 16
  const Result<ModelConfig> read = config_of(shape);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->attention_scale, 1.0f / 6);
}

TEST(Config, RefusesKeysThatItDoesNotKnow) {
  const auto with_key = [](const char* key) { return [key](GgufWriter& w) { w.add(key, uint32_t{1}); }; };
  EXPECT_THAT(refusal_of(llama_shape(), with_key("llama.attention.clamp_kqv")), HasSubstr("llama.attention.clamp_kqv"));
  EXPECT_THAT(refusal_of(llama_shape(), with_key("llama.expert_count")), HasSubstr("llama.expert_count"));
  EXPECT_THAT(refusal_of(gemma3_shape(), with_key("gemma3.final_logit_softcapping")), HasSubstr("softcapping"));
  EXPECT_EQ(refusal_of(llama_shape(), with_key("general.quantized_by_version")), "accepted");
  EXPECT_EQ(refusal_of(llama_shape(), [](GgufWriter& w) { w.add("llama.expert_count", uint32_t{0}); }), "accepted");
}

TEST(Config, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refusal_of(llama_shape(), [](GgufWriter& w) { w.add("llama.rope.scaling.type", "yarn"); }), HasSubstr("yarn"));
  EXPECT_THAT(refusal_of(llama_shape(),
                         [](GgufWriter& w) {
                           w.remove("general.architecture");
                           w.add("general.architecture", "mamba");
                         }),
              HasSubstr("'mamba'; Quire runs llama and gemma3"));
  EXPECT_THAT(refusal_of(llama_shape(), [](GgufWriter& w) { w.add("general.type", "adapter"); }), HasSubstr("general.type"));
  EXPECT_THAT(refusal_of(gemma3_shape(), [](GgufWriter& w) { w.remove("gemma3.attention.sliding_window"); }),
              HasSubstr("gemma3.attention.sliding_window"));
}

TEST(Config, RefusesTensorsThatAreMissingUnknownOrOfAnotherShape) {
  const auto add_tensor = [](const char* name, std::vector<uint64_t> dims) {
    return
        [=](GgufWriter& w) { w.declare_tensor(name, gguf::TensorType::kF32, dims, 4 * dims[0] * (dims.size() > 1 ? dims[1] : 1)); };
  };
  EXPECT_THAT(refusal_of(llama_shape(), add_tensor("blk.0.attn_q.bias", {64})), HasSubstr("blk.0.attn_q.bias"));
  EXPECT_THAT(refusal_of(llama_shape(), add_tensor("output.weight", {64, 63})), HasSubstr("output.weight"));
  EXPECT_THAT(refusal_of(llama_shape(),
                         [](GgufWriter& w) {
                           w.remove("llama.block_count");
                           w.add("llama.block_count", uint32_t{4});
                         }),
              HasSubstr("blk.3."));
}

// Whatever one number of the metadata is, the answer is a configuration or an error.
TEST(Config, AnyNumberIsAcceptedOrRefused) {
  for (const char* name : {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
                           "attention.head_count_kv", "attention.key_length", "rope.dimension_count", "vocab_size"}) {
    for (const uint64_t value :
         {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{65}, uint64_t{1} << 31, uint64_t{1} << 40, ~uint64_t{0}}) {
      const std::string key = std::string("llama.") + name;
      (void)config_of(llama_shape(), [&](GgufWriter& w) {
        w.remove(key);
        w.add(key, value);
      });
    }
  }
}

}  // namespace
}  // namespace quire::model
