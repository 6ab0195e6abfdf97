// What a machine can do at most: bytes read from memory and multiply-adds in registers, a second. Measured beside each run, because
// both move: the cores of a virtual machine are shared.
#pragma once

#include <cstddef>
#include <cstdint>

#include "port/clock.h"
#include "port/threads.h"

namespace quire::bench {

using Vector256 = uint64_t __attribute__((vector_size(32), aligned(32)));

// Reads every byte once; the result keeps the compiler from leaving it out.
__attribute__((target("avx2"))) inline uint64_t read_all(const std::byte* begin, size_t bytes) {
  const auto* p = reinterpret_cast<const Vector256*>(begin);
  Vector256 sums[4] = {};
  for (size_t i = 0; i < bytes / sizeof(Vector256); i += 4) {
    __builtin_prefetch(p + i + 256);
    __builtin_prefetch(p + i + 258);
    for (size_t j = 0; j < 4; ++j) sums[j] |= p[i + j];
  }
  const Vector256 all = sums[0] | sums[1] | sums[2] | sums[3];
  return all[0] | all[1] | all[2] | all[3];
}

// Bytes a second that a team reads from memory that is larger than the caches.
inline double read_bandwidth(port::ThreadTeam& team, const std::byte* begin, size_t bytes) {
  const size_t share = bytes / static_cast<size_t>(team.size()) / 256 * 256;
  volatile uint64_t sink = 0;
  const double start = port::monotonic_seconds();
  team.run([&](port::TeamMember& me) {
    const uint64_t sum = read_all(begin + static_cast<size_t>(me.index) * share, share);
    if (sum == 1) sink = sum;
  });
  return static_cast<double>(share) * team.size() / (port::monotonic_seconds() - start);
}

// Twelve independent multiply-adds of one register each: more than hide their latency.
#define QUIRE_TWELVE_MULTIPLY_ADDS(r)                                                                                         \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r "0\n vfmadd231ps %%" r "12, %%" r "13, %%" r "1\n vfmadd231ps %%" r "12, %%" r     \
  "13, %%" r "2\n vfmadd231ps %%" r "12, %%" r "13, %%" r "3\n vfmadd231ps %%" r "12, %%" r "13, %%" r "4\n vfmadd231ps %%" r \
  "12, %%" r "13, %%" r "5\n vfmadd231ps %%" r "12, %%" r "13, %%" r "6\n vfmadd231ps %%" r "12, %%" r "13, %%" r             \
  "7\n vfmadd231ps %%" r "12, %%" r "13, %%" r "8\n vfmadd231ps %%" r "12, %%" r "13, %%" r "9\n vfmadd231ps %%" r "12, %%" r \
  "13, %%" r "10\n vfmadd231ps %%" r "12, %%" r "13, %%" r "11\n"

__attribute__((target("avx512f"))) inline void multiply_add_512(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(QUIRE_TWELVE_MULTIPLY_ADDS("zmm")::
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
}
__attribute__((target("avx2,fma"))) inline void multiply_add_256(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile(QUIRE_TWELVE_MULTIPLY_ADDS("ymm")::
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
}
#undef QUIRE_TWELVE_MULTIPLY_ADDS

// f32 multiply-adds a second that a team does in registers of 512 or 256 bits.
inline double multiply_add_peak(port::ThreadTeam& team, int bits) {
  constexpr int64_t kRounds = 50000;
  const double start = port::monotonic_seconds();
  team.run([&](port::TeamMember&) {
    if (bits == 512) {
      multiply_add_512(kRounds);
    } else {
      multiply_add_256(kRounds);
    }
  });
  return 12.0 * bits / 32 * kRounds * team.size() / (port::monotonic_seconds() - start);
}

}  // namespace quire::bench
