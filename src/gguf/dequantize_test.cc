#include "gguf/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gguf/half.h"
#include "tests/support/quantize.h"
#include "tests/support/random.h"

namespace quire::gguf {
namespace {

using test_support::quantize;
using ::testing::HasSubstr;

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a half by its definition.
double half_by_definition(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, AllValuesAreExactAndComeBack) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = half_to_float(static_cast<uint16_t>(half));
    if ((half & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (half & 1023) != 0) << half;
      EXPECT_EQ(std::isinf(value), (half & 1023) == 0) << half;
      if (std::isnan(value)) continue;
    } else {
      ASSERT_EQ(value, half_by_definition(static_cast<uint16_t>(half))) << half;
      ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
    }
    ASSERT_EQ(float_to_half(value), half);
  }
}

TEST(Half, RoundsToNearestEven) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float low = half_to_float(static_cast<uint16_t>(half));
    const float high = half_to_float(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;  // exact
    ASSERT_EQ(float_to_half(middle), half % 2 == 0 ? half : half + 1) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(float_to_half(-std::nextafter(middle, 1e9f)), (half + 1) | 0x8000) << half;
  }
  EXPECT_EQ(float_to_half(65519.9f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(1e30f), 0x7c00);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Bfloat16, RoundsToNearestEven) {
  for (uint32_t value = 0; value < 0x7f80; ++value) {
    const float low = bfloat16_to_float(static_cast<uint16_t>(value));
    ASSERT_EQ(float_to_bfloat16(low), value);
    const float middle = std::bit_cast<float>(bits_of(low) | 0x8000u);
    ASSERT_EQ(float_to_bfloat16(middle), value % 2 == 0 ? value : value + 1);
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

class Formats : public ::testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(Dequantize, Formats, ::testing::ValuesIn(all_tensor_types().begin(), all_tensor_types().end()),
                         [](const auto& format) { return std::string(to_string(format.param)); });

// The largest error of a weight, relative to the largest weight of its block.
double tolerated(TensorType type) {
  switch (type) {
    case TensorType::kF32: return 0;
    case TensorType::kF16: return 0x1p-11;
    case TensorType::kBF16: return 0x1p-8;
    case TensorType::kQ8_0: return 0.0045;
    case TensorType::kQ6_K: return 0.04;
    case TensorType::kQ5_0: return 0.07;
    case TensorType::kQ5_K: return 0.07;
    default: return 0.14;
  }
}

TEST_P(Formats, QuantizedWeightsComeBack) {
  const TensorType type = GetParam();
  test_support::Random random(7);
  std::vector<float> weights(1024);
  for (float& weight : weights) weight = random.normal();
  // Blocks of one value, of zeros and of different magnitudes.
  std::fill_n(weights.begin(), 256, 0.0f);
  std::fill_n(weights.begin() + 256, 32, 0.75f);
  for (int i = 512; i < 768; ++i) weights[i] *= 1e-3f;
  const auto encoded = quantize(type, weights);
  ASSERT_EQ(static_cast<int64_t>(encoded.size()), row_bytes(type, 1024));
  std::vector<float> back(weights.size());
  dequantize_row(type, encoded, back);
  const float subnormal = type == TensorType::kF16 ? 0x1p-25f : 0.0f;  // half the step of a half's subnormals
  const auto block = static_cast<size_t>(block_elements(type));
  for (size_t i = 0; i < weights.size(); ++i) {
    float largest = 0;
    for (size_t k = i / block * block; k < (i / block + 1) * block; ++k) largest = std::max(largest, std::fabs(weights[k]));
    ASSERT_LE(std::fabs(back[i] - weights[i]), tolerated(type) * largest + subnormal) << i << ": " << weights[i];
  }
}

// No bit of a block is ignored.
TEST_P(Formats, EveryBitCounts) {
  const TensorType type = GetParam();
  const auto elements = static_cast<size_t>(block_elements(type));
  std::vector<float> base(elements);
  std::vector<float> changed(elements);
  std::vector<std::byte> block(static_cast<size_t>(block_bytes(type)), std::byte{0x35});
  dequantize_row(type, block, base);
  size_t seen = 0;
  for (size_t bit = 0; bit < 8 * block.size(); ++bit) {
    auto flipped = block;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    dequantize_row(type, flipped, changed);
    seen += std::memcmp(base.data(), changed.data(), 4 * elements) != 0 ? 1 : 0;
  }
  EXPECT_EQ(seen, 8 * block.size());
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Dequantize, Q4BlocksByHand) {
  auto block = bytes_of({0x00, 0x38});  // d = 0.5
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i | (15 - i) << 4));
  std::vector<float> out(32);
  dequantize_row(TensorType::kQ4_0, block, out);
  EXPECT_EQ(out[0], -4.0f);
  EXPECT_EQ(out[15], 3.5f);
  EXPECT_EQ(out[16], 3.5f);
  EXPECT_EQ(out[31], -4.0f);
  block.insert(block.begin() + 2, {std::byte{0x00}, std::byte{0x3c}});  // m = 1
  dequantize_row(TensorType::kQ4_1, block, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 1.5f);
  EXPECT_EQ(out[16], 8.5f);
}

TEST(Dequantize, Q5And8BlocksByHand) {
  auto block = bytes_of({0x00, 0x3c, 0x01, 0x00, 0x00, 0x80});  // d = 1, fifth bits of weights 0 and 31
  block.resize(22);
  block[6] = std::byte{0x02};
  std::vector<float> out(32);
  dequantize_row(TensorType::kQ5_0, block, out);
  EXPECT_EQ(out[0], 2.0f);
  EXPECT_EQ(out[1], -16.0f);
  EXPECT_EQ(out[31], 0.0f);
  auto eight = bytes_of({0x00, 0x3c, 0x80, 0x7f});
  eight.resize(34);
  dequantize_row(TensorType::kQ8_0, eight, out);
  EXPECT_EQ(out[0], -128.0f);
  EXPECT_EQ(out[1], 127.0f);
}

TEST(Dequantize, ScalesOfKBlocksByHand) {
  const int scales[8] = {1, 2, 3, 63, 5, 33, 17, 62};
  const int mins[8] = {63, 0, 9, 8, 48, 15, 16, 31};
  std::vector<std::byte> block(176);
  block[1] = block[3] = std::byte{0x3c};  // d = dmin = 1
  test_support::pack_scales_and_mins(scales, mins, block.data() + 4);
  for (size_t i = 16; i < block.size(); ++i) block[i] = std::byte{0x11};  // Q4_K: every q is 1
  std::vector<float> out(256);
  dequantize_row(TensorType::kQ4_K, std::span(block).first(144), out);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(out[i], static_cast<float>(scales[i / 32] - mins[i / 32])) << i;
  // Q5_K: fifth bits of sub-blocks 0 and 4.
  dequantize_row(TensorType::kQ5_K, block, out);
  for (int i = 0; i < 256; ++i) {
    const int q = i / 32 % 4 == 0 ? 17 : 1;
    ASSERT_EQ(out[i], static_cast<float>(scales[i / 32] * q - mins[i / 32])) << i;
  }
}

TEST(Dequantize, Q6BlocksByHand) {
  std::vector<std::byte> block(210);
  block[209] = std::byte{0x3c};  // d = 1
  for (int i = 0; i < 16; ++i) block[192 + i] = static_cast<std::byte>(i - 8);
  // Weight 200 lies in the second half, group 2 (high nibbles of the first 32 bytes), place 8; q = 0b101101.
  block[64 + 8] = std::byte{0xd0};
  block[128 + 32 + 8] = std::byte{0x20};
  std::vector<float> out(256);
  dequantize_row(TensorType::kQ6_K, block, out);
  EXPECT_EQ(out[200], static_cast<float>(12 - 8) * (0b101101 - 32));
  EXPECT_EQ(out[0], -8.0f * -32);
  EXPECT_EQ(out[136], 0.0f);
  EXPECT_EQ(out[255], 7.0f * -32);
}

TEST(TensorTypes, NamesAndSizes) {
  for (const TensorType type : all_tensor_types()) {
    EXPECT_EQ(tensor_type_from_name(to_string(type)), type);
    EXPECT_EQ(tensor_type_from_value(static_cast<uint32_t>(type)), type);
    EXPECT_EQ(tensor_type_value_name(static_cast<uint32_t>(type)), to_string(type));
  }
  EXPECT_EQ(tensor_type_from_name("IQ4_XS"), std::nullopt);
  EXPECT_EQ(tensor_type_from_value(23), std::nullopt);
  EXPECT_EQ(tensor_type_value_name(39), "MXFP4");
  EXPECT_EQ(tensor_type_value_name(4000000000), "4000000000 (unknown)");
  EXPECT_EQ(bits_per_weight(TensorType::kQ4_K), 4.5);
  EXPECT_EQ(bits_per_weight(TensorType::kQ6_K), 6.5625);
  EXPECT_EQ(row_bytes(TensorType::kQ5_K, 512), 352);
}

}  // namespace
}  // namespace quire::gguf
