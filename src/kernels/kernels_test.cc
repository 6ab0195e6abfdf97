#include "kernels/kernels.h"

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

TEST(KernelSets, NamesGoBothWays) {
  for (const Isa isa : {Isa::kReference, Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni})
    EXPECT_EQ(isa_from(to_string(isa)), isa);
  EXPECT_EQ(to_string(Isa::kAvx512Vnni), "avx512-vnni");
  EXPECT_EQ(isa_from("AVX2"), std::nullopt);
  EXPECT_EQ(isa_from(""), std::nullopt);
}

TEST(KernelSets, ReferenceAndPortableAreAlwaysThere) {
  ASSERT_NE(kernel_set(Isa::kReference), nullptr);
  ASSERT_NE(kernel_set(Isa::kPortable), nullptr);
  EXPECT_EQ(kernel_set(Isa::kReference)->arithmetic, Arithmetic::kReference);
  EXPECT_EQ(kernel_set(Isa::kPortable)->arithmetic, Arithmetic::kSeparate);
}

TEST(KernelSets, AvailableOnesAreOrderedAndComplete) {
  const auto sets = available_kernel_sets();
  ASSERT_GE(sets.size(), 2u);
  EXPECT_EQ(sets.front()->isa, Isa::kReference);
  EXPECT_EQ(sets.back(), &best_kernel_set());
  for (size_t i = 0; i < sets.size(); ++i) {
    const KernelSet& set = *sets[i];
    if (i > 0) {
      EXPECT_LT(sets[i - 1]->isa, set.isa);
    }
    EXPECT_EQ(kernel_set(set.isa), &set);
    if (set.isa > Isa::kPortable) {
      EXPECT_EQ(set.arithmetic, Arithmetic::kFused);
    }
    EXPECT_NE(set.products.quantize, nullptr);
    EXPECT_NE(set.products.multiply, nullptr);
    EXPECT_NE(set.attention.attend_span, nullptr);
    EXPECT_NE(set.elementwise.rms_norm, nullptr);
  }
}

}  // namespace
}  // namespace quire::kernels
