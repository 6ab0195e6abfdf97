// A part of a text.
#pragma once

#include <cstddef>

namespace quire {

// The bytes [begin, end).
struct TextRange {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const TextRange&, const TextRange&) = default;
};

}  // namespace quire
