// From f32 to every weight format, plainly: scales from each block's least and largest value. Good enough for tests and made-up
// models; no search for better scales.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gguf/tensor_type.h"

namespace quire::test_support {

// The encoded rows of `weights`, whose number is a multiple of the type's block (checked). Finite values only.
[[nodiscard]] std::vector<std::byte> quantize(gguf::TensorType type, std::span<const float> weights);

// Six-bit scales and mins of eight sub-blocks, packed into 12 bytes as in Q4_K and Q5_K.
void pack_scales_and_mins(std::span<const int, 8> scales, std::span<const int, 8> mins, std::byte* packed);

}  // namespace quire::test_support
