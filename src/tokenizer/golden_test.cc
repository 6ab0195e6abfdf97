// Held to ids that other implementations give: two models' (testdata/tokenize.jsonl) and the vocabularies that llama.cpp publishes
// with texts and ids, where they are at hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "port/file.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_gguf.h"

namespace quire::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

constexpr Bytes kMaxTestFile{int64_t{16} << 20};

Result<Tokenizer> tokenizer_of(const std::string& path) {
  QUIRE_TRY(const port::MappedFile mapped, port::MappedFile::open(path));
  QUIRE_TRY(const gguf::File file, gguf::File::parse(mapped.bytes()));
  QUIRE_TRY(Vocabulary vocabulary, vocabulary_from(file));
  return Tokenizer::create(std::move(vocabulary));
}

struct Model {
  const char* name;  // in the golden file
  const char* file;
  size_t lines;  // with that name, so that none is lost
};

class GoldenModel : public testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    const std::string path = fmt::format("{}/models/{}", QUIRE_SOURCE_DIR, GetParam().file);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; `make models` fetches it";
    Result<Tokenizer> tokenizer = tokenizer_of(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_.emplace(std::move(*tokenizer));
    std::istringstream lines(port::read_file(QUIRE_SOURCE_DIR "/src/tokenizer/testdata/tokenize.jsonl", kMaxTestFile).value());
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json entry = nlohmann::json::parse(line);
      if (entry["model"] == GetParam().name) entries_.push_back(std::move(entry));
    }
    ASSERT_EQ(entries_.size(), GetParam().lines);
  }

  std::optional<Tokenizer> tokenizer_;
  std::vector<nlohmann::json> entries_;
};

TEST_P(GoldenModel, EveryLineIsEqual) {
  size_t with_special = 0;
  for (const nlohmann::json& entry : entries_) {
    const auto text = entry["text"].get<std::string>();
    EXPECT_EQ(*tokenizer_->encode(text), entry["ids"].get<Ids>()) << entry;
    if (!entry.contains("ids_with_special")) continue;
    ++with_special;
    EXPECT_EQ(*tokenizer_->encode(text, {.parse_special = true}), entry["ids_with_special"].get<Ids>()) << entry;
  }
  EXPECT_GT(with_special, 0u);
}

TEST_P(GoldenModel, EveryTextComesBack) {
  for (const nlohmann::json& entry : entries_) {
    const auto text = entry["text"].get<std::string>();
    const Ids ids = *tokenizer_->encode(text);
    EXPECT_EQ(*tokenizer_->decode(ids), text);
    Detokenizer detokenizer(*tokenizer_);
    std::string streamed;
    for (const TokenId id : ids) streamed += *detokenizer.push(id);
    EXPECT_EQ(streamed + detokenizer.finish(), text);
  }
}

TEST_P(GoldenModel, TextNeverBecomesAControlToken) {
  for (TokenId id = 0; tokenizer_->contains(id); ++id) {
    if (!tokenizer_->is_control(id)) continue;
    const std::string text(tokenizer_->piece(id));
    EXPECT_EQ(*tokenizer_->encode(text, {.parse_special = true}), Ids{id}) << text;
    const Ids plain = *tokenizer_->encode(text);
    EXPECT_TRUE(std::none_of(plain.begin(), plain.end(), [&](TokenId each) { return tokenizer_->is_control(each); })) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Values(Model{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 218},
                                         Model{"gemma3", "gemma-3-270m-q4_k_m.gguf", 218}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SmolLm2, KnowsItsSpecialTokens) {
  const std::string path = QUIRE_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; `make models` fetches it";
  const Tokenizer tokenizer = tokenizer_of(path).value();
  EXPECT_EQ(tokenizer.vocab_size(), 49152u);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_FALSE(tokenizer.add_bos() || tokenizer.add_eos() || tokenizer.add_space_prefix());
  EXPECT_EQ((Ids{tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end()}), (Ids{0, 2}));
  // 21 bytes never occurred in its training and have no token.
  EXPECT_EQ(*tokenizer.decode(*tokenizer.encode("a\xFF\x04"
                                                "b")),
            "a\uFFFD\uFFFDb");
}

TEST(Gemma3, KnowsItsSpecialTokens) {
  const std::string path = QUIRE_SOURCE_DIR "/models/gemma-3-270m-q4_k_m.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; `make models` fetches it";
  const Tokenizer tokenizer = tokenizer_of(path).value();
  EXPECT_EQ(tokenizer.vocab_size(), 262144u);
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_FALSE(tokenizer.add_eos() || tokenizer.add_space_prefix());
  EXPECT_EQ((Ids{tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end()}), (Ids{1, 106}));
  EXPECT_EQ(*tokenizer.encode("<eos>", {.add_special = true}), (Ids{2, 236820, 211827, 236813}));
  // Not UTF-8, and back.
  EXPECT_EQ(*tokenizer.decode(*tokenizer.encode("a\xFF\x04\xE6\xAD")), "a\xFF\x04\xE6\xAD");
}

class PublishedVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(PublishedVocabulary, EveryTextIsEqual) {
  const char* folder = std::getenv("QUIRE_TEST_DATA");
  if (!folder || !*folder) GTEST_SKIP() << "QUIRE_TEST_DATA does not name a folder with vocab/";
  const std::string path = fmt::format("{}/vocab/ggml-vocab-{}.gguf", folder, GetParam());
  const Result<Tokenizer> tokenizer = tokenizer_of(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const std::string texts = port::read_file(path + ".inp", kMaxTestFile).value();
  std::istringstream expected(port::read_file(path + ".out", kMaxTestFile).value());
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  size_t count = 0;
  size_t begin = 0;
  for (size_t end; (end = texts.find(kSeparator, begin)) != std::string::npos; begin = end + kSeparator.size(), ++count) {
    const std::string text = texts.substr(begin, end - begin);
    std::string line;
    ASSERT_TRUE(std::getline(expected, line)) << "more texts than lines of ids";
    std::istringstream numbers(line);
    const Ids ids(std::istream_iterator<TokenId>(numbers), {});
    EXPECT_EQ(*tokenizer->encode(text), ids) << text;
    EXPECT_EQ(*tokenizer->decode(ids), text);
  }
  EXPECT_EQ(begin, texts.size());  // each text ends with the separator
  EXPECT_GT(count, 40u);
  std::string rest;
  EXPECT_FALSE(std::getline(expected, rest)) << rest;
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, PublishedVocabulary, testing::Values("gpt-2", "llama-spm", "phi-3"), [](const auto& test) {
  return std::string(test.param).replace(std::string(test.param).find("-"), 1, "_");
});

}  // namespace
}  // namespace quire::tokenizer
