// Weight products of every instruction set of this machine against their scalar twin, to the bit.
#include "kernels/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/hash.h"
#include "kernels/products_layout.h"
#include "kernels/products_test_support.h"
#include "kernels/products_tuning.h"

namespace quire::kernels {
namespace {

class ProductsTest : public testing::TestWithParam<WeightFormat> {
 protected:
  WeightFormat format() const { return GetParam(); }
  // An odd number of 32-input blocks where the format allows it; two and a half units for the others.
  int inputs() const { return block_inputs(format()) == 256 ? 768 : reads_quantized(format()) ? 224 : 75; }
};

INSTANTIATE_TEST_SUITE_P(Formats, ProductsTest, testing::ValuesIn(kAllFormats),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(ProductsTest, PackedFormIsAsSmallAsTheFile) {
  const double file = 4096.0 * static_cast<double>(file_row_bytes(format(), 14336));
  EXPECT_LE(static_cast<double>(packed_bytes(format(), 4096, 14336)), 1.03 * file);
  EXPECT_EQ(packed_bytes(format(), 17, inputs()), packed_bytes(format(), 32, inputs()));
  EXPECT_EQ(packed_bytes(format(), 16, inputs()) % 64, 0u);
}

TEST_P(ProductsTest, UnpackedRowsAreWhatTheFormatDefines) {
  for (const Weights kind : {Weights::kUsual, Weights::kLowestCodes, Weights::kHighestCodes, Weights::kSubnormalScales,
                             Weights::kHugeScales, Weights::kZeroScales}) {
    ProductRandom random(1);
    const TestMatrix matrix(format(), 19, inputs(), kind, random);
    for (int o = 0; o < 19; ++o) {
      std::vector<float> row(static_cast<size_t>(inputs()));
      unpack_row(matrix.view(), o, row.data());
      std::vector<float> want;
      for (size_t k = 0; k < row.size(); ++k) want.push_back(twin::dequantized(matrix.twin(o), k));
      ASSERT_TRUE(equal_bits(row, want)) << "output " << o << ", weights " << static_cast<int>(kind);
    }
  }
}

TEST_P(ProductsTest, PackingInPiecesEqualsPackingAtOnce) {
  ProductRandom random(2);
  const TestMatrix matrix(format(), 53, inputs(), Weights::kUsual, random);
  AlignedBytes pieces(matrix.packed().size());
  pack_groups(format(), matrix.file().data(), 53, inputs(), 3, 4, pieces.data());
  pack_groups(format(), matrix.file().data(), 53, inputs(), 0, 1, pieces.data());
  pack_groups(format(), matrix.file().data(), 53, inputs(), 1, 3, pieces.data());
  EXPECT_EQ(std::memcmp(pieces.data(), matrix.packed().data(), pieces.size()), 0);
}

TEST_P(ProductsTest, EveryRowCountEqualsTheTwin) {
  ProductRandom random(3);
  const TestMatrix matrix(format(), 37, inputs(), Weights::kUsual, random);
  const TestRows all(64, inputs(), random);
  for (const KernelSet* set : ordered_sets()) {
    const std::vector<float> want = twin_all(set->arithmetic, matrix, all);
    for (int rows = 1; rows <= 64; rows += rows < 40 ? 1 : 24) {
      std::vector<float> got(want.size(), 0.0f);
      multiply_into(set->products, matrix.view(), all, {.rows = rows}, got);
      got.resize(static_cast<size_t>(rows) * 37);
      ASSERT_TRUE(equal_bits(got, {want.begin(), want.begin() + rows * 37})) << to_string(set->isa) << ", " << rows << " rows";
    }
  }
}

TEST_P(ProductsTest, ManyRowsAndOutputsEqualTheTwin) {
  ProductRandom random(4);
  const int inputs = block_inputs(format()) == 256 ? 256 : 96;
  const TestMatrix narrow(format(), 20, inputs, Weights::kUsual, random);
  const TestMatrix wide(format(), 100, 2 * inputs, Weights::kUsual, random);
  const TestRows many(512, inputs, random);
  const TestRows few(3, 2 * inputs, random);
  for (const KernelSet* set : ordered_sets()) {
    EXPECT_TRUE(equal_bits(multiply_all(set->products, narrow.view(), many), twin_all(set->arithmetic, narrow, many)))
        << to_string(set->isa);
    EXPECT_TRUE(equal_bits(multiply_all(set->products, wide.view(), few), twin_all(set->arithmetic, wide, few)))
        << to_string(set->isa);
  }
}

// Rows so long that a panel holds one row tile, and one pass after another reads it.
TEST_P(ProductsTest, LongRowsEqualTheTwin) {
  ProductRandom random(5);
  const TestMatrix matrix(format(), 18, 13 * 1024, Weights::kUsual, random);
  const TestRows rows(35, 13 * 1024, random);
  std::map<Arithmetic, std::vector<float>> want;
  for (const KernelSet* set : ordered_sets()) {
    if (want[set->arithmetic].empty()) want[set->arithmetic] = twin_all(set->arithmetic, matrix, rows);
    EXPECT_TRUE(equal_bits(multiply_all(set->products, matrix.view(), rows), want[set->arithmetic])) << to_string(set->isa);
  }
}

// Every processor's way to stream weights, on this one.
TEST_P(ProductsTest, TuningDoesNotShow) {
  ProductRandom random(16);
  const TestMatrix matrix(format(), 100, inputs(), Weights::kUsual, random);
  for (const int row_count : {1, 2, 3, 4, 5}) {
    const TestRows rows(row_count, inputs(), random);
    for (const KernelSet* set : ordered_sets()) {
      const std::vector<float> want = twin_all(set->arithmetic, matrix, rows);
      for (const size_t several_groups_from : {size_t{0}, SIZE_MAX}) {
        const ScopedProductTuning tuning(
            {.prefetch_bytes = 0, .prefetch_bytes_k = 512, .several_groups_from = several_groups_from});
        EXPECT_TRUE(equal_bits(multiply_all(set->products, matrix.view(), rows), want)) << to_string(set->isa);
        std::vector<float> pieces(want.size(), 0.0f);
        multiply_into(set->products, matrix.view(), rows, {.group_begin = 0, .group_end = 1}, pieces);
        multiply_into(set->products, matrix.view(), rows, {.group_begin = 1, .group_end = 7}, pieces);
        EXPECT_TRUE(equal_bits(pieces, want)) << to_string(set->isa);
      }
    }
  }
}

// A row alone, at any place of a tile and with any neighbours, has the same bits.
TEST_P(ProductsTest, RowsDoNotDependOnTheirCall) {
  ProductRandom random(6);
  const TestMatrix matrix(format(), 24, inputs(), Weights::kUsual, random);
  const TestRows rows(41, inputs(), random);
  for (const KernelSet* set : ordered_sets()) {
    const std::vector<float> whole = multiply_all(set->products, matrix.view(), rows);
    for (const std::vector<int>& cuts : {std::vector{0, 1, 41}, {0, 5, 12, 13, 30, 41}, {0, 16, 20, 37, 41}}) {
      std::vector<float> pieces(whole.size(), 0.0f);
      for (size_t i = 0; i + 1 < cuts.size(); ++i)
        multiply_into(set->products, matrix.view(), rows, {.first_row = cuts[i], .rows = cuts[i + 1] - cuts[i]}, pieces);
      EXPECT_TRUE(equal_bits(pieces, whole)) << to_string(set->isa);
    }
  }
}

TEST_P(ProductsTest, GroupsSplitAndAddEqualsOneAddition) {
  ProductRandom random(7);
  const TestMatrix matrix(format(), 77, inputs(), Weights::kUsual, random);
  const TestRows rows(9, inputs(), random);
  for (const KernelSet* set : available_kernel_sets()) {
    const std::vector<float> product = multiply_all(set->products, matrix.view(), rows);
    std::vector<float> start(product.size());
    for (float& value : start) value = random.next();
    std::vector<float> got = start;
    multiply_into(set->products, matrix.view(), rows, {.group_begin = 2, .group_end = 4, .store = Store::kAdd}, got);
    multiply_into(set->products, matrix.view(), rows, {.group_begin = 4, .group_end = 5, .store = Store::kAdd}, got);
    multiply_into(set->products, matrix.view(), rows, {.group_begin = 0, .group_end = 2, .store = Store::kAdd}, got);
    std::vector<float> want;
    for (size_t i = 0; i < product.size(); ++i) want.push_back(start[i] + product[i]);
    EXPECT_TRUE(equal_bits(got, want)) << to_string(set->isa);
  }
}

TEST_P(ProductsTest, OutputsBeyondTheLastAndBetweenRowsStayUntouched) {
  ProductRandom random(8);
  const TestMatrix matrix(format(), 21, inputs(), Weights::kUsual, random);
  const TestRows rows(6, inputs(), random);
  for (const KernelSet* set : available_kernel_sets()) {
    AlignedBytes quantized(reads_quantized(format()) ? quantized_bytes(6, inputs()) : 64);
    if (reads_quantized(format())) set->products.quantize(rows.row(0), rows.stride, 6, inputs(), 0, 1, quantized.data());
    const Activations x{rows.row(0), rows.stride, quantized.data(), 6, inputs()};
    std::vector<float> out(6 * 30, 5.0f);
    set->products.multiply(matrix.view(), x, 0, 2, Store::kSet, out.data(), 30);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i] == 5.0f, i % 30 >= 21) << to_string(set->isa) << " at " << i;
  }
}

// The largest sums of integers, the smallest and largest scales.
TEST_P(ProductsTest, ExtremesEqualTheTwin) {
  for (const Weights kind :
       {Weights::kLowestCodes, Weights::kHighestCodes, Weights::kSubnormalScales, Weights::kHugeScales, Weights::kZeroScales}) {
    ProductRandom random(9);
    const TestMatrix matrix(format(), 16, inputs(), kind, random);
    TestRows rows(7, inputs(), random);
    for (int k = 0; k < inputs(); ++k) {
      rows.values[static_cast<size_t>(k)] = 3.0f;                                               // all codes 127
      rows.values[static_cast<size_t>(rows.stride + k)] = -3.0f;                                // all codes -127
      rows.values[static_cast<size_t>(2 * rows.stride + k)] = k % 2 == 0 ? 2.5e35f : -2.5e35f;  // near the end of f32
      rows.values[static_cast<size_t>(3 * rows.stride + k)] = 0x1p-140f;                        // subnormal
      rows.values[static_cast<size_t>(4 * rows.stride + k)] = k / 32 % 2 == 0 ? 0x1p-100f : 0x1.fp-101f;
    }
    for (const KernelSet* set : ordered_sets()) {
      EXPECT_TRUE(equal_bits(multiply_all(set->products, matrix.view(), rows), twin_all(set->arithmetic, matrix, rows)))
          << to_string(set->isa) << ", weights " << static_cast<int>(kind);
    }
  }
}

TEST_P(ProductsTest, WhatIsNotFiniteBecomesNaNInItsRowAlone) {
  ProductRandom random(10);
  const TestMatrix matrix(format(), 16, inputs(), Weights::kUsual, random);
  TestRows rows(4, inputs(), random);
  rows.values[static_cast<size_t>(rows.stride + 40)] = std::numeric_limits<float>::quiet_NaN();
  rows.values[static_cast<size_t>(2 * rows.stride + 3)] = -std::numeric_limits<float>::infinity();
  for (const KernelSet* set : ordered_sets()) {
    const std::vector<float> got = multiply_all(set->products, matrix.view(), rows);
    for (size_t o = 0; o < 16; ++o) {
      EXPECT_TRUE(std::isfinite(got[o]) && std::isfinite(got[48 + o]));
      EXPECT_TRUE(std::isnan(got[16 + o]));
      EXPECT_FALSE(std::isfinite(got[32 + o]));
    }
    EXPECT_TRUE(equal_bits(got, twin_all(set->arithmetic, matrix, rows))) << to_string(set->isa);
  }
}

TEST_P(ProductsTest, TheReferenceIsTheExactProductRounded) {
  ProductRandom random(11);
  const TestMatrix matrix(format(), 33, inputs(), Weights::kUsual, random);
  const TestRows rows(70, inputs(), random);
  const std::vector<float> got = multiply_all(kernel_set(Isa::kReference)->products, matrix.view(), rows);
  for (int r = 0; r < rows.rows; ++r) {
    for (int o = 0; o < 33; ++o) {
      double exact = 0;
      double magnitude = 0;
      for (int k = 0; k < inputs(); ++k) {
        const double product = static_cast<double>(twin::dequantized(matrix.twin(o), static_cast<size_t>(k))) * rows.row(r)[k];
        exact += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(got[static_cast<size_t>(r * 33 + o)], exact, 4e-6 * magnitude + 1e-30);
    }
  }
}

// The fast sets differ from it by the rounding of activations: each by at most half of 1/127 of its block's largest.
TEST_P(ProductsTest, FastSetsAreNearTheReference) {
  ProductRandom random(12);
  const TestMatrix matrix(format(), 32, inputs(), Weights::kUsual, random);
  const TestRows rows(5, inputs(), random);
  const std::vector<float> exact = multiply_all(kernel_set(Isa::kReference)->products, matrix.view(), rows);
  for (const KernelSet* set : ordered_sets()) {
    const std::vector<float> got = multiply_all(set->products, matrix.view(), rows);
    for (int r = 0; r < rows.rows; ++r) {
      for (int o = 0; o < 32; ++o) {
        double bound = 1e-5;
        for (int k = 0; k < inputs(); ++k) {
          const float* block = rows.row(r) + k / 32 * 32;
          const float* end = rows.row(r) + std::min(k / 32 * 32 + 32, inputs());
          const float amax = std::fabs(*std::max_element(block, end, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
          bound += std::fabs(twin::dequantized(matrix.twin(o), static_cast<size_t>(k))) * amax * 0.5001 / 127;
        }
        const size_t i = static_cast<size_t>(r * 32 + o);
        ASSERT_NEAR(got[i], exact[i], bound) << to_string(set->isa);
      }
    }
  }
}

uint64_t hash_of(const std::vector<float>& numbers) { return hash64(std::as_bytes(std::span(numbers))); }

// The bits themselves: a change of the order of operations shows here even when twin and kernels change together. When one is
// meant, kArithmeticVersion and docs/arithmetic.md change with these numbers.
TEST(ProductsBits, EqualTheCommittedOnes) {
  struct Expected {
    WeightFormat format;
    uint64_t fused;
    uint64_t separate;
  };
  const Expected expected[] = {
      {WeightFormat::kF32, 0xb0d92af333789186u, 0x1be36702aedb5bau},
      {WeightFormat::kF16, 0x87a8ce904abb7afu, 0xe37c8f8b017a8c18u},
      {WeightFormat::kBF16, 0x36c16ee52886903bu, 0x869b0b15dcd7a25du},
      {WeightFormat::kQ4_0, 0x1df4e9340cbc18cbu, 0x66eb5a7d682d3356u},
      {WeightFormat::kQ4_1, 0xf2080c4044639c8u, 0x91dd84d4d78d05u},
      {WeightFormat::kQ5_0, 0xb8132fa8811180f9u, 0x834a23e82baf5c4cu},
      {WeightFormat::kQ8_0, 0xddf2821aeba38b2cu, 0xdbcc2fdd4fe26669u},
      {WeightFormat::kQ4_K, 0xb5a97e2c8d2eaa44u, 0xc5fca40a85dbd857u},
      {WeightFormat::kQ5_K, 0xf3e4ff0bc7acb464u, 0x9ec3c1883311f1bbu},
      {WeightFormat::kQ6_K, 0x171e1446205aa8bcu, 0xb8454d3bca732f68u},
  };
  for (const Expected& e : expected) {
    ProductRandom random(2024);
    const TestMatrix matrix(e.format, 48, 512, Weights::kUsual, random);
    const TestRows rows(19, 512, random);
    for (const KernelSet* set : ordered_sets()) {
      const uint64_t want = set->arithmetic == Arithmetic::kFused ? e.fused : e.separate;
      EXPECT_EQ(hash_of(multiply_all(set->products, matrix.view(), rows)), want)
          << to_string(e.format) << ", " << to_string(set->isa);
    }
  }
}

class QuantizeTest : public testing::Test {
 protected:
  static const layout::ActivationBlock& block_at(const AlignedBytes& quantized, int rows, int blocks, int row, int block) {
    const int tile = row / kRowTile * kRowTile;
    const int tile_rows = std::min(kRowTile, rows - tile);
    return reinterpret_cast<const layout::ActivationBlock*>(quantized.data())[tile * blocks + block * tile_rows + row - tile];
  }

  static void expect_twin(const AlignedBytes& quantized, const TestRows& x) {
    const int blocks = x.inputs / 32;
    for (int r = 0; r < x.rows; ++r) {
      const twin::ActivationRow want = twin::read_activations(x.row(r), x.inputs);
      for (int b = 0; b < blocks; ++b) {
        const layout::ActivationBlock& got = block_at(quantized, x.rows, blocks, r, b);
        int sums[2] = {};
        for (int i = 0; i < 32; ++i) {
          ASSERT_EQ(got.q[i], want.q[static_cast<size_t>(32 * b + i)]) << "row " << r << ", block " << b << ", input " << i;
          sums[i / 16] += got.q[i];
        }
        const int sum = sums[0] + sums[1];
        const float scale = want.scale[static_cast<size_t>(b)];
        ASSERT_TRUE(equal_bits({got.scale, got.scaled_sum}, {scale, scale * static_cast<float>(sum)}));
        ASSERT_EQ(got.start_8, -8 * sum);
        ASSERT_EQ(got.start_16, -16 * sum);
        ASSERT_EQ(got.start_128, -128 * sum);
        ASSERT_EQ(got.start_32[0], -32 * sums[0]);
        ASSERT_EQ(got.start_32[1], -32 * sums[1]);
      }
    }
  }
};

TEST_F(QuantizeTest, EveryTileEqualsTheTwin) {
  ProductRandom random(13);
  for (const int rows : {1, 15, 16, 17, 40}) {
    const TestRows x(rows, 160, random);
    for (const KernelSet* set : ordered_sets()) {
      AlignedBytes quantized(quantized_bytes(rows, 160));
      for (int tile = (rows + kRowTile - 1) / kRowTile; tile-- > 0;)
        set->products.quantize(x.row(0), x.stride, rows, 160, tile, tile + 1, quantized.data());
      expect_twin(quantized, x);
    }
  }
}

// Halves are the numbers where rounding to even shows: with amax 127 the scale is 1 and x its own code.
TEST_F(QuantizeTest, RoundsHalvesToEven) {
  ProductRandom random(14);
  TestRows x(2, 32, random);
  for (int i = 0; i < 32; ++i) {
    x.values[static_cast<size_t>(i)] = static_cast<float>(i) - 15.5f;
    x.values[static_cast<size_t>(x.stride + i)] = std::nextafter(static_cast<float>(i) - 15.5f, i % 2 == 0 ? 100.0f : -100.0f);
  }
  x.values[0] = 127.0f;
  x.values[static_cast<size_t>(x.stride)] = -127.0f;
  for (const KernelSet* set : ordered_sets()) {
    AlignedBytes quantized(quantized_bytes(2, 32));
    set->products.quantize(x.row(0), x.stride, 2, 32, 0, 1, quantized.data());
    expect_twin(quantized, x);
    EXPECT_EQ(block_at(quantized, 2, 1, 0, 0).q[1], -14);  // -14.5
    EXPECT_EQ(block_at(quantized, 2, 1, 0, 0).q[2], -14);  // -13.5
    EXPECT_EQ(block_at(quantized, 2, 1, 0, 0).q[15], 0);   // -0.5
  }
}

TEST_F(QuantizeTest, ExtremesEqualTheTwin) {
  ProductRandom random(15);
  TestRows x(8, 32, random);
  const float factors[8] = {0.0f, 0x1p-149f, 0x1p-101f, 0x1p-99f, 0x1p126f, std::numeric_limits<float>::max(), 1.0f, 1.0f};
  for (int r = 0; r < 8; ++r) {
    for (int i = 0; i < 32; ++i) x.values[static_cast<size_t>(r * x.stride + i)] *= factors[r];
  }
  x.values[static_cast<size_t>(6 * x.stride + 31)] = std::numeric_limits<float>::infinity();
  x.values[static_cast<size_t>(7 * x.stride)] = -std::numeric_limits<float>::quiet_NaN();
  for (const KernelSet* set : ordered_sets()) {
    AlignedBytes quantized(quantized_bytes(8, 32));
    set->products.quantize(x.row(0), x.stride, 8, 32, 0, 1, quantized.data());
    expect_twin(quantized, x);
  }
}

}  // namespace
}  // namespace quire::kernels
