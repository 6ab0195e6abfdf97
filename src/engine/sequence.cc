#include "engine/sequence.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::engine {

namespace {

Error no_room(Bytes needed, TokenCount tokens, Bytes room) {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("the KV cache needs {} for {} tokens and may take {}; close other programs or shorten the text",
                                format_bytes(needed), tokens.value, format_bytes(room)));
}

}  // namespace

Result<Sequence> Sequence::create(Engine& engine, TokenCount max_tokens) {
  QUIRE_TRY(kv::SequenceMemory memory, kv::SequenceMemory::create(engine.vm(), engine.budget(), engine.layer_groups(), max_tokens));
  return Sequence(engine, std::move(memory), max_tokens);
}

Sequence::Sequence(Engine& engine, kv::SequenceMemory memory, TokenCount max_tokens)
    : engine_(&engine), memory_(std::move(memory)), max_tokens_(max_tokens) {
  view_memory();
}

// One segment holds all tiles of a layer, so its view is one piece.
void Sequence::view_memory() {
  pieces_.clear();
  layers_.clear();
  const size_t layers = engine_->config().layers.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    const kv::Stripe stripe = memory_.stripe(static_cast<int>(layer));
    pieces_.push_back(
        {.base = stripe.base, .tile_stride = stripe.tile_stride, .first_tile = 0, .tiles = tiles_for(max_tokens_).value});
  }
  for (size_t layer = 0; layer < layers; ++layer) layers_.emplace_back(&pieces_[layer], 1);
}

Status Sequence::check_room(TokenCount wanted) const {
  const Bytes needed = kv::bytes_needed(engine_->layer_groups(), wanted, engine_->vm().granule());
  const Bytes room = engine_->budget().available() + memory_.backed_bytes();
  if (needed <= room) return {};
  return no_room(needed, wanted, room);
}

Status Sequence::extend(std::span<const TokenId> tokens) {
  QUIRE_TRY_STATUS(check_room(length() + TokenCount(static_cast<int64_t>(tokens.size()))));
  const auto chunk = static_cast<size_t>(engine_->forward().max_rows());
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    QUIRE_TRY_STATUS(extend_one_pass(tokens.subspan(done, std::min(chunk, tokens.size() - done))));
  }
  return {};
}

Status Sequence::extend_one_pass(std::span<const TokenId> tokens) {
  const TokenCount next = length() + TokenCount(static_cast<int64_t>(tokens.size()));
  if (next > max_tokens_) {
    return make_error(ErrorCode::kLimit, fmt::format("{} tokens do not fit a context of {}; shorten the text or raise --context",
                                                     next.value, max_tokens_.value));
  }
  QUIRE_TRY(const kv::Space space, memory_.prepare(next));
  if (space == kv::Space::kNoSpace) {
    return no_room(kv::bytes_needed(engine_->layer_groups(), next, engine_->vm().granule()), next,
                   engine_->budget().available() + memory_.backed_bytes());
  }
  const model::SequenceChunk chunk{.tokens = tokens, .first_position = TokenPos(length().value), .layers = layers_};
  engine_->forward().run(std::span(&chunk, 1));
  last_row_ = static_cast<int>(tokens.size()) - 1;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  memory_.trim(length());
  return {};
}

std::span<const float> Sequence::logits() {
  QUIRE_CHECK(last_row_ >= 0, "a token was computed");
  return engine_->forward().logits(last_row_, 1);
}

Result<TokenCount> Sequence::truncate(TokenCount wanted) {
  QUIRE_CHECK(wanted <= length());
  if (wanted == length()) return wanted;
  last_row_ = -1;
  const bool kept =
      std::all_of(engine_->layer_groups().begin(), engine_->layer_groups().end(), [&](const kv::LayerGroupSpec& group) {
        return memory_.first_tile(group.layers.front()) <= kv::first_tile_needed(group, wanted);
      });
  if (kept) {
    tokens_.resize(static_cast<size_t>(wanted.value));
    return wanted;
  }
  QUIRE_TRY(memory_, kv::SequenceMemory::create(engine_->vm(), engine_->budget(), engine_->layer_groups(), max_tokens_));
  view_memory();
  tokens_.clear();
  return TokenCount(0);
}

}  // namespace quire::engine
