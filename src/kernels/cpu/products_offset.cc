#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products_offset.cc"
#include "kernels/cpu/targets.h"
// Order matters: targets.h says what foreach_target.h compiles.
#include <hwy/foreach_target.h>

#include "kernels/cpu/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

struct Q4_0Block : OffsetBlock<15, &ActivationBlock::start_8>, layout::Q4_0 {
  HWY_INLINE Q4_0Block(const std::byte* unit, int block) {
    load_nibble_quads(unit + kCodes + block * kBlockBytes, quads);
    scale = load_f16(unit + kScales + block * layout::kHalves);
  }
};

struct Q5_0Block : OffsetBlock<31, &ActivationBlock::start_16>, layout::Q5_0 {
  HWY_INLINE Q5_0Block(const std::byte* unit, int block) {
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    load_nibble_quads(codes + layout::kVector, quads);
    join_plane_1(codes, quads);
    scale = load_f16(unit + kScales + block * layout::kHalves);
  }
};

struct Q8_0Block : OffsetBlock<255, &ActivationBlock::start_128>, layout::Q8_0 {
  HWY_INLINE Q8_0Block(const std::byte* unit, int block) {
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    repeat<layout::kQuads>(QUIRE_LAMBDA(auto j) { quads[j] = load_bytes(codes + j * layout::kVector); });
    scale = load_f16(unit + kScales + block * layout::kHalves);
  }
};

void multiply_q4_0(const Product& product) { multiply_quantized<Q4_0Block>(product); }
void multiply_q5_0(const Product& product) { multiply_quantized<Q5_0Block>(product); }
void multiply_q8_0(const Product& product) { multiply_quantized<Q8_0Block>(product); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
