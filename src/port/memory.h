// Large private memory for what lives as long as the program, such as packed weights.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"

namespace quire::port {

// Zeroed memory, backed when first touched, on huge pages where the system has them (a third of the page faults' cost and fewer TLB
// misses), kept out of core dumps. Begins at a multiple of 2 MiB. Freed by the destructor.
class AnonymousMemory {
 public:
  // `bytes` > 0. An error gives the numbers.
  [[nodiscard]] static Result<AnonymousMemory> allocate(Bytes bytes);

  AnonymousMemory() = default;
  AnonymousMemory(AnonymousMemory&& other) noexcept;
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept;
  ~AnonymousMemory();

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit AnonymousMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace quire::port
