// The mathematics of the fake model: what it stores for a token, and what it says after some. Pure functions, so that the reply to
// a prompt can be computed without any memory and compared with what the engine makes of it.
//
// A history's hash stands for all its tokens and their order. What a layer stores for position i is the hash of the tokens [0, i],
// told apart by layer. The logits after position q depend on the sum of what all layers hold at the positions that q sees: on every
// lane that attention would read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"

namespace quire::simulation {

// A good mixer of 64 bits (the finalizer of SplitMix64).
[[nodiscard]] uint64_t mix(uint64_t bits);

struct FakeLawOptions {
  uint64_t seed = 0;
  // By layer: positions that a query sees, its own included, at least 2; nothing: all.
  std::vector<std::optional<int64_t>> windows;
  std::vector<TokenId> alphabet;  // what it says
  TokenId end_of_text = 0;
  uint32_t ends_one_in = 30;  // tokens
};

class FakeLaw {
 public:
  explicit FakeLaw(const FakeLawOptions& options) : options_(options) {}

  [[nodiscard]] int layers() const { return static_cast<int>(options_.windows.size()); }
  // The first position that a query at `position` sees.
  [[nodiscard]] int64_t first_seen(int layer, int64_t position) const;

  [[nodiscard]] uint64_t empty_hash() const { return mix(options_.seed); }
  [[nodiscard]] uint64_t next_hash(uint64_t hash, TokenId token) const { return mix(hash ^ mix(static_cast<uint64_t>(token) + 1)); }

  // What the layer holds for the last of the tokens with this hash, and back.
  [[nodiscard]] uint64_t lane(int layer, uint64_t hash) const { return hash ^ mix(static_cast<uint64_t>(layer) + 77); }
  [[nodiscard]] uint64_t hash_of_lane(int layer, uint64_t lane_value) const { return lane(layer, lane_value); }

  // `seen`: the sum over all layers of the lanes that the last position sees.
  void fill_logits(uint64_t seen, std::span<float> logits) const;

 private:
  FakeLawOptions options_;
};

// Some tokens, their hashes and sums.
class History {
 public:
  History(const FakeLaw& law, int64_t id);

  // Whose it is: for messages, and to keep an order that does not depend on addresses.
  [[nodiscard]] int64_t id() const { return id_; }
  void push(TokenId token);
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  [[nodiscard]] int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  // Of the first `length` tokens.
  [[nodiscard]] uint64_t hash(int64_t length) const { return hashes_[static_cast<size_t>(length)]; }
  // What the last position sees, without any memory.
  [[nodiscard]] uint64_t seen() const;

 private:
  const FakeLaw* law_;
  int64_t id_;
  std::vector<TokenId> tokens_;
  std::vector<uint64_t> hashes_;
  std::vector<std::vector<uint64_t>> sums_;  // by layer: of the lanes before each position
};

}  // namespace quire::simulation
