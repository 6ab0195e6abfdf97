#include "tokenizer/vocabulary_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tokenizer/tokenizer.h"

namespace quire::tokenizer {
namespace {

using test_support::GgufWriter;

GgufWriter writer_of_three_tokens() {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", std::string_view("llama"));
  writer.add("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "\xFF", "▁a"});
  return writer;
}

Result<Vocabulary> read(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.bytes();
  QUIRE_TRY(const gguf::File file, gguf::File::parse(bytes));
  return vocabulary_from(file);
}

TEST(VocabularyGguf, TakesWhatIsThere) {
  GgufWriter writer = writer_of_three_tokens();
  writer.add("tokenizer.ggml.pre", std::string_view("smollm"));
  writer.add("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, -1});
  writer.add("tokenizer.ggml.scores", std::vector<float>{0, -1.5F, 2});
  writer.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{0});
  writer.add("tokenizer.ggml.eos_token_id", uint32_t{0xFFFFFFFF});
  writer.add("tokenizer.ggml.eot_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.unknown_token_id", int32_t{-1});
  writer.add("tokenizer.ggml.padding_token_id", uint8_t{1});
  writer.add("tokenizer.ggml.add_bos_token", true);
  writer.add("tokenizer.ggml.add_eos_token", false);
  writer.add("tokenizer.ggml.add_space_prefix", false);
  const Vocabulary v = read(writer).value();
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.pre, "smollm");
  EXPECT_EQ(v.tokens, (std::vector<std::string>{"<s>", "\xFF", "▁a"}));
  EXPECT_EQ(v.types, (std::vector<int32_t>{3, 1, -1}));
  EXPECT_EQ(v.scores, (std::vector<float>{0, -1.5F, 2}));
  EXPECT_EQ(v.merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(v.bos, 0);
  EXPECT_EQ(v.eos, 0xFFFFFFFF);
  EXPECT_EQ(v.end_of_turn, 2);
  EXPECT_EQ(v.unknown, -1);
  EXPECT_EQ(v.padding, 1);
  EXPECT_EQ(v.add_bos, true);
  EXPECT_EQ(v.add_eos, false);
  EXPECT_EQ(v.add_space_prefix, false);
}

TEST(VocabularyGguf, LeavesOutWhatIsNot) {
  const Vocabulary v = read(writer_of_three_tokens()).value();
  EXPECT_TRUE(v.pre.empty() && v.types.empty() && v.scores.empty() && v.merges.empty());
  EXPECT_FALSE(v.bos || v.eos || v.end_of_turn || v.unknown || v.padding);
  EXPECT_FALSE(v.add_bos || v.add_eos || v.add_space_prefix);
}

TEST(VocabularyGguf, ScoresBeyondFloatKeepTheirOrder) {
  GgufWriter writer = writer_of_three_tokens();
  writer.add("tokenizer.ggml.scores", std::vector<double>{1e300, -1e300, std::nan("")});
  const Vocabulary v = read(writer).value();
  EXPECT_EQ(v.scores[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(v.scores[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(v.scores[2]));
}

TEST(VocabularyGguf, NamesTheKeyThatIsWrong) {
  const std::pair<const char*, std::function<void(GgufWriter&)>> cases[] = {
      {"tokenizer.ggml.model", [](GgufWriter& w) { w.remove("tokenizer.ggml.model"); }},
      {"tokenizer.ggml.tokens", [](GgufWriter& w) { w.remove("tokenizer.ggml.tokens"); }},
      {"tokenizer.ggml.pre", [](GgufWriter& w) { w.add("tokenizer.ggml.pre", uint32_t{1}); }},
      {"tokenizer.ggml.token_type",
       [](GgufWriter& w) {
         w.add("tokenizer.ggml.token_type", std::vector<float>{1, 1, 1});
       }},
      {"tokenizer.ggml.token_type",
       [](GgufWriter& w) {
         w.add("tokenizer.ggml.token_type", std::vector<int64_t>{int64_t{1} << 32, 1, 1});
       }},
      {"tokenizer.ggml.scores", [](GgufWriter& w) { w.add("tokenizer.ggml.scores", std::vector<std::string>{"1"}); }},
      {"tokenizer.ggml.merges", [](GgufWriter& w) { w.add("tokenizer.ggml.merges", std::string_view("a b")); }},
      {"tokenizer.ggml.bos_token_id", [](GgufWriter& w) { w.add("tokenizer.ggml.bos_token_id", 1.0F); }},
      {"tokenizer.ggml.add_bos_token", [](GgufWriter& w) { w.add("tokenizer.ggml.add_bos_token", uint32_t{1}); }},
      {"tokenizer.ggml.remove_extra_whitespaces", [](GgufWriter& w) { w.add("tokenizer.ggml.remove_extra_whitespaces", true); }},
      {"tokenizer.ggml.precompiled_charsmap",
       [](GgufWriter& w) {
         w.add("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{1, 2});
       }},
  };
  for (const auto& [key, change] : cases) {
    GgufWriter writer = writer_of_three_tokens();
    change(writer);
    const Result<Vocabulary> v = read(writer);
    ASSERT_FALSE(v.ok()) << key;
    EXPECT_THAT(v.error().message, testing::HasSubstr(key));
  }
}

TEST(VocabularyGguf, AHarmlessNormalizationIsNoError) {
  GgufWriter writer = writer_of_three_tokens();
  writer.add("tokenizer.ggml.remove_extra_whitespaces", false);
  writer.add("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>{});
  EXPECT_TRUE(read(writer).ok());
}

}  // namespace
}  // namespace quire::tokenizer
