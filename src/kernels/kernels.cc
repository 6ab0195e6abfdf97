#include "kernels/kernels.h"

#include <array>

#include "kernels/cpu/tables.h"
// After targets.h, which chooses the targets.
#include <hwy/targets.h>

namespace quire::kernels {
namespace {

struct IsaFacts {
  Isa isa;
  std::string_view name;
  Arithmetic arithmetic;
  int64_t target;  // Highway's bit, 0 where every processor will do
  ProductKernels (*products)();
  AttentionKernels (*attention)();
  ElementwiseKernels (*elementwise)();
};

// The tables of a namespace.
#define QUIRE_TABLES(name_space) &name_space::product_kernels, &name_space::attention_kernels, &name_space::elementwise_kernels

// In the order of Isa: the reference, then from the slowest to the fastest.
constexpr std::array kIsas = {
    IsaFacts{Isa::kReference, "reference", Arithmetic::kReference, 0, QUIRE_TABLES(reference)},
    IsaFacts{Isa::kPortable, "portable", Arithmetic::kSeparate, 0, QUIRE_TABLES(QUIRE_PORTABLE_NAMESPACE)},
    IsaFacts{Isa::kAvx2, "avx2", Arithmetic::kFused, HWY_AVX2, QUIRE_TABLES(N_AVX2)},
    IsaFacts{Isa::kAvx512, "avx512", Arithmetic::kFused, HWY_AVX3, QUIRE_TABLES(N_AVX3)},
    IsaFacts{Isa::kAvx512Vnni, "avx512-vnni", Arithmetic::kFused, HWY_AVX3_DL, QUIRE_TABLES(N_AVX3_DL)},
};

#undef QUIRE_TABLES

// The sets of this processor, made once.
struct Sets {
  std::array<KernelSet, kIsas.size()> sets;
  std::array<const KernelSet*, kIsas.size()> pointers;
  size_t count = 0;

  Sets() {
    const int64_t supported = hwy::SupportedTargets();
    for (size_t i = 0; i < kIsas.size(); ++i) {
      const IsaFacts& facts = kIsas[i];
      if (facts.target != 0 && (supported & facts.target) == 0) continue;
      sets[i] = {facts.isa, facts.arithmetic, facts.products(), facts.attention(), facts.elementwise()};
      pointers[count++] = &sets[i];
    }
  }
  [[nodiscard]] std::span<const KernelSet* const> available() const { return {pointers.data(), count}; }
  Sets(const Sets&) = delete;
  Sets& operator=(const Sets&) = delete;
};

const Sets& sets() {
  static const Sets instance;
  return instance;
}

}  // namespace

std::string_view to_string(Isa isa) { return kIsas[static_cast<size_t>(isa)].name; }

std::optional<Isa> isa_from(std::string_view name) {
  for (const IsaFacts& facts : kIsas) {
    if (facts.name == name) return facts.isa;
  }
  return std::nullopt;
}

const KernelSet* kernel_set(Isa isa) {
  for (const KernelSet* set : available_kernel_sets()) {
    if (set->isa == isa) return set;
  }
  return nullptr;
}

std::span<const KernelSet* const> available_kernel_sets() { return sets().available(); }

const KernelSet& best_kernel_set() { return *available_kernel_sets().back(); }

}  // namespace quire::kernels
