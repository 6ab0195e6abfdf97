// The number formats in which GGUF files store weights: names, block sizes.
//
// A quantized row is a sequence of blocks; each block holds a fixed number of weights with their scales. Layouts (little-endian,
// f16 = IEEE half), as the dequantizer in gguf/dequantize.h reads them:
//
//   Q4_0  18 B   32  f16 d, 16 B of nibbles (low nibbles are weights 0..15, high nibbles 16..31)        w = d * (q - 8)
//   Q4_1  20 B   32  f16 d, f16 m, 16 B of nibbles                                                        w = d * q + m
//   Q5_0  22 B   32  f16 d, u32 of fifth bits (bit i: weight i), 16 B of nibbles                          w = d * (q - 16)
//   Q8_0  34 B   32  f16 d, 32 int8                                                                       w = d * q
//   Q4_K 144 B  256  f16 d, f16 dmin, 12 B of 6-bit scales and mins of 8 sub-blocks, 128 B of nibbles     w = d*sc * q - dmin*mn
//   Q5_K 176 B  256  as Q4_K with 32 B of fifth bits before the nibbles                                   w = d*sc * q - dmin*mn
//   Q6_K 210 B  256  128 B low nibbles, 64 B high bits, 16 int8 scales, f16 d                             w = d*sc * (q - 32)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire::gguf {

// The formats that Quire computes with; the values are those of the file.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// Every TensorType, in the order of their values.
[[nodiscard]] std::span<const TensorType> all_tensor_types();

// "Q4_K", "F32", ...
[[nodiscard]] std::string_view to_string(TensorType type);
// The type of that name (as to_string writes it, exact case), if it is one that Quire computes with.
[[nodiscard]] std::optional<TensorType> tensor_type_from_name(std::string_view name);
// The type with that value in a file, if it is one that Quire computes with.
[[nodiscard]] std::optional<TensorType> tensor_type_from_value(uint32_t value);
// The name of any type that the format knows or knew, also unsupported ones ("IQ4_XS"); "77 (unknown)" where there is none.
[[nodiscard]] std::string tensor_type_value_name(uint32_t value);
// "F32, F16, Q4_0, ...": all of them, for messages.
[[nodiscard]] std::string supported_tensor_types();

// Weights in a block: 1 for the plain formats, else 32 or 256.
[[nodiscard]] int64_t block_elements(TensorType type);
// Bytes of a block.
[[nodiscard]] int64_t block_bytes(TensorType type);
// Bits a weight takes, scales included: 4.5 for Q4_0.
[[nodiscard]] double bits_per_weight(TensorType type);
// Bytes of a row of `elements` weights, which must be a multiple of block_elements(type) and not negative.
[[nodiscard]] int64_t row_bytes(TensorType type, int64_t elements);

}  // namespace quire::gguf
