// Scalar twin of the weight products: docs/arithmetic.md, "Activations" and "Weight products", from the bytes of the model file and
// without the packed form.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/products.h"
#include "kernels/twin/functions_twin.h"

namespace quire::kernels::twin {

// One output's weights: weight k is scale[k / 16] * code[k], plus min[k / 32] where the format has mins; for the float formats
// value[k].
struct WeightRow {
  std::vector<int> code;
  std::vector<float> scale;
  std::vector<float> min;
  std::vector<float> value;
};

class FileBytes {
 public:
  explicit FileBytes(const std::byte* bytes) : bytes_(bytes) {}
  [[nodiscard]] int u8(size_t at) const { return std::to_integer<int>(bytes_[at]); }
  [[nodiscard]] int i8(size_t at) const { return static_cast<int8_t>(u8(at)); }
  [[nodiscard]] int low(size_t at) const { return u8(at) & 15; }
  [[nodiscard]] int high(size_t at) const { return u8(at) >> 4; }
  [[nodiscard]] int bit(size_t at, int i) const { return (u8(at) >> i) & 1; }
  [[nodiscard]] uint16_t u16(size_t at) const { return static_cast<uint16_t>(u8(at) | (u8(at + 1) << 8)); }
  [[nodiscard]] float f16(size_t at) const { return half_to_float(u16(at)); }

 private:
  const std::byte* bytes_;
};

inline void add_scales(WeightRow& row, float scale, int count) {
  row.scale.insert(row.scale.end(), static_cast<size_t>(count), scale);
}

inline void read_q4_0(FileBytes file, WeightRow& row) {
  add_scales(row, file.f16(0), 2);
  for (size_t i = 0; i < 32; ++i) row.code.push_back((i < 16 ? file.low(2 + i) : file.high(2 + i - 16)) - 8);
}

inline void read_q4_1(FileBytes file, WeightRow& row) {
  add_scales(row, file.f16(0), 2);
  row.min.push_back(file.f16(2));
  for (size_t i = 0; i < 32; ++i) row.code.push_back(i < 16 ? file.low(4 + i) : file.high(4 + i - 16));
}

inline void read_q5_0(FileBytes file, WeightRow& row) {
  add_scales(row, file.f16(0), 2);
  for (size_t i = 0; i < 32; ++i) {
    const int fifth = file.bit(2 + i / 8, static_cast<int>(i % 8));
    row.code.push_back((i < 16 ? file.low(6 + i) : file.high(6 + i - 16)) + 16 * fifth - 16);
  }
}

inline void read_q8_0(FileBytes file, WeightRow& row) {
  add_scales(row, file.f16(0), 2);
  for (size_t i = 0; i < 32; ++i) row.code.push_back(file.i8(2 + i));
}

// The scale and the min of block b of Q4_K and Q5_K: 6 bits each, those of the last four blocks in two pieces.
inline void read_k_scale_and_min(FileBytes file, size_t b, WeightRow& row) {
  const size_t bits = 4;
  const int scale = b < 4 ? file.u8(bits + b) % 64 : file.low(bits + 4 + b) + 16 * (file.u8(bits + b - 4) / 64);
  const int min = b < 4 ? file.u8(bits + 4 + b) % 64 : file.high(bits + 4 + b) + 16 * (file.u8(bits + b) / 64);
  add_scales(row, file.f16(0) * static_cast<float>(scale), 2);
  row.min.push_back(-(file.f16(2) * static_cast<float>(min)));
}

inline void read_q4_k(FileBytes file, WeightRow& row) {
  for (size_t b = 0; b < 8; ++b) {
    read_k_scale_and_min(file, b, row);
    for (size_t i = 0; i < 32; ++i) {
      const size_t at = 16 + 32 * (b / 2) + i;
      row.code.push_back(b % 2 == 0 ? file.low(at) : file.high(at));
    }
  }
}

inline void read_q5_k(FileBytes file, WeightRow& row) {
  for (size_t b = 0; b < 8; ++b) {
    read_k_scale_and_min(file, b, row);
    for (size_t i = 0; i < 32; ++i) {
      const size_t at = 48 + 32 * (b / 2) + i;
      row.code.push_back((b % 2 == 0 ? file.low(at) : file.high(at)) + 16 * file.bit(16 + i, static_cast<int>(b)));
    }
  }
}

inline void read_q6_k(FileBytes file, WeightRow& row) {
  for (size_t s = 0; s < 16; ++s) add_scales(row, file.f16(208) * static_cast<float>(file.i8(192 + s)), 1);
  for (size_t k = 0; k < 256; ++k) {
    const size_t half = k / 128;
    const size_t quarter = k % 128 / 32;
    const size_t i = k % 32;
    const size_t at = 64 * half + 32 * (quarter % 2) + i;
    const int low = quarter < 2 ? file.low(at) : file.high(at);
    const int high = (file.u8(128 + 32 * half + i) >> (2 * quarter)) & 3;
    row.code.push_back(low + 16 * high - 32);
  }
}

inline float read_float(WeightFormat format, FileBytes file) {
  if (format == WeightFormat::kF16) return file.f16(0);
  const uint32_t low = file.u16(0);
  return std::bit_cast<float>(format == WeightFormat::kBF16 ? low << 16 : low | (static_cast<uint32_t>(file.u16(2)) << 16));
}

inline WeightRow read_row(WeightFormat format, const std::byte* file, int inputs) {
  WeightRow row;
  const size_t block_bytes = file_row_bytes(format, block_inputs(format));
  for (int k = 0; k < inputs; k += block_inputs(format), file += block_bytes) {
    const FileBytes block(file);
    switch (format) {
      case WeightFormat::kF32:
      case WeightFormat::kF16:
      case WeightFormat::kBF16: row.value.push_back(read_float(format, block)); break;
      case WeightFormat::kQ4_0: read_q4_0(block, row); break;
      case WeightFormat::kQ4_1: read_q4_1(block, row); break;
      case WeightFormat::kQ5_0: read_q5_0(block, row); break;
      case WeightFormat::kQ8_0: read_q8_0(block, row); break;
      case WeightFormat::kQ4_K: read_q4_k(block, row); break;
      case WeightFormat::kQ5_K: read_q5_k(block, row); break;
      case WeightFormat::kQ6_K: read_q6_k(block, row); break;
    }
  }
  return row;
}

inline float dequantized(const WeightRow& row, size_t k) {
  if (!row.value.empty()) return row.value[k];
  const float scaled = row.scale[k / 16] * static_cast<float>(row.code[k]);
  return row.min.empty() ? scaled : scaled + row.min[k / 32];
}

// One activation row: x[k] = scale[k / 32] * q[k].
struct ActivationRow {
  std::vector<float> value;
  std::vector<int> q;
  std::vector<float> scale;
};

inline void quantize_block(const float* x, ActivationRow& row) {
  float amax = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::fmax(amax, std::fabs(x[i]));
  }
  const bool quantizable = finite && amax >= 0x1p-100f;
  row.scale.push_back(quantizable ? amax / 127.0f : finite ? 0.0f : std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 32; ++i) row.q.push_back(quantizable ? static_cast<int>(std::nearbyint(x[i] * (127.0f / amax))) : 0);
}

// Quantized where `inputs` is a multiple of 32.
inline ActivationRow read_activations(const float* x, int inputs) {
  ActivationRow row;
  row.value.assign(x, x + inputs);
  for (int k = 0; k + 32 <= inputs; k += 32) quantize_block(x + k, row);
  return row;
}

inline int sum_codes(const WeightRow& weights, const ActivationRow& x, size_t begin, size_t count) {
  int sum = 0;
  for (size_t k = begin; k < begin + count; ++k) sum += weights.code[k] * x.q[k];
  return sum;
}

template <Arithmetic kArithmetic>
float multiply_quantized(WeightFormat format, const WeightRow& weights, const ActivationRow& x) {
  const size_t run = format == WeightFormat::kQ6_K ? 16 : 32;  // inputs that share a weight scale
  float sum = 0;
  for (size_t k = 0; k < weights.code.size(); k += run) {
    const float x_scale = x.scale[k / 32];
    sum = multiply_add<kArithmetic>(static_cast<float>(sum_codes(weights, x, k, run)), weights.scale[k / 16] * x_scale, sum);
    if (weights.min.empty()) continue;
    int x_sum = 0;
    for (size_t i = k; i < k + run; ++i) x_sum += x.q[i];
    sum = multiply_add<kArithmetic>(weights.min[k / 32], x_scale * static_cast<float>(x_sum), sum);
  }
  return sum;
}

template <Arithmetic kArithmetic>
float multiply_floats(const WeightRow& weights, const ActivationRow& x) {
  float sum[4] = {};
  for (size_t k = 0; k < weights.value.size(); ++k)
    sum[k % 4] = multiply_add<kArithmetic>(weights.value[k], x.value[k], sum[k % 4]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// One output number.
template <Arithmetic kArithmetic>
float multiply(WeightFormat format, const WeightRow& weights, const ActivationRow& x) {
  return reads_quantized(format) ? multiply_quantized<kArithmetic>(format, weights, x) : multiply_floats<kArithmetic>(weights, x);
}

}  // namespace quire::kernels::twin
