#include "gguf/dequantize.h"

#include <fmt/format.h>

#include "base/check.h"
#include "gguf/bytes.h"
#include "gguf/half.h"

namespace quire::gguf {
namespace {

float half_at(const std::byte* at) { return half_to_float(load<uint16_t>(at)); }

// Weight i of the 32 that 16 bytes hold: low nibbles first.
int nibble(const std::byte* nibbles, int i) {
  const auto byte = static_cast<uint8_t>(nibbles[i % 16]);
  return i < 16 ? byte & 15 : byte >> 4;
}

// The functions below each read one block.

void read_f32(const std::byte* block, float* out) { *out = load<float>(block); }

void read_f16(const std::byte* block, float* out) { *out = half_at(block); }

void read_bf16(const std::byte* block, float* out) { *out = bfloat16_to_float(load<uint16_t>(block)); }

void read_q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 2, i) - 8);
}

void read_q4_1(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

void read_q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  const auto fifth_bits = load<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) {
    const int q = nibble(block + 6, i) | static_cast<int>(fifth_bits >> i & 1) << 4;
    out[i] = d * static_cast<float>(q - 16);
  }
}

void read_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

struct ScaleAndMin {
  int scale;
  int min;
};

// Sub-block `i` of 8. The 12 bytes hold six bits each of the scales 0..3, then of the mins 0..3; their upper two bits belong to
// the scales and mins 4..7, whose lower four share the last four bytes.
ScaleAndMin packed_scale(const std::byte* packed, int i) {
  const auto byte = [packed](int at) { return static_cast<int>(packed[at]); };
  if (i < 4) return {byte(i) & 63, byte(i + 4) & 63};
  return {(byte(i + 4) & 15) | (byte(i - 4) >> 6 << 4), byte(i + 4) >> 4 | byte(i) >> 6 << 4};
}

// Q4_K and Q5_K: 8 sub-blocks of 32; each pair shares 32 bytes, the first takes the low nibbles, the second the high ones.
// fifth_bits: 32 bytes, byte l holds bit i for weight l of sub-block i; null where there is none.
void read_k_block(const std::byte* block, const std::byte* fifth_bits, const std::byte* nibbles, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int i = 0; i < 8; ++i) {
    const auto [scale, min] = packed_scale(block + 4, i);
    const float sub_d = d * static_cast<float>(scale);
    const float sub_min = dmin * static_cast<float>(min);
    for (int l = 0; l < 32; ++l) {
      const int byte = static_cast<int>(nibbles[i / 2 * 32 + l]);
      int q = i % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth_bits) q |= (static_cast<int>(fifth_bits[l]) >> i & 1) << 4;
      out[i * 32 + l] = sub_d * static_cast<float>(q) - sub_min;
    }
  }
}

void read_q4_k(const std::byte* block, float* out) { read_k_block(block, nullptr, block + 16, out); }

void read_q5_k(const std::byte* block, float* out) { read_k_block(block, block + 16, block + 48, out); }

// Two halves of 128 weights. In each, four groups of 32: groups 0 and 1 are the low nibbles of 64 bytes, 2 and 3 the high ones;
// group g takes bits 2g and 2g+1 of 32 bytes. A scale for every 16 weights.
void read_q6_k(const std::byte* block, float* out) {
  const std::byte* scales = block + 192;
  const float d = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int group = i % 128 / 32;
    const int l = i % 32;
    const int low = static_cast<int>(block[half * 64 + group % 2 * 32 + l]) >> group / 2 * 4 & 15;
    const int high = static_cast<int>(block[128 + half * 32 + l]) >> group * 2 & 3;
    const float sub_d = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = sub_d * static_cast<float>((low | high << 4) - 32);
  }
}

using ReadBlock = void (*)(const std::byte* block, float* out);

ReadBlock reader_of(TensorType type) {
  switch (type) {
    case TensorType::kF32: return read_f32;
    case TensorType::kF16: return read_f16;
    case TensorType::kBF16: return read_bf16;
    case TensorType::kQ4_0: return read_q4_0;
    case TensorType::kQ4_1: return read_q4_1;
    case TensorType::kQ5_0: return read_q5_0;
    case TensorType::kQ8_0: return read_q8_0;
    case TensorType::kQ4_K: return read_q4_k;
    case TensorType::kQ5_K: return read_q5_k;
    case TensorType::kQ6_K: return read_q6_k;
  }
  check_failed(__FILE__, __LINE__, "a TensorType holds one of its enumerators");
}

}  // namespace

void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> out) {
  const auto elements = static_cast<int64_t>(out.size());
  QUIRE_CHECK(static_cast<int64_t>(row.size()) == row_bytes(type, elements),
              fmt::format("{} bytes for {} weights in {}", row.size(), elements, to_string(type)));
  const ReadBlock read_block = reader_of(type);
  const int64_t blocks = elements / block_elements(type);
  for (int64_t i = 0; i < blocks; ++i) {
    read_block(row.data() + i * block_bytes(type), out.data() + i * block_elements(type));
  }
}

}  // namespace quire::gguf
