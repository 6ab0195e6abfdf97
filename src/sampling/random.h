// Random numbers that depend on their coordinates alone.
//
// A reply must not depend on what else the server does, so there is no generator with a state that others could advance: the number
// for a choice at a position is a function of (seed, choice, position). The function is Philox4x32-10 (Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"

namespace quire::sampling {

// The block cipher itself: the key is the seed, the counter the coordinates.
[[nodiscard]] std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform_at(uint64_t seed, uint32_t choice, TokenPos position);

}  // namespace quire::sampling
