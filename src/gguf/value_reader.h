// Reads metadata values of untrusted bytes. Internal to gguf/.
#pragma once

#include "gguf/bytes.h"
#include "gguf/gguf.h"

namespace quire::gguf {

// Bytes of a scalar of that type; 0 for strings and arrays.
[[nodiscard]] size_t scalar_bytes(ValueType type);

// The little-endian number in `size` bytes, zero-extended.
[[nodiscard]] uint64_t load_bits(const std::byte* at, size_t size);

// The element type, count and elements at the cursor, all checked; `depth` is how many arrays this one lies in, plus 1.
[[nodiscard]] Result<Array> read_array(Cursor& cursor, int depth);

// The type and value at the cursor, checked.
[[nodiscard]] Result<Value> read_value(Cursor& cursor);

// The error for bytes that end inside `what`.
[[nodiscard]] Error cut_short(const Cursor& cursor, std::string_view what);

}  // namespace quire::gguf
