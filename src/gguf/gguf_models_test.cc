// The files of real models, where they have been fetched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "gguf/dequantize.h"
#include "gguf/gguf.h"

namespace quire::gguf {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Empty when the file is not there.
std::vector<std::byte> read_model(const std::string& name) {
  std::ifstream file(QUIRE_SOURCE_DIR "/models/" + name, std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::vector<std::byte> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

std::map<std::string_view, int> tensors_by_type(const File& file) {
  std::map<std::string_view, int> counts;
  for (const TensorInfo& tensor : file.tensors()) ++counts[to_string(tensor.type)];
  return counts;
}

// The root mean square of a tensor's first rows; the values it is compared with were computed by numpy, with the gguf package's
// dequantizer.
double magnitude(const TensorInfo& tensor) {
  double sum = 0;
  const int64_t rows = std::min<int64_t>(tensor.rows(), 64);
  std::vector<float> weights(static_cast<size_t>(tensor.dims[0]));
  for (int64_t row = 0; row < rows; ++row) {
    dequantize_row(tensor.type, tensor.row(row), weights);
    for (const float weight : weights) sum += static_cast<double>(weight) * weight;
  }
  return std::sqrt(sum / static_cast<double>(rows * tensor.dims[0]));
}

TEST(GgufModels, SmolLm2) {
  const auto bytes = read_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (bytes.empty()) GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there: make models fetches it";
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->metadata().size(), 33u);
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  EXPECT_EQ(*file->get_u64("llama.block_count"), 30u);
  EXPECT_EQ(*file->get_f64("llama.rope.freq_base"), 100000.0);
  EXPECT_EQ(*file->get_bool("tokenizer.ggml.add_bos_token"), false);
  const auto tokens = file->get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->size(), 49152u);
  EXPECT_EQ(tokens->back(), "ectable");
  EXPECT_EQ(file->get_strings("tokenizer.ggml.merges")->at(3), "h e");
  EXPECT_EQ(file->get_integers("tokenizer.ggml.token_type")->size(), tokens->size());
  EXPECT_THAT(tensors_by_type(*file), UnorderedElementsAre(Pair("Q4_1", 210), Pair("F32", 61), Pair("Q8_0", 1)));
  EXPECT_EQ(file->data_offset(), 1785664u);
  EXPECT_NEAR(magnitude(*file->find_tensor("blk.0.attn_q.weight")), 0.2555529086766616, 1e-12);
  EXPECT_NEAR(magnitude(*file->find_tensor("token_embd.weight")), 0.11957757320199737, 1e-12);
  EXPECT_EQ(file->tensors().back().offset + file->tensors().back().data.size(), bytes.size());
}

TEST(GgufModels, Gemma3) {
  const auto bytes = read_model("gemma-3-270m-q4_k_m.gguf");
  if (bytes.empty()) GTEST_SKIP() << "models/gemma-3-270m-q4_k_m.gguf is not there: make models fetches it";
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("general.architecture"), "gemma3");
  EXPECT_EQ(*file->get_u64("gemma3.attention.sliding_window"), 512u);
  EXPECT_EQ(file->get_floats("tokenizer.ggml.scores")->size(), 262144u);
  EXPECT_THAT(tensors_by_type(*file),
              UnorderedElementsAre(Pair("F32", 109), Pair("Q5_0", 81), Pair("Q4_K", 27), Pair("Q8_0", 10), Pair("Q6_K", 9)));
  EXPECT_NEAR(magnitude(*file->find_tensor("blk.0.attn_output.weight")), 0.036259708675312224, 1e-12);
  EXPECT_NEAR(magnitude(*file->find_tensor("blk.0.attn_q.weight")), 0.04697026116467236, 1e-12);
  EXPECT_NEAR(magnitude(*file->find_tensor("blk.0.ffn_down.weight")), 0.020927763666370152, 1e-12);
}

}  // namespace
}  // namespace quire::gguf
