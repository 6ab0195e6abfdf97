// What the product tests build: weights as the bytes of a model file, packed; activations; and products in every way to call them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/products.h"
#include "kernels/twin/products_twin.h"

namespace quire::kernels {

inline constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ4_0,
                                               WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ8_0, WeightFormat::kQ4_K,
                                               WeightFormat::kQ5_K, WeightFormat::kQ6_K};

// 64-byte aligned bytes of exactly that size, so that a sanitizer sees what lies beyond.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : size_(size), data_(static_cast<std::byte*>(operator new(size, std::align_val_t{64}))) {
    std::memset(data_.get(), 0xee, size);
  }
  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Deleter {
    void operator()(std::byte* p) const { operator delete(p, std::align_val_t{64}); }
  };
  size_t size_;
  std::unique_ptr<std::byte, Deleter> data_;
};

// The same numbers everywhere: the standard's distributions are not.
class ProductRandom {
 public:
  explicit ProductRandom(uint32_t seed) : engine_(seed) {}
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  // In [-1, 1).
  float next() { return static_cast<float>(static_cast<int32_t>(bits())) * 0x1p-31f; }

 private:
  std::mt19937 engine_;
};

// What the weights' scales and codes are.
enum class Weights { kUsual, kLowestCodes, kHighestCodes, kSubnormalScales, kHugeScales, kZeroScales };

inline uint16_t scale_bits(Weights kind, ProductRandom& random) {
  switch (kind) {
    case Weights::kSubnormalScales: return static_cast<uint16_t>(random.bits() & 0x83ffu);
    case Weights::kHugeScales: return static_cast<uint16_t>(0x7bff - (random.bits() & 0xffu));
    case Weights::kZeroScales: return static_cast<uint16_t>(random.bits() & 0x8000u);
    default: return float_to_half(random.next() * 0.05f);
  }
}

// Offsets of the f16 numbers in a block of the file.
inline std::vector<size_t> scale_offsets(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ8_0: return {0};
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K: return {0, 2};
    case WeightFormat::kQ6_K: return {208};
    default: return {};
  }
}

inline void write_float_weight(WeightFormat format, Weights kind, ProductRandom& random, std::byte* to) {
  const float value = kind == Weights::kUsual ? random.next() : half_to_float(scale_bits(kind, random));
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t short_bits = format == WeightFormat::kF16 ? float_to_half(value) : static_cast<uint16_t>(bits >> 16);
  if (format == WeightFormat::kF32) {
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    std::memcpy(to, &short_bits, sizeof(short_bits));
  }
}

// The bytes of a model file's matrix.
inline std::vector<std::byte> make_file(WeightFormat format, int outputs, int inputs, Weights kind, ProductRandom& random) {
  std::vector<std::byte> file(static_cast<size_t>(outputs) * file_row_bytes(format, inputs));
  const size_t block_bytes = file_row_bytes(format, block_inputs(format));
  for (std::byte* block = file.data(); block < file.data() + file.size(); block += block_bytes) {
    if (!reads_quantized(format)) {
      write_float_weight(format, kind, random, block);
      continue;
    }
    for (size_t i = 0; i < block_bytes; ++i) block[i] = static_cast<std::byte>(random.bits() >> 24);
    if (kind == Weights::kLowestCodes) std::memset(block, format == WeightFormat::kQ8_0 ? 0x80 : 0, block_bytes);
    if (kind == Weights::kHighestCodes) std::memset(block, format == WeightFormat::kQ8_0 ? 0x7f : 0xff, block_bytes);
    for (const size_t at : scale_offsets(format)) {
      const uint16_t bits = scale_bits(kind, random);
      std::memcpy(block + at, &bits, sizeof(bits));
    }
  }
  return file;
}

// A matrix in the file's form, packed, and as the twin reads it.
class TestMatrix {
 public:
  TestMatrix(WeightFormat format, int outputs, int inputs, Weights kind, ProductRandom& random)
      : file_(make_file(format, outputs, inputs, kind, random)),
        packed_(packed_bytes(format, outputs, inputs)),
        view_{format, outputs, inputs, packed_.data()} {
    pack_groups(format, file_.data(), outputs, inputs, 0, view_.groups(), packed_.data());
    for (int o = 0; o < outputs; ++o)
      twin_.push_back(twin::read_row(format, file_.data() + static_cast<size_t>(o) * file_row_bytes(format, inputs), inputs));
  }

  [[nodiscard]] const PackedMatrix& view() const { return view_; }
  [[nodiscard]] const std::vector<std::byte>& file() const { return file_; }
  [[nodiscard]] const AlignedBytes& packed() const { return packed_; }
  [[nodiscard]] const twin::WeightRow& twin(int output) const { return twin_[static_cast<size_t>(output)]; }

 private:
  std::vector<std::byte> file_;
  AlignedBytes packed_;
  PackedMatrix view_;
  std::vector<twin::WeightRow> twin_;
};

// Rows of f32, some floats apart, with blocks of zeros and of numbers of very different size.
struct TestRows {
  int rows;
  int inputs;
  int64_t stride;
  std::vector<float> values;

  TestRows(int row_count, int input_count, ProductRandom& random)
      : rows(row_count), inputs(input_count), stride(input_count + 5), values(static_cast<size_t>(row_count * stride)) {
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < inputs; ++k) {
        const uint32_t kind = static_cast<uint32_t>(r * 7 + k / 32) % 11;
        const float factor = kind == 3 ? 0.0f : kind == 5 ? 1e-3f : kind == 8 ? 100.0f : 1.0f;
        values[static_cast<size_t>(r * stride + k)] = random.next() * factor;
      }
    }
  }
  [[nodiscard]] const float* row(int r) const { return values.data() + r * stride; }
};

struct Call {
  int first_row = 0;
  int rows = -1;  // all from first_row on
  int group_begin = 0;
  int group_end = -1;  // all from group_begin on
  Store store = Store::kSet;
};

// Quantizes the call's rows where the format needs it and multiplies them into `out`, [x.rows][outputs].
inline void multiply_into(const ProductKernels& kernels, const PackedMatrix& weights, const TestRows& x, Call call,
                          std::vector<float>& out) {
  const int rows = call.rows < 0 ? x.rows - call.first_row : call.rows;
  Activations activations{.values = x.row(call.first_row), .stride = x.stride, .rows = rows, .inputs = x.inputs};
  AlignedBytes quantized(reads_quantized(weights.format) ? quantized_bytes(rows, x.inputs) : 64);
  if (reads_quantized(weights.format)) {
    const int tiles = (rows + kRowTile - 1) / kRowTile;
    kernels.quantize(activations.values, x.stride, rows, x.inputs, 0, tiles, quantized.data());
    activations.quantized = quantized.data();
  }
  kernels.multiply(weights, activations, call.group_begin, call.group_end < 0 ? weights.groups() : call.group_end, call.store,
                   out.data() + static_cast<size_t>(call.first_row) * static_cast<size_t>(weights.outputs), weights.outputs);
}

inline std::vector<float> multiply_all(const ProductKernels& kernels, const PackedMatrix& weights, const TestRows& x) {
  std::vector<float> out(static_cast<size_t>(x.rows) * static_cast<size_t>(weights.outputs), -77.0f);
  multiply_into(kernels, weights, x, {}, out);
  return out;
}

inline float twin_product(Arithmetic arithmetic, WeightFormat format, const twin::WeightRow& weights,
                          const twin::ActivationRow& x) {
  return arithmetic == Arithmetic::kFused ? twin::multiply<Arithmetic::kFused>(format, weights, x)
                                          : twin::multiply<Arithmetic::kSeparate>(format, weights, x);
}

inline std::vector<float> twin_all(Arithmetic arithmetic, const TestMatrix& matrix, const TestRows& x) {
  std::vector<float> out;
  for (int r = 0; r < x.rows; ++r) {
    const twin::ActivationRow row = twin::read_activations(x.row(r), x.inputs);
    for (int o = 0; o < matrix.view().outputs; ++o)
      out.push_back(twin_product(arithmetic, matrix.view().format, matrix.twin(o), row));
  }
  return out;
}

// The sets that keep the order, thus all but the reference.
inline std::vector<const KernelSet*> ordered_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : available_kernel_sets()) {
    if (set->arithmetic != Arithmetic::kReference) sets.push_back(set);
  }
  return sets;
}

// Equal to the bit; NaNs are equal to each other.
inline testing::AssertionResult equal_bits(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " numbers instead of " << want.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i]))
      return testing::AssertionFailure() << "number " << i << " is " << got[i] << " instead of " << want[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace quire::kernels
