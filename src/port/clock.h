// The only clocks of Quire. One measures spans of time (how long did this step take); policies count steps instead, so that they
// can be tested and replayed. The other is the calendar, for people and chat templates.
#pragma once

#include <cstdint>
#include <ctime>

namespace quire::port {

// Nanoseconds since an arbitrary moment; never goes backwards.
[[nodiscard]] int64_t monotonic_ns();

// The same in seconds.
[[nodiscard]] double monotonic_seconds();

// Date and time of day in this machine's time zone.
[[nodiscard]] std::tm local_time();

// Seconds since the beginning of 1970, UTC.
[[nodiscard]] int64_t unix_seconds();

}  // namespace quire::port
