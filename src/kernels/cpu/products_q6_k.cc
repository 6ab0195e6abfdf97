#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products_q6_k.cc"
#include "kernels/cpu/targets.h"
// Order matters: targets.h says what foreach_target.h compiles.
#include <hwy/foreach_target.h>

#include "kernels/cpu/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::HWY_NAMESPACE {

// Two sub-blocks of 16 inputs with a scale each.
struct Q6_KBlock : layout::Q6_K {
  Bytes64 quads[layout::kQuads];
  Vec16 scale[2];

  HWY_INLINE Q6_KBlock(const std::byte* unit, int block) {
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    load_nibble_quads(codes + 2 * layout::kVector, quads);
    join_plane_2(codes, quads);
    const Vec16 d = load_f16(unit + kScale);
    repeat<2>(QUIRE_LAMBDA(auto s) { scale[s] = mul(d, load_i8(unit + kBlockScales + (2 * block + s) * kLanes)); });
  }

  HWY_INLINE Vec16 accumulate(const ActivationBlock& x, Vec16 sum) const {
    const Vec16 x_scale = set1(x.scale);
    repeat<2>(QUIRE_LAMBDA(auto s) {
      const Ints16 products = dot<63, 4>(quads + 4 * s, x.q + 16 * s, x.start_32[s]);
      sum = multiply_add(to_float(products), mul(scale[s], x_scale), sum);
    });
    return sum;
  }
};

void multiply_q6_k(const Product& product) { multiply_quantized<Q6_KBlock>(product); }

}  // namespace quire::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
