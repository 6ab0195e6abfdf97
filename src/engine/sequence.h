// One sequence: its tokens, and their keys and values in memory.
//
// A sequence reserves addresses for all the tokens that it may reach and is backed as tokens arrive. extend() computes tokens after
// those held; logits() are those of the last one. Layers with a sliding window keep only what later tokens can see.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "engine/engine.h"
#include "kernels/attention.h"
#include "kv/sequence_memory.h"

namespace quire::engine {

class Sequence {
 public:
  // Room for max_tokens, which is at least 1. The engine must outlive the sequence.
  [[nodiscard]] static Result<Sequence> create(Engine& engine, TokenCount max_tokens);

  // Computes `tokens` (ids of the vocabulary) after those held. An error leaves the tokens that were computed before it.
  // kLimit: more than max_tokens; kOutOfMemory: the KV cache may not grow.
  [[nodiscard]] Status extend(std::span<const TokenId> tokens);

  // Whether the KV cache can hold `length` tokens of this sequence with what is left of the budget; kOutOfMemory with the numbers
  // when it cannot.
  [[nodiscard]] Status check_room(TokenCount length) const;

  // Computes the next tokens as extend() does, at most the engine's chunk; the rows of engine.forward() are then theirs.
  [[nodiscard]] Status extend_one_pass(std::span<const TokenId> tokens);

  // The logits after the last token: [vocabulary]; valid until the engine computes something else. Needs a token.
  [[nodiscard]] std::span<const float> logits();

  // Makes the sequence the first `length` tokens of itself. When a window has dropped what they would need, it becomes empty
  // instead. Returns the tokens that are left; logits() need another one first. `wanted` is at most length().
  [[nodiscard]] Result<TokenCount> truncate(TokenCount wanted);

  [[nodiscard]] std::span<const TokenId> tokens() const { return tokens_; }
  [[nodiscard]] TokenCount length() const { return TokenCount(static_cast<int64_t>(tokens_.size())); }
  [[nodiscard]] TokenCount max_tokens() const { return max_tokens_; }
  [[nodiscard]] const kv::SequenceMemory& memory() const { return memory_; }

 private:
  Sequence(Engine& engine, kv::SequenceMemory memory, TokenCount max_tokens);
  void view_memory();

  Engine* engine_;
  kv::SequenceMemory memory_;
  TokenCount max_tokens_;
  std::vector<TokenId> tokens_;
  int last_row_ = -1;                                      // of the last pass, the last token's; -1 when no pass ended with it
  std::vector<kernels::KvPiece> pieces_;                   // by layer: one segment each
  std::vector<std::span<const kernels::KvPiece>> layers_;  // what the forward pass takes
};

}  // namespace quire::engine
