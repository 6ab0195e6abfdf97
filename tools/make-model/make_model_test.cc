#include "make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "gguf/dequantize.h"
#include "random_blocks.h"
#include "tests/support/tiny_models.h"

namespace quire::make_model {
namespace {

using gguf::TensorType;
using ::testing::HasSubstr;

class Blocks : public ::testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(Random, Blocks, ::testing::ValuesIn(gguf::all_tensor_types().begin(), gguf::all_tensor_types().end()),
                         [](const auto& format) { return std::string(gguf::to_string(format.param)); });

TEST_P(Blocks, HaveTheWantedSpread) {
  constexpr int64_t kWeights = 1 << 18;
  for (const float deviation : {1.0f / 16, 1.0f / 170}) {
    std::vector<std::byte> bytes(static_cast<size_t>(gguf::row_bytes(GetParam(), kWeights)));
    RandomBlocks(GetParam(), deviation, 1).fill(bytes);
    std::vector<float> weights(kWeights);
    gguf::dequantize_row(GetParam(), bytes, weights);
    double sum = 0;
    double squares = 0;
    for (const double weight : weights) {
      ASSERT_TRUE(std::isfinite(weight));
      ASSERT_LT(std::fabs(weight), 6 * deviation);
      sum += weight;
      squares += weight * weight;
    }
    EXPECT_NEAR(std::sqrt(squares / kWeights) / deviation, 1, 0.15);
    EXPECT_NEAR(sum / kWeights / deviation, 0, 0.02);
  }
}

TEST_P(Blocks, DependOnTheSeedAlone) {
  const auto block = static_cast<size_t>(gguf::block_bytes(GetParam()));
  std::vector<std::byte> whole(100 * block);
  RandomBlocks(GetParam(), 0.1f, 5).fill(whole);
  std::vector<std::byte> parts(100 * block);
  RandomBlocks random(GetParam(), 0.1f, 5);
  random.fill(std::span(parts).first(30 * block));
  random.fill(std::span(parts).subspan(30 * block));
  EXPECT_EQ(whole, parts);
  RandomBlocks(GetParam(), 0.1f, 6).fill(parts);
  EXPECT_NE(whole, parts);
}

class MakeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "quire_make_model_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "model.gguf").string();
    test_support::GgufWriter writer;
    test_support::add_tiny_bpe_tokenizer(writer);
    tokenizer_bytes_ = writer.bytes();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::vector<std::byte> written() const {
    std::ifstream file(path_, std::ios::binary | std::ios::ate);
    std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  std::filesystem::path folder_;
  std::string path_;
  std::vector<std::byte> tokenizer_bytes_;
};

TEST_F(MakeModel, WritesACompleteModel) {
  const auto tokenizer = gguf::File::parse(tokenizer_bytes_);
  ASSERT_TRUE(tokenizer.ok());
  Options options;
  options.shape = *test_support::known_shape("llama-3.2-1b");
  options.shape.layers = 1;
  uint64_t last = 0;
  const auto size = make_model(options, *tokenizer, path_, [&](uint64_t now, uint64_t total) {
    EXPECT_LE(now, total);
    last = now;
  });
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(last, *size);
  const auto bytes = written();
  EXPECT_EQ(bytes.size(), *size);
  const auto model = gguf::File::parse(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(*model->get_u64("llama.block_count"), 1u);
  EXPECT_EQ(*model->get_string("tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(model->get_tensor("token_embd.weight")->dims[1], static_cast<int64_t>(*model->get_u64("llama.vocab_size")));
  EXPECT_EQ(model->get_tensor("blk.0.ffn_down.weight")->type, TensorType::kQ4_K);
  std::vector<float> values(32);
  const auto factors = model->get_tensor("rope_freqs.weight");
  ASSERT_TRUE(factors.ok()) << factors.error().message;
  gguf::dequantize_row(TensorType::kF32, factors->data, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[31], 32.0f);
}

TEST_F(MakeModel, TakesSmallerBlocksWhereRowsAreShort) {
  const auto tokenizer = gguf::File::parse(tokenizer_bytes_);
  Options options;
  options.shape = *test_support::known_shape("smollm2-135m");
  options.shape.layers = 1;
  ASSERT_TRUE(make_model(options, *tokenizer, path_, [](uint64_t, uint64_t) {}).ok());
  const auto bytes = written();
  const auto model = gguf::File::parse(bytes);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->get_tensor("blk.0.attn_q.weight")->type, TensorType::kQ5_0);    // rows of 576
  EXPECT_EQ(model->get_tensor("blk.0.ffn_down.weight")->type, TensorType::kQ4_K);  // rows of 1536
}

TEST_F(MakeModel, AnErrorLeavesNothingBehind) {
  const auto tokenizer = gguf::File::parse(tokenizer_bytes_);
  Options options;
  options.shape = *test_support::known_shape("llama-3-70b");
  options.shape.layers = 10000;  // terabytes
  const auto too_big = make_model(options, *tokenizer, path_, [](uint64_t, uint64_t) {});
  ASSERT_FALSE(too_big.ok());
  EXPECT_THAT(too_big.error().message, HasSubstr("fewer layers"));
  options.shape.layers = 1;
  const auto nowhere = make_model(options, *tokenizer, (folder_ / "no" / "model.gguf").string(), [](uint64_t, uint64_t) {});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message, HasSubstr("choose a folder that exists"));
  const auto no_metadata = test_support::GgufWriter().bytes();
  const auto without_tokens = make_model(options, *gguf::File::parse(no_metadata), path_, [](uint64_t, uint64_t) {});
  ASSERT_FALSE(without_tokens.ok());
  EXPECT_THAT(without_tokens.error().message, HasSubstr("tokenizer.ggml.tokens is missing"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace quire::make_model
