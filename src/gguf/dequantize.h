// The exact meaning of quantized weights: what every faster reader of them is held to.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/tensor_type.h"

namespace quire::gguf {

// Writes the weights of one row as f32: `out.size()` weights from row_bytes(type, out.size()) bytes (checked).
//
// Each operation is one f32 operation, rounded, in the order of the formulas at the top of gguf/tensor_type.h and of ggml's
// dequantize_row_* functions: products before sums, and for the K formats the scales first: (d * sc) * q - (dmin * mn).
void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> out);

}  // namespace quire::gguf
