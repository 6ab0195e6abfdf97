// Products of activations with packed weights: out[row][output] = sum over k of x[row][k] * w[output][k].
//
// Life of a weight matrix: the bytes of a model file (outputs x row bytes, GGUF blocks) are packed once, at load, into groups of 16
// outputs, K ascending within a group, one group after the other. In the packed form a vector's lanes are outputs, so sums need no
// horizontal steps and a group is one sequential stream. All instruction sets read the same packed form. The layouts are described
// in products_layout.h.
//
// Life of an activation row: f32 values; for quantized formats they are first quantized, row by row, in blocks of 32 inputs to
// int8 with an f32 scale, and stored in row tiles (16 rows; the last tile may be shorter) as the kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire::kernels {

enum class WeightFormat : uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ8_0, kQ4_K, kQ5_K, kQ6_K };
inline constexpr int kWeightFormats = 10;

[[nodiscard]] std::string_view to_string(WeightFormat format);

// Outputs in a group: the unit in which products are split between threads.
inline constexpr int kGroupOutputs = 16;
// Rows in a row tile: the unit in which quantizing is split between threads.
inline constexpr int kRowTile = 16;

// Weights of one block (32, 256; 1 for the float formats): `inputs` of a matrix is a multiple of it.
[[nodiscard]] int block_inputs(WeightFormat format);
// Bytes of one output's row in the model file.
[[nodiscard]] size_t file_row_bytes(WeightFormat format, int inputs);
// Whether products with this format read quantized activations (else the f32 values). The reference set always reads f32.
[[nodiscard]] bool reads_quantized(WeightFormat format);

// A view of a packed matrix; the bytes belong to the caller and stay unchanged while products run.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int outputs = 0;
  int inputs = 0;
  const std::byte* data = nullptr;  // packed_bytes(format, outputs, inputs) bytes, 64-byte aligned

  [[nodiscard]] int groups() const { return (outputs + kGroupOutputs - 1) / kGroupOutputs; }
};

// Bytes of the packed form; the last group is padded with outputs that are zero.
[[nodiscard]] size_t packed_bytes(WeightFormat format, int outputs, int inputs);

// Packs the groups [group_begin, group_end) of a matrix whose file rows start at `rows` (of output 0) into `packed` (of group 0).
// Distinct groups may be packed by distinct threads.
void pack_groups(WeightFormat format, const std::byte* rows, int outputs, int inputs, int group_begin, int group_end,
                 std::byte* packed);

// Writes the `inputs` weights of one output, exactly as the format defines them, in f32: embedding look-ups and the reference set.
void unpack_row(const PackedMatrix& matrix, int output, float* out);

// Rows of activations in the forms that products read.
struct Activations {
  const float* values = nullptr;         // [rows][stride]
  int64_t stride = 0;                    // floats from one row to the next, at least inputs
  const std::byte* quantized = nullptr;  // quantized_bytes(rows, inputs) bytes, or null when no product reads it
  int rows = 0;
  int inputs = 0;
};

// Bytes of the quantized form of `rows` rows of `inputs` values (a multiple of 32).
[[nodiscard]] size_t quantized_bytes(int rows, int inputs);

enum class Store : uint8_t { kSet, kAdd };  // out = product, or out = out + product (one f32 addition)

struct ProductKernels {
  // Quantizes the rows of the tiles [tile_begin, tile_end) (16 rows each, the last one shorter) of `rows` rows into `quantized`.
  // Distinct tiles may be quantized by distinct threads.
  void (*quantize)(const float* values, int64_t stride, int rows, int inputs, int tile_begin, int tile_end, std::byte* quantized);

  // The outputs of the groups [group_begin, group_end) for all rows of x: out[row * out_stride + output]. Only existing outputs are
  // written. Distinct groups may be computed by distinct threads; rows and the split do not show in the bits.
  void (*multiply)(const PackedMatrix& weights, const Activations& x, int group_begin, int group_end, Store store, float* out,
                   int64_t out_stride);
};

}  // namespace quire::kernels
