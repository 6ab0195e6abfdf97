// From the file's blocks to the packed form and back.
//
// Both directions work on quads: four codes in one 32-bit word, the first in its lowest byte. The file's formats keep four
// consecutive codes in four consecutive bytes, so a quad is a word of the file, shifted and masked.
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/half.h"
#include "kernels/products.h"
#include "kernels/products_decode.h"
#include "kernels/products_layout.h"

namespace quire::kernels {
namespace {

using layout::kHalves;
using layout::kQuads;
using layout::kVector;

constexpr uint32_t kLowNibbles = 0x0f0f0f0f;

uint32_t load_u32(const std::byte* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

uint16_t load_u16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void copy_half(const std::byte* file, std::byte* halves, int lane) { std::memcpy(halves + 2 * lane, file, 2); }

float half_at(const std::byte* halves, int lane) { return half_to_float(load_u16(halves + 2 * lane)); }

// The word of an output in a vector.
std::byte* word(std::byte* vectors, int vector, int lane) { return vectors + vector * kVector + 4 * lane; }
const std::byte* word(const std::byte* vectors, int vector, int lane) { return vectors + vector * kVector + 4 * lane; }

void store_word(uint32_t value, std::byte* vectors, int vector, int lane) {
  std::memcpy(word(vectors, vector, lane), &value, sizeof(value));
}

// Codes of a block, as quads.
struct Codes {
  uint32_t quad[kQuads];
};

void store_nibbles(const Codes& codes, std::byte* nibbles, int lane) {
  for (int v = 0; v < 4; ++v)
    store_word((codes.quad[v] & kLowNibbles) | ((codes.quad[v + 4] & kLowNibbles) << 4), nibbles, v, lane);
}

Codes load_nibbles(const std::byte* nibbles, int lane) {
  Codes codes;
  for (int v = 0; v < 4; ++v) {
    const uint32_t both = load_u32(word(nibbles, v, lane));
    codes.quad[v] = both & kLowNibbles;
    codes.quad[v + 4] = (both >> 4) & kLowNibbles;
  }
  return codes;
}

void store_plane_1(const Codes& codes, std::byte* plane, int lane) {
  uint32_t bits = 0;
  for (int j = 0; j < kQuads; ++j) bits |= ((codes.quad[j] >> 4) & 0x01010101u) << j;
  store_word(bits, plane, 0, lane);
}

void add_plane_1(const std::byte* plane, int lane, Codes& codes) {
  const uint32_t bits = load_u32(word(plane, 0, lane));
  for (int j = 0; j < kQuads; ++j) codes.quad[j] |= ((bits >> j) & 0x01010101u) << 4;
}

void store_plane_2(const Codes& codes, std::byte* planes, int lane) {
  for (int v = 0; v < 2; ++v) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= ((codes.quad[4 * v + i] >> 4) & 0x03030303u) << (2 * i);
    store_word(bits, planes, v, lane);
  }
}

void add_plane_2(const std::byte* planes, int lane, Codes& codes) {
  for (int j = 0; j < kQuads; ++j) codes.quad[j] |= ((load_u32(word(planes, j / 4, lane)) >> (2 * (j % 4))) & 0x03030303u) << 4;
}

// The nibbles of the 32-weight formats: low halves are weights 0 to 15, high halves 16 to 31.
Codes file_nibbles(const std::byte* file) {
  Codes codes;
  for (int v = 0; v < 4; ++v) {
    const uint32_t both = load_u32(file + 4 * v);
    codes.quad[v] = both & kLowNibbles;
    codes.quad[v + 4] = (both >> 4) & kLowNibbles;
  }
  return codes;
}

// How a block of 32 weights becomes floats: scale[i / 16] * (code - offset), or scale[i / 16] * code + min.
struct Decoded {
  Codes codes;
  float scale[2];
  int offset = 0;
  bool has_min = false;
  float min = 0;
};

// A format: Layout, kFileBlock (bytes of the file for one block), kBlocks (32-weight blocks in it), pack (one file block of one
// output into the unit; `first` is the index in the unit of its first 32-weight block), decode (one 32-weight block of one output).
struct Q4_0 : layout::Q4_0 {
  static constexpr size_t kFileBlock = 18;
  static constexpr int kBlocks = 1;
  static void pack(const std::byte* file, int lane, int first, std::byte* unit) {
    copy_half(file, unit + kScales + first * kHalves, lane);
    store_nibbles(file_nibbles(file + 2), unit + kCodes + first * kBlockBytes, lane);
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    const float d = half_at(unit + kScales + block * kHalves, lane);
    return {.codes = load_nibbles(unit + kCodes + block * kBlockBytes, lane), .scale = {d, d}, .offset = 8};
  }
};

struct Q4_1 : layout::Q4_1 {
  static constexpr size_t kFileBlock = 20;
  static constexpr int kBlocks = 1;
  static void pack(const std::byte* file, int lane, int first, std::byte* unit) {
    copy_half(file, unit + kScales + first * kHalves, lane);
    copy_half(file + 2, unit + kMins + first * kHalves, lane);
    store_nibbles(file_nibbles(file + 4), unit + kCodes + first * kBlockBytes, lane);
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    const float d = half_at(unit + kScales + block * kHalves, lane);
    const float m = half_at(unit + kMins + block * kHalves, lane);
    return {.codes = load_nibbles(unit + kCodes + block * kBlockBytes, lane), .scale = {d, d}, .has_min = true, .min = m};
  }
};

struct Q5_0 : layout::Q5_0 {
  static constexpr size_t kFileBlock = 22;
  static constexpr int kBlocks = 1;
  static void pack(const std::byte* file, int lane, int first, std::byte* unit) {
    copy_half(file, unit + kScales + first * kHalves, lane);
    Codes codes = file_nibbles(file + 6);
    const uint32_t fifth = load_u32(file + 2);
    // Four bits to the lowest bits of four bytes: the product puts bit i of the factor at bit 8i, among others that are masked off.
    for (int j = 0; j < kQuads; ++j) codes.quad[j] |= ((((fifth >> (4 * j)) & 15u) * 0x00204081u) & 0x01010101u) << 4;
    std::byte* block = unit + kCodes + first * kBlockBytes;
    store_plane_1(codes, block, lane);
    store_nibbles(codes, block + kVector, lane);
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    const float d = half_at(unit + kScales + block * kHalves, lane);
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    Decoded out{.codes = load_nibbles(codes + kVector, lane), .scale = {d, d}, .offset = 16};
    add_plane_1(codes, lane, out.codes);
    return out;
  }
};

struct Q8_0 : layout::Q8_0 {
  static constexpr size_t kFileBlock = 34;
  static constexpr int kBlocks = 1;
  static void pack(const std::byte* file, int lane, int first, std::byte* unit) {
    copy_half(file, unit + kScales + first * kHalves, lane);
    std::byte* codes = unit + kCodes + first * kBlockBytes;
    for (int j = 0; j < kQuads; ++j) store_word(load_u32(file + 2 + 4 * j) ^ 0x80808080u, codes, j, lane);
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    const float d = half_at(unit + kScales + block * kHalves, lane);
    Decoded out{.codes = {}, .scale = {d, d}, .offset = 128};
    for (int j = 0; j < kQuads; ++j) out.codes.quad[j] = load_u32(word(unit + kCodes + block * kBlockBytes, j, lane));
    return out;
  }
};

// Q4_K and Q5_K: f16 d, f16 dmin, 12 bytes with the 6-bit scales and mins of 8 blocks.
template <typename Layout>
void pack_scales_and_mins(const std::byte* file, int lane, std::byte* unit) {
  copy_half(file, unit + Layout::kScale, lane);
  const uint16_t negated = load_u16(file + 2) ^ 0x8000u;
  std::memcpy(unit + Layout::kMin + 2 * lane, &negated, sizeof(negated));
  uint8_t bits[12];
  std::memcpy(bits, file + 4, sizeof(bits));
  for (int b = 0; b < 8; ++b) {
    const int low = b < 4 ? bits[b] & 63 : (bits[b + 4] & 15) | ((bits[b - 4] >> 6) << 4);
    const int min = b < 4 ? bits[b + 4] & 63 : (bits[b + 4] >> 4) | ((bits[b] >> 6) << 4);
    unit[Layout::kBlockScales + 16 * b + lane] = static_cast<std::byte>(low);
    unit[Layout::kBlockMins + 16 * b + lane] = static_cast<std::byte>(min);
  }
}

template <typename Layout>
Decoded decode_scale_and_min(const std::byte* unit, int block, int lane) {
  const float d = half_at(unit + Layout::kScale, lane) * std::to_integer<int>(unit[Layout::kBlockScales + 16 * block + lane]);
  const float m = half_at(unit + Layout::kMin, lane) * std::to_integer<int>(unit[Layout::kBlockMins + 16 * block + lane]);
  return {.codes = {}, .scale = {d, d}, .has_min = true, .min = m};
}

// Block b of the K formats' nibbles: 32 bytes hold two blocks, the first in the low halves.
Codes file_k_nibbles(const std::byte* file, int block) {
  Codes codes;
  for (int j = 0; j < kQuads; ++j) codes.quad[j] = (load_u32(file + 32 * (block / 2) + 4 * j) >> (4 * (block % 2))) & kLowNibbles;
  return codes;
}

struct Q4_K : layout::Q4_K {
  static constexpr size_t kFileBlock = 144;
  static constexpr int kBlocks = 8;
  static void pack(const std::byte* file, int lane, int /*first*/, std::byte* unit) {
    pack_scales_and_mins<layout::Q4_K>(file, lane, unit);
    for (int b = 0; b < kBlocks; ++b) store_nibbles(file_k_nibbles(file + 16, b), unit + kCodes + b * kBlockBytes, lane);
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    Decoded out = decode_scale_and_min<layout::Q4_K>(unit, block, lane);
    out.codes = load_nibbles(unit + kCodes + block * kBlockBytes, lane);
    return out;
  }
};

struct Q5_K : layout::Q5_K {
  static constexpr size_t kFileBlock = 176;
  static constexpr int kBlocks = 8;
  static void pack(const std::byte* file, int lane, int /*first*/, std::byte* unit) {
    pack_scales_and_mins<layout::Q5_K>(file, lane, unit);
    for (int b = 0; b < kBlocks; ++b) {
      Codes codes = file_k_nibbles(file + 48, b);
      for (int j = 0; j < kQuads; ++j) codes.quad[j] |= ((load_u32(file + 16 + 4 * j) >> b) & 0x01010101u) << 4;
      std::byte* block = unit + kCodes + b * kBlockBytes;
      store_plane_1(codes, block, lane);
      store_nibbles(codes, block + kVector, lane);
    }
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    Decoded out = decode_scale_and_min<layout::Q5_K>(unit, block, lane);
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    out.codes = load_nibbles(codes + kVector, lane);
    add_plane_1(codes, lane, out.codes);
    return out;
  }
};

struct Q6_K : layout::Q6_K {
  static constexpr size_t kFileBlock = 210;
  static constexpr int kBlocks = 8;
  // Of each half (128 weights): 64 bytes of low nibbles, two blocks in the low halves, then two in the high ones; 32 bytes with the
  // high bits of four blocks.
  static Codes file_codes(const std::byte* file, int block) {
    const int half = block / 4;
    const int quarter = block % 4;
    const std::byte* low = file + 64 * half + 32 * (quarter % 2);
    const std::byte* high = file + 128 + 32 * half;
    Codes codes;
    for (int j = 0; j < kQuads; ++j)
      codes.quad[j] = ((load_u32(low + 4 * j) >> (4 * (quarter / 2))) & kLowNibbles) |
                      (((load_u32(high + 4 * j) >> (2 * quarter)) & 0x03030303u) << 4);
    return codes;
  }
  static void pack(const std::byte* file, int lane, int /*first*/, std::byte* unit) {
    copy_half(file + 208, unit + kScale, lane);
    for (int s = 0; s < 16; ++s) unit[kBlockScales + 16 * s + lane] = file[192 + s];
    for (int b = 0; b < kBlocks; ++b) {
      const Codes codes = file_codes(file, b);
      std::byte* block = unit + kCodes + b * kBlockBytes;
      store_plane_2(codes, block, lane);
      store_nibbles(codes, block + 2 * kVector, lane);
    }
  }
  static Decoded decode(const std::byte* unit, int block, int lane) {
    const float d = half_at(unit + kScale, lane);
    const std::byte* codes = unit + kCodes + block * kBlockBytes;
    Decoded out{.codes = load_nibbles(codes + 2 * kVector, lane), .scale = {}, .offset = 32};
    add_plane_2(codes, lane, out.codes);
    for (int s = 0; s < 2; ++s)
      out.scale[s] = d * static_cast<int8_t>(std::to_integer<uint8_t>(unit[kBlockScales + 32 * block + 16 * s + lane]));
    return out;
  }
};

template <typename Format>
void pack_quantized_output(const std::byte* row, int inputs, int lane, std::byte* group) {
  const int file_blocks = inputs / (Format::kBlocks * layout::kBlockInputs);
  for (int i = 0; i < file_blocks; ++i) {
    const int block = i * Format::kBlocks;
    Format::pack(row + i * Format::kFileBlock, lane, block % Format::kUnitBlocks,
                 group + block / Format::kUnitBlocks * Format::kUnitBytes);
  }
}

template <size_t kBytes>
void pack_float_output(const std::byte* row, int inputs, int lane, std::byte* group) {
  for (int k = 0; k < inputs; ++k) std::memcpy(group + (k * kGroupOutputs + lane) * kBytes, row + k * kBytes, kBytes);
}

void pack_output(WeightFormat format, const std::byte* row, int inputs, int lane, std::byte* group) {
  switch (format) {
    case WeightFormat::kF32: return pack_float_output<4>(row, inputs, lane, group);
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return pack_float_output<2>(row, inputs, lane, group);
    case WeightFormat::kQ4_0: return pack_quantized_output<Q4_0>(row, inputs, lane, group);
    case WeightFormat::kQ4_1: return pack_quantized_output<Q4_1>(row, inputs, lane, group);
    case WeightFormat::kQ5_0: return pack_quantized_output<Q5_0>(row, inputs, lane, group);
    case WeightFormat::kQ8_0: return pack_quantized_output<Q8_0>(row, inputs, lane, group);
    case WeightFormat::kQ4_K: return pack_quantized_output<Q4_K>(row, inputs, lane, group);
    case WeightFormat::kQ5_K: return pack_quantized_output<Q5_K>(row, inputs, lane, group);
    case WeightFormat::kQ6_K: return pack_quantized_output<Q6_K>(row, inputs, lane, group);
  }
}

template <typename Format>
void decode_quantized(const std::byte* group, int lane, int begin, int count, float* out) {
  const int block = begin / layout::kBlockInputs;
  const int first = begin % layout::kBlockInputs;
  const Decoded decoded =
      Format::decode(group + block / Format::kUnitBlocks * Format::kUnitBytes, block % Format::kUnitBlocks, lane);
  uint8_t codes[layout::kBlockInputs];
  std::memcpy(codes, decoded.codes.quad, sizeof(codes));
  for (int i = 0; i < count; ++i) {
    const float scaled = decoded.scale[(first + i) / 16] * static_cast<float>(codes[first + i] - decoded.offset);
    out[i] = decoded.has_min ? scaled + decoded.min : scaled;
  }
}

void decode_f32(const std::byte* group, int lane, int begin, int count, float* out) {
  for (int i = 0; i < count; ++i) std::memcpy(out + i, group + 4 * ((begin + i) * kGroupOutputs + lane), 4);
}

void decode_f16(const std::byte* group, int lane, int begin, int count, float* out) {
  for (int i = 0; i < count; ++i) out[i] = half_at(group + 2 * ((begin + i) * kGroupOutputs), lane);
}

void decode_bf16(const std::byte* group, int lane, int begin, int count, float* out) {
  for (int i = 0; i < count; ++i) {
    const uint32_t bits = load_u16(group + 2 * ((begin + i) * kGroupOutputs + lane));
    out[i] = std::bit_cast<float>(bits << 16);
  }
}

}  // namespace

void pack_groups(WeightFormat format, const std::byte* rows, int outputs, int inputs, int group_begin, int group_end,
                 std::byte* packed) {
  const size_t row_bytes = file_row_bytes(format, inputs);
  const size_t bytes = group_bytes(format, inputs);
  QUIRE_CHECK(group_begin >= 0 && group_end * static_cast<int64_t>(kGroupOutputs) < outputs + static_cast<int64_t>(kGroupOutputs));
  for (int g = group_begin; g < group_end; ++g) {
    std::byte* group = packed + g * bytes;
    std::memset(group, 0, bytes);
    for (int lane = 0; lane < kGroupOutputs && g * kGroupOutputs + lane < outputs; ++lane)
      pack_output(format, rows + (g * static_cast<size_t>(kGroupOutputs) + lane) * row_bytes, inputs, lane, group);
  }
}

void decode_weights(WeightFormat format, const std::byte* group, int lane, int begin, int count, float* out) {
  switch (format) {
    case WeightFormat::kF32: return decode_f32(group, lane, begin, count, out);
    case WeightFormat::kF16: return decode_f16(group, lane, begin, count, out);
    case WeightFormat::kBF16: return decode_bf16(group, lane, begin, count, out);
    case WeightFormat::kQ4_0: return decode_quantized<Q4_0>(group, lane, begin, count, out);
    case WeightFormat::kQ4_1: return decode_quantized<Q4_1>(group, lane, begin, count, out);
    case WeightFormat::kQ5_0: return decode_quantized<Q5_0>(group, lane, begin, count, out);
    case WeightFormat::kQ8_0: return decode_quantized<Q8_0>(group, lane, begin, count, out);
    case WeightFormat::kQ4_K: return decode_quantized<Q4_K>(group, lane, begin, count, out);
    case WeightFormat::kQ5_K: return decode_quantized<Q5_K>(group, lane, begin, count, out);
    case WeightFormat::kQ6_K: return decode_quantized<Q6_K>(group, lane, begin, count, out);
  }
}

}  // namespace quire::kernels
