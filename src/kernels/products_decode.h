// Reading packed weights back, one output at a time: plain code, the same on every instruction set.
#pragma once

#include <cstddef>

#include "kernels/products.h"

namespace quire::kernels {

// Bytes of one packed group.
[[nodiscard]] size_t group_bytes(WeightFormat format, int inputs);

// Writes the weights of the inputs [begin, begin + count) of output `lane` of a group, exactly as the format defines them:
// count <= 32, all within one 32-input block.
void decode_weights(WeightFormat format, const std::byte* group, int lane, int begin, int count, float* out);

}  // namespace quire::kernels
