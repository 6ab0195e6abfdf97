#include "engine/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "engine/key_space.h"
#include "engine/request.h"
#include "engine/sequence_views.h"

namespace quire::engine {
namespace {

constexpr int kRowsAtOnce = 16;

// Scores the rows of one pass, some at a time: their logits are made by the whole team, then each member reads some rows.
class RowScorer {
 public:
  RowScorer(Engine& engine, std::span<const TokenId> tokens, size_t top_count)
      : engine_(engine), tokens_(tokens), top_count_(top_count), vocabulary_(static_cast<size_t>(engine.config().vocabulary)) {}

  // Rows [0, rows) of the last pass are the tokens from `first` on.
  Status score(int64_t first, int rows, const std::function<void(const ScoredPosition&)>& listener) {
    const int at_once = std::min(kRowsAtOnce, engine_.runner().max_logit_rows());
    for (int done = 0; done < rows; done += at_once) {
      const int count = std::min(at_once, rows - done);
      std::iota(wanted_.begin(), wanted_.end(), done);
      const std::span<const float> logits = engine_.runner().logits(std::span(wanted_).first(static_cast<size_t>(count)));
      engine_.team().run([&](port::TeamMember& me) {
        for (int row = me.index; row < count; row += me.count) read_row(logits, row, first + done + row);
      });
      for (int row = 0; row < count; ++row) QUIRE_TRY_STATUS(report(row, first + done + row, listener));
    }
    return {};
  }

  [[nodiscard]] double sum_of_logprobs() const { return sum_; }

 private:
  [[nodiscard]] bool has_next(int64_t position) const { return position + 1 < static_cast<int64_t>(tokens_.size()); }
  [[nodiscard]] TokenId token_at(int64_t position) const { return tokens_[static_cast<size_t>(position)]; }

  void read_row(std::span<const float> logits, int row, int64_t position) {
    const std::span<const float> mine = logits.subspan(static_cast<size_t>(row) * vocabulary_, vocabulary_);
    const auto slot = static_cast<size_t>(row);
    rows_[slot].read(mine, top_count_);
    next_[slot] = has_next(position) ? std::optional(rows_[slot].of(mine, token_at(position + 1))) : std::nullopt;
  }

  Status report(int row, int64_t position, const std::function<void(const ScoredPosition&)>& listener) {
    const auto slot = static_cast<size_t>(row);
    if (next_[slot] && !std::isfinite(*next_[slot])) return no_numbers(TokenPos(position + 1));
    if (next_[slot]) sum_ += *next_[slot];
    listener({.position = TokenPos(position), .token = token_at(position), .next_logprob = next_[slot], .top = rows_[slot].top()});
    return {};
  }

  Engine& engine_;
  std::span<const TokenId> tokens_;
  size_t top_count_;
  size_t vocabulary_;
  std::array<int, kRowsAtOnce> wanted_ = {};
  std::array<sampling::LogprobRow, kRowsAtOnce> rows_;
  std::array<std::optional<double>, kRowsAtOnce> next_;
  double sum_ = 0;
};

Error no_room(Bytes needed, TokenCount tokens, Bytes room) {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("the KV cache needs {} for {} tokens and may take {}; close other programs or shorten the text",
                                format_bytes(needed), tokens.value, format_bytes(room)));
}

// A sequence of the cache for the length of a scoring. Nobody finds anything of it, and it finds nothing: every row is computed.
class ScoredSequence {
 public:
  [[nodiscard]] static Result<ScoredSequence> open(Engine& engine, std::span<const TokenId> tokens) {
    const TokenCount count(static_cast<int64_t>(tokens.size()));
    const std::string key = key_space({.purpose = "score"});
    QUIRE_TRY(const std::optional<kv::SequenceId> id, engine.cache().open(key, tokens, count));
    if (!id) return no_room(Bytes(0), count, engine.cache().usage().limit);
    return ScoredSequence(engine, *id);
  }

  ScoredSequence(ScoredSequence&& other) noexcept : engine_(other.engine_), id_(std::exchange(other.id_, std::nullopt)) {}
  ~ScoredSequence() {
    if (id_) engine_.cache().close(*id_, kv::KvCache::Keep::kDrop);
  }

  // Computes the next tokens, at most a pass.
  Status extend(std::span<const TokenId> tokens) {
    kv::KvCache& cache = engine_.cache();
    const TokenCount held = cache.length(*id_);
    const TokenCount next = held + TokenCount(static_cast<int64_t>(tokens.size()));
    const kv::Growth growth{.sequence = *id_, .length = next};
    QUIRE_TRY(const kv::Room room, cache.prepare(std::span(&growth, 1)));
    if (room.space == kv::Space::kNoSpace) {
      const kv::Usage usage = cache.usage();
      return no_room(usage.backed + room.missing, next, usage.limit);
    }
    const model::SequenceChunk chunk{
        .tokens = tokens, .first_position = TokenPos(held.value), .layers = views_.of(cache, *id_, engine_.runner().layers())};
    engine_.runner().run(std::span(&chunk, 1));
    cache.append(*id_, tokens);
    return {};
  }

 private:
  ScoredSequence(Engine& engine, kv::SequenceId id) : engine_(engine), id_(id) {}

  Engine& engine_;
  std::optional<kv::SequenceId> id_;
  SequenceViews views_;
};

}  // namespace

Result<Score> score(Engine& engine, std::span<const TokenId> tokens, size_t top_count,
                    const std::function<void(const ScoredPosition&)>& listener) {
  const TokenCount count(static_cast<int64_t>(tokens.size()));
  if (count.value > engine.config().context_length) {
    return make_error(ErrorCode::kLimit, fmt::format("the text has {} tokens, the model was made for {}; score it in parts",
                                                     count.value, engine.config().context_length));
  }
  const Bytes needed = engine.cache().growth_bytes(TokenCount(0), count, TokenCount(engine.runner().max_rows()));
  if (needed > engine.cache().usage().limit) return no_room(needed, count, engine.cache().usage().limit);
  QUIRE_TRY(ScoredSequence sequence, ScoredSequence::open(engine, tokens));
  RowScorer scorer(engine, tokens, top_count);
  const auto chunk = static_cast<size_t>(engine.runner().max_rows());
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    const auto part = tokens.subspan(done, std::min(chunk, tokens.size() - done));
    QUIRE_TRY_STATUS(sequence.extend(part));
    QUIRE_TRY_STATUS(scorer.score(static_cast<int64_t>(done), static_cast<int>(part.size()), listener));
  }
  const auto pairs = static_cast<double>(count.value - 1);
  return Score{.tokens = count, .perplexity = pairs > 0 ? std::exp(-scorer.sum_of_logprobs() / pairs) : 0};
}

}  // namespace quire::engine
