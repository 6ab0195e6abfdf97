// Strong types for the numbers that Quire counts. No two of them convert into each other without a word.
//
//   Bytes       a size in bytes
//   TokenPos    index of a token in its sequence, from 0
//   TokenCount  how many tokens
//   TileIndex   index of a tile: tile i holds the positions [32i, 32i + 32)
//   TileCount   how many tiles
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// A number with a unit: adds and compares with its own kind only; `.value` is the way out.
template <typename Tag>
struct Quantity {
  int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t v) : value(v) {}

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(value + other.value); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(value - other.value); }
  constexpr Quantity operator*(int64_t factor) const { return Quantity(value * factor); }
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
};

using Bytes = Quantity<struct BytesTag>;
using TokenPos = Quantity<struct TokenPosTag>;
using TokenCount = Quantity<struct TokenCountTag>;
using TileIndex = Quantity<struct TileIndexTag>;
using TileCount = Quantity<struct TileCountTag>;

using TokenId = int32_t;

// The units of storage and of attention (docs/arithmetic.md).
inline constexpr int kTileTokens = 32;
inline constexpr int kSpanTiles = 4;
inline constexpr int kSpanTokens = kTileTokens * kSpanTiles;

[[nodiscard]] constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
[[nodiscard]] constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }
[[nodiscard]] constexpr TileCount tiles_for(TokenCount tokens) { return TileCount(ceil_div(tokens.value, kTileTokens)); }

// "720 KiB", "1.50 GiB", "17 B": binary units, three digits.
[[nodiscard]] std::string format_bytes(Bytes bytes);

// Reads "24GiB", "512 MiB", "1.5GB", "4096": KiB/MiB/GiB/TiB are powers of 1024, KB/MB/GB/TB powers of 1000, a bare number is
// bytes. An error names what is wrong with the text. Never negative.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

}  // namespace quire
