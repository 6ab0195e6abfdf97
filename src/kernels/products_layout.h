// The packed form of weights and the quantized form of activations, byte by byte. Little-endian; offsets in bytes.
//
// Weights. A group holds 16 outputs, the lanes of its vectors. Its inputs follow in units, ascending; the groups of a matrix follow
// each other, so products read one sequential stream. Every unit begins 64-byte aligned, its scales before its codes.
//
// A quad is four consecutive inputs; a 32-input block has quads 0 to 7. A vector of 64 bytes holds one quad of all outputs: byte
// 4 * lane + i is input i of the quad. Codes are unsigned (an offset format's code is the file's number plus the offset):
//
//   nibbles   4 vectors; of vector v the low halves are the low 4 bits of quad v, the high halves those of quad v + 4
//   plane 1   1 vector; bit j of a byte is bit 4 of quad j's code
//   plane 2   2 vectors; of vector v bits 2i and 2i + 1 of a byte are bits 4 and 5 of the code of quad 4v + i
//   bytes     8 vectors; vector j is quad j
//
// Formats without codes (F32, F16, BF16) have units of one input: 16 values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels::layout {

inline constexpr int kBlockInputs = 32;  // inputs that share an activation's scale
inline constexpr int kQuads = 8;         // quads of a block
inline constexpr size_t kVector = 64;    // one quad of 16 outputs
inline constexpr size_t kHalves = 32;    // 16 numbers of 2 bytes, one an output
inline constexpr size_t kNibbles = 4 * kVector;

struct Q4_0 {
  static constexpr int kUnitBlocks = 2;
  static constexpr size_t kScales = 0;  // f16 d[2][16]
  static constexpr size_t kCodes = 64;  // nibbles[2]
  static constexpr size_t kBlockBytes = kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q4_1 {
  static constexpr int kUnitBlocks = 2;
  static constexpr size_t kScales = 0;  // f16 d[2][16]
  static constexpr size_t kMins = 64;   // f16 m[2][16]
  static constexpr size_t kCodes = 128;
  static constexpr size_t kBlockBytes = kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q5_0 {
  static constexpr int kUnitBlocks = 2;
  static constexpr size_t kScales = 0;  // f16 d[2][16]
  static constexpr size_t kCodes = 64;  // { plane 1, nibbles }[2]
  static constexpr size_t kBlockBytes = kVector + kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q8_0 {
  static constexpr int kUnitBlocks = 2;
  static constexpr size_t kScales = 0;  // f16 d[2][16]
  static constexpr size_t kCodes = 64;  // bytes[2]
  static constexpr size_t kBlockBytes = kQuads * kVector;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q4_K {
  static constexpr int kUnitBlocks = 8;
  static constexpr size_t kBlockScales = 0;  // u8 sc[8][16]
  static constexpr size_t kBlockMins = 128;  // u8 mn[8][16]
  static constexpr size_t kScale = 256;      // f16 d[16]
  static constexpr size_t kMin = 288;        // f16 [16]: -dmin, so that w = d * sc * q + (-dmin) * mn
  static constexpr size_t kCodes = 320;      // nibbles[8]
  static constexpr size_t kBlockBytes = kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q5_K {
  static constexpr int kUnitBlocks = 8;
  static constexpr size_t kBlockScales = Q4_K::kBlockScales;
  static constexpr size_t kBlockMins = Q4_K::kBlockMins;
  static constexpr size_t kScale = Q4_K::kScale;
  static constexpr size_t kMin = Q4_K::kMin;
  static constexpr size_t kCodes = 320;  // { plane 1, nibbles }[8]
  static constexpr size_t kBlockBytes = kVector + kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

struct Q6_K {
  static constexpr int kUnitBlocks = 8;
  static constexpr size_t kBlockScales = 0;  // i8 sc[8][2][16]: two sub-blocks of 16 inputs a block
  static constexpr size_t kScale = 256;      // f16 d[16], then 32 unused bytes
  static constexpr size_t kCodes = 320;      // { plane 2, nibbles }[8]
  static constexpr size_t kBlockBytes = 2 * kVector + kNibbles;
  static constexpr size_t kUnitBytes = kCodes + kUnitBlocks * kBlockBytes;
};

// One activation row's block of 32 inputs. The rows of a tile are stored block by block: [block][rows of the tile]; a tile follows
// the other. An offset format's dot product of codes starts at `start`, which takes the offset back out: sum (c - offset) * q =
// sum c * q - offset * sum q.
struct alignas(64) ActivationBlock {
  int8_t q[kBlockInputs];
  float scale;          // x = scale * q
  float scaled_sum;     // scale * sum q
  int32_t start_8;      // -8 * sum q
  int32_t start_16;     // -16 * sum q
  int32_t start_128;    // -128 * sum q
  int32_t start_32[2];  // -32 * sum q of the first and the last 16 inputs
  int32_t unused;
};
static_assert(sizeof(ActivationBlock) == 64);

// A block whose largest |x| is smaller counts as zero: 127 / amax stays finite.
inline constexpr float kSmallestAmax = 0x1p-100f;

}  // namespace quire::kernels::layout
