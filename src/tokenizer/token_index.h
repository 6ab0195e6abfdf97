// From bytes to token id: an open-addressing hash table that keeps ids alone, the bytes stay where the caller has them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/units.h"

namespace quire::tokenizer {

// Texts is anything with operator[](TokenId) -> convertible to std::string_view, and has to outlive the calls that take it.
class TokenIndex {
 public:
  // Room for `expected` tokens; more may be added.
  explicit TokenIndex(size_t expected = 0) : slots_(std::bit_ceil(2 * expected + 2), kEmpty) {}

  // Adds a token, or returns the id that already has these bytes.
  template <typename Texts>
  std::optional<TokenId> insert(const Texts& texts, TokenId id) {
    if (2 * (used_ + 1) > slots_.size()) grow(texts);
    TokenId& slot = slots_[slot_of(texts, std::string_view(texts[id]))];
    if (slot != kEmpty) return slot;
    slot = id;
    ++used_;
    return std::nullopt;
  }

  template <typename Texts>
  [[nodiscard]] std::optional<TokenId> find(const Texts& texts, std::string_view text) const {
    const TokenId id = slots_[slot_of(texts, text)];
    return id == kEmpty ? std::nullopt : std::optional<TokenId>(id);
  }

 private:
  static constexpr TokenId kEmpty = -1;

  // The slot that holds these bytes, or the empty one where they belong.
  template <typename Texts>
  size_t slot_of(const Texts& texts, std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = hash64(std::as_bytes(std::span(text.data(), text.size()))) & mask;
    while (slots_[slot] != kEmpty && std::string_view(texts[slots_[slot]]) != text) slot = (slot + 1) & mask;
    return slot;
  }

  template <typename Texts>
  void grow(const Texts& texts) {
    std::vector<TokenId> old(slots_.size() * 2, kEmpty);
    old.swap(slots_);
    for (const TokenId id : old) {
      if (id != kEmpty) slots_[slot_of(texts, std::string_view(texts[id]))] = id;
    }
  }

  std::vector<TokenId> slots_;  // a power of two of them, at most half used
  size_t used_ = 0;
};

}  // namespace quire::tokenizer
