// The KV cache of Quire, used without its engine: two sequences with a common beginning, and what they share.
//
// An engine of one's own would do the same: open() a sequence for a prompt, and for each step plan the memory that it needs, let
// the model write keys and values where runs() says, and append() the tokens that it computed.
#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "kv/kv_cache.h"
#include "port/posix_vm.h"

namespace {

using quire::Bytes;
using quire::kTileTokens;
using quire::TokenCount;
using quire::TokenId;
using quire::kv::KvCache;
using quire::kv::SequenceId;

constexpr int kLayers = 4;
constexpr Bytes kTileRecord{8192};  // of one layer: 32 tokens with 64 numbers of f16 each for keys, as many for values

void must(bool condition, std::string_view what) {
  if (condition) return;
  fmt::print(stderr, "{}\n", what);
  std::exit(1);
}

std::vector<TokenId> tokens(TokenId first, int count) {
  std::vector<TokenId> made(static_cast<size_t>(count));
  std::iota(made.begin(), made.end(), first);
  return made;
}

// Where the model writes: the tile record that holds a position of a layer.
std::byte* record_of(const KvCache& cache, SequenceId sequence, int layer, int64_t position) {
  const int64_t tile = position / kTileTokens;
  for (const quire::kv::Run& run : cache.runs(sequence, 0)) {
    const int64_t in_run = tile - run.first_tile.value;
    if (in_run >= 0 && in_run < run.tiles.value) return run.base + layer * run.layer_stride + in_run * run.tile_stride;
  }
  must(false, "no run holds the position");
  return nullptr;
}

// What a model would compute from the token: its number, in every layer.
std::byte* key_of(const KvCache& cache, SequenceId sequence, int layer, int64_t position) {
  return record_of(cache, sequence, layer, position) + position % kTileTokens * sizeof(TokenId);
}

// A step of one sequence: memory, keys and values, tokens.
void compute(KvCache& cache, SequenceId sequence, std::span<const TokenId> added) {
  const TokenCount before = cache.length(sequence);
  const quire::kv::Growth growth{sequence, before + TokenCount(static_cast<int64_t>(added.size()))};
  const auto room = cache.prepare({&growth, 1});
  must(room.ok(), room.ok() ? "" : room.error().message);
  must(room->space == quire::kv::Space::kOk, fmt::format("{} bytes are missing", room->missing.value));
  for (size_t index = 0; index < added.size(); ++index) {
    for (int layer = 0; layer < kLayers; ++layer) {
      std::memcpy(key_of(cache, sequence, layer, before.value + static_cast<int64_t>(index)), &added[index], sizeof(TokenId));
    }
  }
  cache.append(sequence, added);
}

// Opens a sequence for the prompt and computes what the cache does not hold. Answers the tokens that it did hold.
TokenCount begin(KvCache& cache, std::span<const TokenId> prompt, SequenceId& sequence) {
  const auto opened = cache.open("example", prompt, TokenCount(1024));
  must(opened.ok() && opened->has_value(), "a sequence cannot be opened");
  sequence = **opened;
  const TokenCount held = cache.length(sequence);
  compute(cache, sequence, prompt.subspan(static_cast<size_t>(held.value)));
  return held;
}

void must_hold(const KvCache& cache, SequenceId sequence, std::span<const TokenId> expected) {
  must(cache.length(sequence).value == static_cast<int64_t>(expected.size()), "a sequence has another length");
  for (size_t position = 0; position < expected.size(); ++position) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::byte* key = key_of(cache, sequence, layer, static_cast<int64_t>(position));
      must(std::memcmp(key, &expected[position], sizeof(TokenId)) == 0, "a key is not what was computed for it");
    }
  }
}

}  // namespace

int main() {
  quire::port::PosixVm port;
  const quire::kv::LayerGroupSpec group{.name = "full", .layers = {0, 1, 2, 3}, .tile_record = kTileRecord, .window = {}};
  KvCache cache(port, {group}, {.limit = Bytes(16 << 20)});

  // A common beginning of 200 tokens: six tiles of 32 tokens and 8 tokens of the seventh.
  std::vector<TokenId> first_text = tokens(0, 200);
  std::vector<TokenId> second_text = first_text;
  const std::vector<TokenId> first_question = tokens(1000, 20);
  const std::vector<TokenId> second_question = tokens(2000, 30);
  first_text.insert(first_text.end(), first_question.begin(), first_question.end());
  second_text.insert(second_text.end(), second_question.begin(), second_question.end());

  SequenceId first;
  SequenceId second;
  const TokenCount first_held = begin(cache, first_text, first);
  const TokenCount second_held = begin(cache, second_text, second);
  fmt::print("tokens that were there already: {} of {}, {} of {}\n", first_held.value, first_text.size(), second_held.value,
             second_text.size());
  must(first_held == TokenCount(0) && second_held == TokenCount(200), "the second sequence begins with what the first computed");

  // Both grow, a token at a time.
  for (TokenId step = 0; step < 100; ++step) {
    first_text.push_back(3000 + step);
    second_text.push_back(4000 + step);
    compute(cache, first, {&first_text.back(), 1});
    compute(cache, second, {&second_text.back(), 1});
  }
  must_hold(cache, first, first_text);
  must_hold(cache, second, second_text);

  const quire::kv::Usage usage = cache.usage();
  const Bytes tile = tile_bytes(group);
  const Bytes alone = tile * (tiles_for(cache.length(first)).value + tiles_for(cache.length(second)).value);
  fmt::print("shared by both: {}\nof one alone: {}\nwithout sharing: {}\n", format_bytes(usage.shared), format_bytes(usage.live),
             format_bytes(alone));
  must(usage.shared == tile * 6, "they share the whole tiles of the common beginning");
  must(usage.live + usage.shared * 2 == alone, "and hold the rest for themselves");

  cache.close(first, KvCache::Keep::kCache);
  cache.close(second, KvCache::Keep::kDrop);
  fmt::print("kept for those to come: {}\n", format_bytes(cache.usage().cached));
  must(cache.usage().cached == tile * tiles_for(TokenCount(static_cast<int64_t>(first_text.size()))).value,
       "the first stays whole");
  const std::string fault = cache.verify();
  must(fault.empty(), fault);
  return 0;
}
