// How products ask for weights ahead of their use. Hints and the order of independent work: they do not show in the bits.
#pragma once

#include <cstddef>

namespace quire::kernels {

// Passes of more rows compute long enough on each byte that every processor gains by this distance.
inline constexpr size_t kPrefetchBytes = size_t{8} << 10;

// For passes of up to four rows, which wait for memory.
struct ProductTuning {
  size_t prefetch_bytes;       // how far ahead of its use a group's stream is fetched
  size_t prefetch_bytes_k;     // the same for the K formats
  size_t several_groups_from;  // groups of at least so many bytes are streamed several at a time
};

// For this processor, or what a ScopedProductTuning says.
[[nodiscard]] const ProductTuning& product_tuning();

// For tests and measurements: replaces the processor's tuning while it lives. One at a time, and while no product runs.
class ScopedProductTuning {
 public:
  explicit ScopedProductTuning(const ProductTuning& tuning);
  ScopedProductTuning(const ScopedProductTuning&) = delete;
  ScopedProductTuning& operator=(const ScopedProductTuning&) = delete;
  ~ScopedProductTuning();

 private:
  ProductTuning tuning_;
};

}  // namespace quire::kernels
