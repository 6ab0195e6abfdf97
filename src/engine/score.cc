#include "engine/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/reply.h"
#include "engine/sequence.h"

namespace quire::engine {
namespace {

constexpr int kRowsAtOnce = model::Forward::kMaxLogitRows;

// Scores the rows of one pass, some at a time: their logits are made by the whole team, then each member reads some rows.
class RowScorer {
 public:
  RowScorer(Engine& engine, std::span<const TokenId> tokens, size_t top_count)
      : engine_(engine), tokens_(tokens), top_count_(top_count), vocabulary_(static_cast<size_t>(engine.config().vocabulary)) {}

  // Rows [0, rows) of the last pass are the tokens from `first` on.
  Status score(int64_t first, int rows, const std::function<void(const ScoredPosition&)>& listener) {
    for (int done = 0; done < rows; done += kRowsAtOnce) {
      const int count = std::min(kRowsAtOnce, rows - done);
      const std::span<const float> logits = engine_.forward().logits(done, count);
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
    if (next_[slot] && !std::isfinite(*next_[slot])) return no_numbers(position + 1);
    if (next_[slot]) sum_ += *next_[slot];
    listener({.position = TokenPos(position), .token = token_at(position), .next_logprob = next_[slot], .top = rows_[slot].top()});
    return {};
  }

  Engine& engine_;
  std::span<const TokenId> tokens_;
  size_t top_count_;
  size_t vocabulary_;
  std::array<sampling::LogprobRow, kRowsAtOnce> rows_;
  std::array<std::optional<double>, kRowsAtOnce> next_;
  double sum_ = 0;
};

}  // namespace

Result<Score> score(Engine& engine, std::span<const TokenId> tokens, size_t top_count,
                    const std::function<void(const ScoredPosition&)>& listener) {
  const TokenCount count(static_cast<int64_t>(tokens.size()));
  if (count.value > engine.config().context_length) {
    return make_error(ErrorCode::kLimit, fmt::format("the text has {} tokens, the model was made for {}; score it in parts",
                                                     count.value, engine.config().context_length));
  }
  QUIRE_TRY(Sequence sequence, Sequence::create(engine, count));
  QUIRE_TRY_STATUS(sequence.check_room(count));
  RowScorer scorer(engine, tokens, top_count);
  const auto chunk = static_cast<size_t>(engine.forward().max_rows());
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    const auto part = tokens.subspan(done, std::min(chunk, tokens.size() - done));
    QUIRE_TRY_STATUS(sequence.extend_one_pass(part));
    QUIRE_TRY_STATUS(scorer.score(static_cast<int64_t>(done), static_cast<int>(part.size()), listener));
  }
  const auto pairs = static_cast<double>(count.value - 1);
  return Score{.tokens = count, .perplexity = pairs > 0 ? std::exp(-scorer.sum_of_logprobs() / pairs) : 0};
}

}  // namespace quire::engine
