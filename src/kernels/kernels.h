// The kernels of one instruction set, as tables of functions over raw pointers and sizes.
//
// Every set computes each output number by the order of operations of docs/arithmetic.md, which depends on the model, the token's
// position and the arithmetic alone: never on the number of rows, the split between threads or which queries share a call. Sets
// with the same `Arithmetic` give equal bits.
//
// No function allocates, locks or fails. Pointers must not be null and arrays must not overlap unless a comment says so; packed
// data, tile records and quantized rows are 64-byte aligned, rows of f32 are aligned to 4 bytes.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/products.h"

namespace quire::kernels {

enum class Isa {
  kReference,   // plain f32 without quantized activations: compared with an exact pass, never bit by bit with the others
  kPortable,    // plain loops, multiply and add rounded apart
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, CD, DQ, VL
  kAvx512Vnni,  // and VNNI (with the other extensions of Ice Lake and Zen 4)
};

// The order and rounding of operations. Part of the identity under which KV may be reused.
enum class Arithmetic {
  kReference,
  kSeparate,  // a multiply and an add round twice
  kFused,     // fused multiply-add
};

struct KernelSet {
  Isa isa;
  Arithmetic arithmetic;
  ProductKernels products;
  AttentionKernels attention;
  ElementwiseKernels elementwise;
};

// Version of docs/arithmetic.md that the sets follow.
inline constexpr int kArithmeticVersion = 1;

// The names that flags use: "reference", "portable", "avx2", "avx512", "avx512-vnni".
[[nodiscard]] std::string_view to_string(Isa isa);
[[nodiscard]] std::optional<Isa> isa_from(std::string_view name);

// The set, or null when this processor (or this build) lacks it. The sets live as long as the program.
[[nodiscard]] const KernelSet* kernel_set(Isa isa);

// All sets of this processor, the reference first and the fastest last.
[[nodiscard]] std::span<const KernelSet* const> available_kernel_sets();

// The fastest set of this processor.
[[nodiscard]] const KernelSet& best_kernel_set();

}  // namespace quire::kernels
