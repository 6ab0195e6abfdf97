#include "sampling/random.h"

namespace quire::sampling {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

double uniform_at(uint64_t seed, uint32_t choice, TokenPos position) {
  const auto where = static_cast<uint64_t>(position.value);
  const auto words = philox4x32({static_cast<uint32_t>(where), static_cast<uint32_t>(where >> 32), choice, 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace quire::sampling
