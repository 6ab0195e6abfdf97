#include "model/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "model/kv_layout.h"
#include "port/memory.h"
#include "tests/support/random.h"
#include "tests/support/tiny_models.h"

namespace quire::model {
namespace {

using kernels::KernelSet;
using kernels::KvFormat;

// A model in memory, with the file that it came from.
struct TinyModel {
  ModelConfig config;
  std::unique_ptr<const Weights> weights;
};

TinyModel load(const std::vector<std::byte>& bytes) {
  const std::string path = testing::TempDir() + "tiny_model_" + std::to_string(getpid()) + ".gguf";
  QUIRE_CHECK(port::write_file_atomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).ok());
  const port::MappedFile mapping = port::MappedFile::open(path).value();
  const gguf::File file = gguf::File::parse(mapping.bytes()).value();
  port::ThreadTeam team(2);
  TinyModel model;
  model.config = read_config(file).value();
  model.weights = Weights::load(file, mapping, model.config, team, {}).value();
  EXPECT_EQ(std::remove(path.c_str()), 0);
  return model;
}

TinyModel llama(gguf::TensorType type) {
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.shape.embedding = 256;
  options.matrix_type = type;
  options.embedding_type = gguf::TensorType::kQ8_0;
  return load(test_support::tiny_llama_model(options));
}

TinyModel gemma3() {
  test_support::TinyModelOptions options = test_support::tiny_gemma3_options();
  options.matrix_type = gguf::TensorType::kQ8_0;
  options.embedding_type = gguf::TensorType::kQ8_0;
  return load(test_support::tiny_gemma3_model(options));
}

std::vector<TokenId> tokens_for(const ModelConfig& config, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + i * i) % config.vocabulary);
  return tokens;
}

// One sequence's memory and its view: a run of tile records for each layer, all of them NaN until they are written.
class Kv {
 public:
  Kv(const ModelConfig& config, KvFormat format, int64_t max_tokens)
      : config_(config),
        record_(static_cast<int64_t>(kernels::tile_record_bytes(attention_shape(config, 0, format)))),
        tiles_(tiles_for(TokenCount(max_tokens)).value) {
    const auto layers = static_cast<int64_t>(config.layers.size());
    memory_ = port::AnonymousMemory::allocate(Bytes(record_ * tiles_ * layers)).value();
    std::memset(memory_.bytes().data(), 0xFF, memory_.bytes().size());
    for (int64_t layer = 0; layer < layers; ++layer) {
      std::byte* base = memory_.bytes().data() + layer * tiles_ * record_;
      pieces_.push_back({{.base = base, .tile_stride = record_, .first_tile = 0, .tiles = tiles_}});
    }
    for (const auto& pieces : pieces_) layers_.emplace_back(pieces);
  }

  // The first tiles are those of another sequence, all that it has.
  void begin_with(const Kv& beginning) {
    for (size_t layer = 0; layer < pieces_.size(); ++layer) {
      kernels::KvPiece own = pieces_[layer].front();
      own.first_tile = beginning.tiles_;
      own.base += beginning.tiles_ * record_;
      own.tiles -= beginning.tiles_;
      pieces_[layer] = {beginning.pieces_[layer].front(), own};
      layers_[layer] = pieces_[layer];
    }
  }

  SequenceChunk chunk(std::span<const TokenId> tokens, int64_t first) const {
    return {.tokens = tokens, .first_position = TokenPos(first), .layers = layers_};
  }
  // What no token from `length` on sees becomes NaN again.
  void trim(int64_t length) {
    for (size_t layer = 0; layer < pieces_.size(); ++layer) {
      const int64_t window = config_.layers[layer].window;
      if (window == 0 || length < window) continue;
      std::memset(pieces_[layer].front().base, 0xFF, static_cast<size_t>((length - window + 1) / kTileTokens * record_));
    }
  }

 private:
  const ModelConfig& config_;
  int64_t record_;
  int64_t tiles_;
  port::AnonymousMemory memory_;
  std::vector<std::vector<kernels::KvPiece>> pieces_;  // by layer
  std::vector<std::span<const kernels::KvPiece>> layers_;
};

// [begin, end).
std::vector<int> rows_from(int begin, int end) {
  std::vector<int> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

struct How {
  const KernelSet& set = kernels::best_kernel_set();
  KvFormat format = KvFormat::kF16;
  int threads = 1;
  int chunk = 512;
};

// The logits of all positions.
std::vector<float> logits_of(const TinyModel& model, std::span<const TokenId> tokens, const How& how) {
  port::ThreadTeam team(how.threads);
  const auto forward = Forward::create(model.config, *model.weights, how.set, how.format, how.chunk, team).value();
  Kv memory(model.config, how.format, static_cast<int64_t>(tokens.size()));
  std::vector<float> all;
  for (size_t done = 0; done < tokens.size(); done += static_cast<size_t>(how.chunk)) {
    const auto part = tokens.subspan(done, std::min(static_cast<size_t>(how.chunk), tokens.size() - done));
    const SequenceChunk chunk = memory.chunk(part, static_cast<int64_t>(done));
    forward->run(std::span(&chunk, 1));
    const int count = static_cast<int>(part.size());
    for (int row = 0; row < count; row += forward->max_logit_rows()) {
      const std::span<const float> logits = forward->logits(rows_from(row, std::min(row + forward->max_logit_rows(), count)));
      all.insert(all.end(), logits.begin(), logits.end());
    }
    memory.trim(static_cast<int64_t>(done + part.size()));
  }
  return all;
}

// Equal to the bit, NaN and the sign of zero included.
bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void expect_same_however_computed(const TinyModel& model, KvFormat format) {
  const std::vector<TokenId> tokens = tokens_for(model.config, 150);
  for (const KernelSet* set : kernels::available_kernel_sets()) {
    const std::string name(to_string(set->isa));
    const std::vector<float> whole = logits_of(model, tokens, {.set = *set, .format = format});
    for (const float logit : whole) ASSERT_TRUE(std::isfinite(logit)) << name;
    for (const int chunk : {1, 7, 32, 100}) {
      EXPECT_TRUE(same_bits(logits_of(model, tokens, {.set = *set, .format = format, .chunk = chunk}), whole))
          << name << " chunk " << chunk;
    }
    for (const int threads : {2, 3, 8}) {
      EXPECT_TRUE(same_bits(logits_of(model, tokens, {.set = *set, .format = format, .threads = threads, .chunk = 64}), whole))
          << name << " threads " << threads;
    }
  }
}

TEST(Forward, LlamaIsTheSameInAnyChunksOnAnyThreads) {
  expect_same_however_computed(llama(gguf::TensorType::kQ4_1), KvFormat::kF16);
}
TEST(Forward, GemmaIsTheSameInAnyChunksOnAnyThreads) { expect_same_however_computed(gemma3(), KvFormat::kF16); }
TEST(Forward, WithF32RecordsToo) { expect_same_however_computed(gemma3(), KvFormat::kF32); }

TEST(Forward, SetsWithTheSameArithmeticAgreeToTheBit) {
  const TinyModel model = llama(gguf::TensorType::kQ4_K);
  const std::vector<TokenId> tokens = tokens_for(model.config, 70);
  const std::vector<float> best = logits_of(model, tokens, {});
  for (const KernelSet* set : kernels::available_kernel_sets()) {
    if (set->arithmetic != kernels::best_kernel_set().arithmetic) continue;
    EXPECT_TRUE(same_bits(logits_of(model, tokens, {.set = *set}), best)) << to_string(set->isa);
  }
}

TEST(Forward, SeveralSequencesInOnePassAreWhatTheyAreAlone) {
  const TinyModel model = gemma3();
  const std::vector<TokenId> tokens = tokens_for(model.config, 90);
  const std::span<const TokenId> first = std::span(tokens).first(61);
  const std::span<const TokenId> second = std::span(tokens).last(23);
  const std::vector<float> first_alone = logits_of(model, first, {});
  const std::vector<float> second_alone = logits_of(model, second, {});

  port::ThreadTeam team(2);
  const auto forward = Forward::create(model.config, *model.weights, kernels::best_kernel_set(), KvFormat::kF16, 100, team).value();
  Kv first_kv(model.config, KvFormat::kF16, 100);
  Kv second_kv(model.config, KvFormat::kF16, 100);
  const SequenceChunk chunks[] = {first_kv.chunk(first, 0), second_kv.chunk(second, 0)};
  forward->run(chunks);
  const auto vocabulary = static_cast<size_t>(model.config.vocabulary);
  const auto last_row = [&](const std::vector<float>& all) { return std::span(all).last(vocabulary); };
  EXPECT_TRUE(same_bits(forward->logits(rows_from(60, 61)), last_row(first_alone)));
  EXPECT_TRUE(same_bits(forward->logits(rows_from(83, 84)), last_row(second_alone)));
}

TEST(Forward, SequencesThatShareRecordsAreWhatTheyAreAlone) {
  constexpr size_t kUsers = 9;
  constexpr int kShared = 9 * kTileTokens;  // ends inside a span
  for (const TinyModel& model : {llama(gguf::TensorType::kQ4_1), gemma3()}) {
    const std::vector<TokenId> beginning = tokens_for(model.config, kShared);
    const auto vocabulary = static_cast<size_t>(model.config.vocabulary);
    port::ThreadTeam team(2);
    const auto forward =
        Forward::create(model.config, *model.weights, kernels::best_kernel_set(), KvFormat::kF16, 400, team).value();
    Kv shared(model.config, KvFormat::kF16, kShared);
    const SequenceChunk first = shared.chunk(beginning, 0);
    forward->run(std::span(&first, 1));

    // Each goes on by tokens of its own: first all of them but one, some many and some few, then the last one together.
    std::vector<std::vector<TokenId>> texts;
    std::vector<std::unique_ptr<Kv>> memories;
    std::vector<SequenceChunk> prefill;
    std::vector<SequenceChunk> decode;
    for (size_t i = 0; i < kUsers; ++i) {
      texts.push_back(beginning);
      for (size_t t = 0; t < 10 + 9 * i; ++t) texts.back().push_back(static_cast<TokenId>((i * 50 + t * 3) % vocabulary));
      memories.push_back(std::make_unique<Kv>(model.config, KvFormat::kF16, static_cast<int64_t>(texts.back().size())));
      memories.back()->begin_with(shared);
    }
    for (size_t i = 0; i < kUsers; ++i) {
      const std::span<const TokenId> own = std::span(texts[i]).subspan(kShared);
      prefill.push_back(memories[i]->chunk(own.first(own.size() - 1), kShared));
      decode.push_back(memories[i]->chunk(own.last(1), kShared + static_cast<int64_t>(own.size()) - 1));
    }
    forward->run(std::span(prefill).first(kUsers / 2));
    forward->run(std::span(prefill).subspan(kUsers / 2));
    forward->run(decode);
    const std::span<const float> logits = forward->logits(rows_from(0, kUsers));
    for (size_t i = 0; i < kUsers; ++i) {
      const std::vector<float> alone = logits_of(model, texts[i], {});
      EXPECT_TRUE(same_bits(logits.subspan(i * vocabulary, vocabulary), std::span(alone).last(vocabulary))) << i;
    }
  }
}

TEST(Forward, LogitsOfARowAreTheSameAmongAnyOthers) {
  for (const TinyModel& model : {llama(gguf::TensorType::kQ4_1), gemma3()}) {
    const std::vector<TokenId> tokens = tokens_for(model.config, 100);
    const std::vector<float> all = logits_of(model, tokens, {.chunk = 100});
    const auto vocabulary = static_cast<size_t>(model.config.vocabulary);
    port::ThreadTeam team(2);
    const auto forward =
        Forward::create(model.config, *model.weights, kernels::best_kernel_set(), KvFormat::kF16, 100, team).value();
    const Kv memory(model.config, KvFormat::kF16, 100);
    const SequenceChunk chunk = memory.chunk(tokens, 0);
    forward->run(std::span(&chunk, 1));
    test_support::Random random(7);
    for (const size_t count : {1, 2, 15, 16, 17, 50, 100}) {
      std::vector<int> rows;
      while (rows.size() < count) rows.push_back(static_cast<int>(random.below(100)));
      const std::span<const float> logits = forward->logits(rows);
      ASSERT_EQ(logits.size(), count * vocabulary);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(same_bits(logits.subspan(i * vocabulary, vocabulary),
                              std::span(all).subspan(static_cast<size_t>(rows[i]) * vocabulary, vocabulary)))
            << "row " << rows[i] << " as number " << i << " of " << count;
      }
    }
  }
}

TEST(Forward, TakesAsManyRowsOfLogitsAtOnceAsMemoryAndPassesAllow) {
  const TinyModel model = llama(gguf::TensorType::kQ4_1);
  port::ThreadTeam team(1);
  const auto max_logit_rows = [&](int vocabulary, int max_rows) {
    ModelConfig config = model.config;
    config.vocabulary = vocabulary;
    return Forward::create(config, *model.weights, kernels::best_kernel_set(), KvFormat::kF16, max_rows, team)
        .value()
        ->max_logit_rows();
  };
  EXPECT_EQ(max_logit_rows(500, 1), 1);
  EXPECT_EQ(max_logit_rows(500, 100), 100);
  EXPECT_EQ(max_logit_rows(49'152, 512), 256);
  EXPECT_EQ(max_logit_rows(262'144, 512), 64);
  EXPECT_EQ(max_logit_rows(10'000'000, 512), 16);
}

// Formats: what the fast set computes stays near the reference on the same weights.
TEST(Forward, EveryWeightFormatIsNearTheReference) {
  for (const gguf::TensorType type : gguf::all_tensor_types()) {
    const TinyModel model = llama(type);
    const std::vector<TokenId> tokens = tokens_for(model.config, 40);
    const std::vector<float> exact =
        logits_of(model, tokens, {.set = *kernels::kernel_set(kernels::Isa::kReference), .format = KvFormat::kF32});
    const std::vector<float> fast = logits_of(model, tokens, {});
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += (exact[i] - fast[i]) * (exact[i] - fast[i]);
      size += exact[i] * exact[i];
    }
    EXPECT_LT(std::sqrt(error / size), 0.03) << to_string(type);
    EXPECT_GT(error, 0) << to_string(type);
  }
}

}  // namespace
}  // namespace quire::model
