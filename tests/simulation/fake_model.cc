#include "tests/simulation/fake_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace quire::simulation {

FakeModel::FakeModel(const FakeLaw& law, const FakeModelOptions& options, int64_t& clock_ns)
    : law_(law), options_(options), clock_ns_(clock_ns), random_(options.seed) {
  QUIRE_CHECK(static_cast<int>(options.record_bytes.size()) == law.layers());
}

void FakeModel::fail(const std::string& what) {
  if (failure_.empty()) failure_ = "pass " + std::to_string(passes_) + ": " + what;
}

// As a real pass does: all rows are stored before any is attended to.
void FakeModel::run(std::span<const model::SequenceChunk> chunks) {
  ++passes_;
  seen_.clear();
  int64_t rows = 0;
  for (const model::SequenceChunk& chunk : chunks) {
    if (chunk.tokens.empty()) return fail("a chunk without tokens");
    rows += static_cast<int64_t>(chunk.tokens.size());
    for (int layer = 0; layer < law_.layers(); ++layer) check_pieces(chunk, layer);
    if (!failure_.empty()) return;
    trace_ = mix(trace_ ^ mix(static_cast<uint64_t>(chunk.first_position.value) << 20 ^ chunk.tokens.size()));
  }
  if (rows > options_.max_rows) return fail(fmt::format("{} rows in a pass of {}", rows, options_.max_rows));
  for (const model::SequenceChunk& chunk : chunks) write(chunk);
  int last_row = -1;
  for (const model::SequenceChunk& chunk : chunks) {
    last_row += static_cast<int>(chunk.tokens.size());
    read(chunk, last_row);
  }
  take_time(chunks);
}

std::span<const float> FakeModel::logits(std::span<const int> rows) {
  if (static_cast<int>(rows.size()) > options_.max_logit_rows) fail(fmt::format("logits of {} rows at once", rows.size()));
  const auto width = static_cast<size_t>(options_.vocabulary);
  logits_.assign(rows.size() * width, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const auto& entry) { return entry.first == rows[i]; });
    if (found == seen_.end()) {
      fail(fmt::format("logits of row {}, which is the last of no chunk", rows[i]));
    } else {
      law_.fill_logits(found->second, std::span(logits_).subspan(i * width, width));
    }
  }
  return logits_;
}

void FakeModel::check_pieces(const model::SequenceChunk& chunk, int layer) {
  const auto pieces = chunk.layers[static_cast<size_t>(layer)];
  const int64_t first = chunk.first_position.value;
  const int64_t last = first + static_cast<int64_t>(chunk.tokens.size()) - 1;
  if (pieces.empty()) return fail(fmt::format("layer {}: no pieces", layer));
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].first_tile == pieces[i - 1].first_tile + pieces[i - 1].tiles) continue;
    return fail(fmt::format("layer {}: a piece ends at tile {}, the next begins at {}", layer,
                            pieces[i - 1].first_tile + pieces[i - 1].tiles, pieces[i].first_tile));
  }
  const int64_t begin = pieces.front().first_tile;
  const int64_t end = pieces.back().first_tile + pieces.back().tiles;
  if (begin > law_.first_seen(layer, first) / kTileTokens || end <= last / kTileTokens) {
    fail(fmt::format("layer {}: the pieces hold the tiles [{}, {}), the positions {} to {} see [{}, {}]", layer, begin, end, first,
                     last, law_.first_seen(layer, first) / kTileTokens, last / kTileTokens));
  }
}

std::byte* FakeModel::lane(const model::SequenceChunk& chunk, int layer, int64_t position) {
  const int64_t tile = position / kTileTokens;
  const auto pieces = chunk.layers[static_cast<size_t>(layer)];
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const kernels::KvPiece& piece) {
    return tile >= piece.first_tile && tile < piece.first_tile + piece.tiles;
  });
  QUIRE_CHECK(found != pieces.end(), "check_pieces() has seen it");
  const int64_t lane_bytes = options_.record_bytes[static_cast<size_t>(layer)] / kTileTokens;
  return found->base + (tile - found->first_tile) * found->tile_stride + position % kTileTokens * lane_bytes;
}

// The hash of what came before is read from memory as everything else is.
void FakeModel::write(const model::SequenceChunk& chunk) {
  int64_t position = chunk.first_position.value;
  uint64_t hash = law_.empty_hash();
  if (position > 0) {
    uint64_t stored = 0;
    std::memcpy(&stored, lane(chunk, 0, position - 1), sizeof stored);
    hash = law_.hash_of_lane(0, stored);
  }
  for (const TokenId token : chunk.tokens) {
    hash = law_.next_hash(hash, token);
    for (int layer = 0; layer < law_.layers(); ++layer) {
      const uint64_t value = law_.lane(layer, hash);
      std::memcpy(lane(chunk, layer, position), &value, sizeof value);
    }
    ++position;
  }
}

void FakeModel::read(const model::SequenceChunk& chunk, int last_row) {
  const int64_t first = chunk.first_position.value;
  const int64_t end = first + static_cast<int64_t>(chunk.tokens.size());
  uint64_t before = law_.empty_hash();
  if (first > 0) {
    uint64_t stored = 0;
    std::memcpy(&stored, lane(chunk, 0, first - 1), sizeof stored);
    before = law_.hash_of_lane(0, stored);
  }
  const History* history = whose(chunk, before);
  uint64_t seen = 0;
  for (int layer = 0; layer < law_.layers(); ++layer) {
    const int64_t seen_by_last = law_.first_seen(layer, end - 1);
    for (int64_t position = law_.first_seen(layer, first); position < end; ++position) {
      uint64_t value = 0;
      std::memcpy(&value, lane(chunk, layer, position), sizeof value);
      if (position >= seen_by_last) seen += value;
      if (history == nullptr || value == law_.lane(layer, history->hash(position + 1))) continue;
      fail(fmt::format("request {}, positions [{}, {}): layer {} does not hold its position {} but {}", history->id(), first, end,
                       layer, position, describe(law_.hash_of_lane(layer, value))));
    }
  }
  seen_.emplace_back(last_row, seen);
}

// The expected history that has these tokens at this place after tokens with that hash.
const History* FakeModel::whose(const model::SequenceChunk& chunk, uint64_t hash_before) {
  const int64_t first = chunk.first_position.value;
  std::string candidates;
  for (const History* history : expected_) {
    const auto tokens = std::span(history->tokens());
    if (first + static_cast<int64_t>(chunk.tokens.size()) > history->length()) continue;
    const auto place = tokens.subspan(static_cast<size_t>(first), chunk.tokens.size());
    if (!std::equal(place.begin(), place.end(), chunk.tokens.begin())) continue;
    if (history->hash(first) == hash_before) return history;
    candidates += fmt::format(" {}", history->id());
  }
  fail(fmt::format(
      "the positions [{}, {}) are of no request: what layer 0 holds before them is {}; requests with these tokens "
      "there:{}",
      first, first + static_cast<int64_t>(chunk.tokens.size()), describe(hash_before), candidates.empty() ? " none" : candidates));
  return nullptr;
}

std::string FakeModel::describe(uint64_t hash) const {
  for (const History* history : expected_) {
    for (int64_t length = 1; length <= history->length(); ++length) {
      if (history->hash(length) == hash) return fmt::format("position {} of request {}", length - 1, history->id());
    }
  }
  return fmt::format("{:#018x}, nothing that is expected", hash);
}

void FakeModel::take_time(std::span<const model::SequenceChunk> chunks) {
  const Latency& latency = options_.latency;
  int64_t ns = latency.pass_ns;
  for (const model::SequenceChunk& chunk : chunks) {
    const auto rows = static_cast<int64_t>(chunk.tokens.size());
    ns += rows * (rows == 1 ? latency.decode_row_ns : latency.prefill_row_ns);
    ns += rows * (chunk.first_position.value + rows) * latency.attended_key_ns;
  }
  ns += static_cast<int64_t>(random_.below(1000)) * ns / 5000;
  if (random_.below(latency.slow_one_in) == 0) ns *= 10;
  clock_ns_ += ns;
}

}  // namespace quire::simulation
