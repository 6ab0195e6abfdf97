// Reads everything that a parsed GGUF file offers, so that sanitizers see any view that leaves the bytes.
#pragma once

#include <cstdint>

#include "gguf/gguf.h"

namespace quire::test_support {

// Every metadata value by every accessor and, of every tensor, the first and last byte and the dequantized first row (rows of at
// most 65,536 weights). The sum of what was read, so that nothing is optimized away.
uint64_t visit_everything(const gguf::File& file);

}  // namespace quire::test_support
