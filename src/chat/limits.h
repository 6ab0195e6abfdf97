// Bounds on what a chat template may cost. Templates and conversations are untrusted: every loop, copy and recursion of the
// interpreter is charged to one of these. With the default depth, compiling and rendering fit a stack of 1 MiB (8 MiB under
// sanitizers).
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::chat {

struct Limits {
  // One for every expression and statement that is evaluated, every list element, and every 16 bytes of text that an operation
  // reads or writes.
  int64_t work = 20'000'000;
  // Bytes of values alive at once, the conversation's copy included.
  int64_t memory_bytes = int64_t{256} << 20;
  // Bytes of text written and not yet dropped: the result and the captured texts of macros, calls and set blocks under way.
  int64_t output_bytes = int64_t{32} << 20;
  // Nested evaluations: expressions within expressions, blocks within blocks, macros calling macros.
  int depth = 600;
};

// Bounds on a template's text, held while it is compiled.
inline constexpr size_t kMaxSourceBytes = size_t{1} << 20;
inline constexpr int kMaxNesting = 200;       // blocks and brackets open at once; height of an expression
inline constexpr int kMaxValueDepth = 100;    // lists and dicts within lists and dicts, in templates and in conversations
inline constexpr int64_t kMaxRange = 100000;  // elements of range(), as in Jinja's sandbox

}  // namespace quire::chat
