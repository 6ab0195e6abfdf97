// A step takes no memory that an earlier one of its shape did not take: every operator new of this program is counted.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "model/forward.h"
#include "model/kv_layout.h"
#include "port/memory.h"
#include "tests/support/tiny_models.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(void* memory) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) { return counted(std::malloc(bytes > 0 ? bytes : 1)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto multiple = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace quire::model {
namespace {

// A tiny model with windowed and full layers, and sequences that share their first 512 tokens: one node, then tiles of their own.
class Users {
 public:
  explicit Users(size_t count) {
    test_support::TinyModelOptions options = test_support::tiny_gemma3_options();
    const std::vector<std::byte> bytes = test_support::tiny_gemma3_model(options);
    const std::string path = testing::TempDir() + "allocation_model_" + std::to_string(getpid()) + ".gguf";
    QUIRE_CHECK(port::write_file_atomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).ok());
    const port::MappedFile mapping = port::MappedFile::open(path).value();
    const gguf::File file = gguf::File::parse(mapping.bytes()).value();
    config = read_config(file).value();
    weights = Weights::load(file, mapping, config, team, {}).value();
    EXPECT_EQ(std::remove(path.c_str()), 0);

    const size_t layers = config.layers.size();
    const auto record = static_cast<int64_t>(kernels::tile_record_bytes(attention_shape(config, 0, kernels::KvFormat::kF16)));
    const auto segment = static_cast<size_t>(kTiles * record);
    memory_ = port::AnonymousMemory::allocate(Bytes(static_cast<int64_t>((count + 1) * layers * segment))).value();
    const auto piece = [&](size_t owner, size_t layer, int64_t first_tile) {
      std::byte* base = memory_.bytes().data() + (owner * layers + layer) * segment;
      return kernels::KvPiece{.base = base, .tile_stride = record, .first_tile = first_tile, .tiles = kTiles};
    };
    pieces_.resize(count * layers);
    spans_.resize(count * layers);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      pieces_[i] = {piece(0, i % layers, 0), piece(1 + i / layers, i % layers, kTiles)};
      spans_[i] = pieces_[i];
    }
  }

  // The next tokens of each: `counts` of them at `first`.
  std::vector<SequenceChunk> step(const std::vector<size_t>& counts, int64_t first) const {
    std::vector<SequenceChunk> chunks;
    for (size_t i = 0; i < counts.size(); ++i) {
      chunks.push_back({.tokens = std::span(tokens_).first(counts[i]),
                        .first_position = TokenPos(first),
                        .layers = std::span(spans_).subspan(i * config.layers.size(), config.layers.size())});
    }
    return chunks;
  }

  port::ThreadTeam team{2};
  ModelConfig config;
  std::unique_ptr<const Weights> weights;

 private:
  static constexpr int64_t kTiles = 16;

  port::AnonymousMemory memory_;
  std::vector<std::array<kernels::KvPiece, 2>> pieces_;
  std::vector<std::span<const kernels::KvPiece>> spans_;
  std::vector<TokenId> tokens_ = std::vector<TokenId>(100, 3);
};

TEST(ForwardAllocation, AStepLikeAnEarlierOneAllocatesNothing) {
  Users users(8);
  const auto forward =
      Forward::create(users.config, *users.weights, kernels::best_kernel_set(), kernels::KvFormat::kF16, 200, users.team).value();
  const std::vector<int> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<size_t> decode(8, 1);
  const std::vector<size_t> mixed = {1, 1, 1, 1, 1, 1, 7, 100};
  for (const std::vector<size_t>& counts : {decode, mixed}) {
    forward->run(users.step(counts, 600));
    EXPECT_TRUE(std::isfinite(forward->logits(rows)[0]));
    for (int64_t position = 600; position < 603; ++position) {
      const std::vector<SequenceChunk> chunks = users.step(counts, position);
      const int64_t before = allocations.load();
      forward->run(chunks);
      const float logit = forward->logits(rows)[0];
      EXPECT_EQ(allocations.load(), before) << "position " << position;
      EXPECT_TRUE(std::isfinite(logit));
    }
  }
}

}  // namespace
}  // namespace quire::model
