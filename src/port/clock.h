// The only clock of Quire. It measures spans of time (how long did this step take); policies count steps instead, so that they can
// be tested and replayed.
#pragma once

#include <cstdint>

namespace quire::port {

// Nanoseconds since an arbitrary moment; never goes backwards.
[[nodiscard]] int64_t monotonic_ns();

// The same in seconds.
[[nodiscard]] double monotonic_seconds();

}  // namespace quire::port
