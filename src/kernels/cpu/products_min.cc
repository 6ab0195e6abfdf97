#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products_min.cc"
#include "kernels/cpu/targets.h"
// Order matters: targets.h says what foreach_target.h compiles.
#include <hwy/foreach_target.h>

#include "kernels/cpu/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

struct Q4_1Block : MinBlock<15>, layout::Q4_1 {
  HWY_INLINE Q4_1Block(const std::byte* unit, int block) {
    load_nibble_quads(unit + kCodes + block * kBlockBytes, quads);
    scale = load_f16(unit + kScales + block * layout::kHalves);
    min = load_f16(unit + kMins + block * layout::kHalves);
  }
};

// A K format is one with mins whose scale d * sc and min -dmin * mn are exact in f32.
template <typename Layout>
HWY_INLINE Vec16 k_scale(const std::byte* unit, int block) {
  return mul(load_f16(unit + Layout::kScale), load_u8(unit + Layout::kBlockScales + block * kLanes));
}
template <typename Layout>
HWY_INLINE Vec16 k_min(const std::byte* unit, int block) {
  return mul(load_f16(unit + Layout::kMin), load_u8(unit + Layout::kBlockMins + block * kLanes));
}

struct Q4_KBlock : MinBlock<15>, layout::Q4_K {
  HWY_INLINE Q4_KBlock(const std::byte* unit, int block) {
    load_nibble_quads(unit + kCodes + block * kBlockBytes, quads);
    scale = k_scale<layout::Q4_K>(unit, block);
    min = k_min<layout::Q4_K>(unit, block);
  }
};

struct Q5_KBlock : MinBlock<31>, layout::Q5_K {
  HWY_INLINE Q5_KBlock(const std::byte* unit, int block) {
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    load_nibble_quads(codes + layout::kVector, quads);
    join_plane_1(codes, quads);
    scale = k_scale<layout::Q5_K>(unit, block);
    min = k_min<layout::Q5_K>(unit, block);
  }
};

void multiply_q4_1(const Product& product) { multiply_quantized<Q4_1Block>(product); }
void multiply_q4_k(const Product& product) { multiply_quantized<Q4_KBlock>(product); }
void multiply_q5_k(const Product& product) { multiply_quantized<Q5_KBlock>(product); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
