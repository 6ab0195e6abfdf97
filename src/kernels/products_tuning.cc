#include "kernels/products_tuning.h"

#include <cpuid.h>

#include <atomic>
#include <cstdint>

#include "base/check.h"

namespace quire::kernels {
namespace {

// Measured on AMD's families 0x19 (Zen 4) and 0x1a (Zen 5), one thread, one row.
//
// Zen 4's own prefetchers do best alone: asking 1 KiB ahead or more costs a quarter of the bandwidth. They begin anew on every
// 4 KiB page, so four long streams at once are up to a third faster than one; short groups lose by it. The K formats, which compute
// more for each byte, gain by a short distance.
//
// Zen 5 needs the distance: without it the K formats fall to 54-71 % of the bandwidth. One stream is best. Others are taken to be
// like it.
constexpr ProductTuning kZen4 = {.prefetch_bytes = 0, .prefetch_bytes_k = 512, .several_groups_from = size_t{64} << 10};
constexpr ProductTuning kOthers = {
    .prefetch_bytes = kPrefetchBytes, .prefetch_bytes_k = kPrefetchBytes, .several_groups_from = SIZE_MAX};

bool is_amd_family_19() {
  unsigned highest = 0;
  unsigned vendor[3] = {};  // as cpuid orders them: "Auth", "cAMD", "enti"
  if (__get_cpuid(0, &highest, &vendor[0], &vendor[1], &vendor[2]) == 0) return false;
  if (vendor[0] != signature_AMD_ebx || vendor[1] != signature_AMD_ecx || vendor[2] != signature_AMD_edx) return false;
  unsigned version = 0;
  unsigned ignored[3] = {};
  if (__get_cpuid(1, &version, &ignored[0], &ignored[1], &ignored[2]) == 0) return false;
  const unsigned family = ((version >> 8) & 15u) + ((version >> 20) & 255u);
  return family == 0x19;
}

std::atomic<const ProductTuning*> replacement{nullptr};

}  // namespace

const ProductTuning& product_tuning() {
  static const ProductTuning tuning = is_amd_family_19() ? kZen4 : kOthers;
  const ProductTuning* replaced = replacement.load(std::memory_order_acquire);
  return replaced != nullptr ? *replaced : tuning;
}

ScopedProductTuning::ScopedProductTuning(const ProductTuning& tuning) : tuning_(tuning) {
  QUIRE_CHECK(replacement.exchange(&tuning_) == nullptr, "one ScopedProductTuning at a time");
}

ScopedProductTuning::~ScopedProductTuning() { replacement.store(nullptr); }

}  // namespace quire::kernels
