// Fast, non-cryptographic hashes (XXH3). Equal bytes give equal hashes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

[[nodiscard]] uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);

// Feeds pieces one after the other; the result equals hash64 of their concatenation.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  [[nodiscard]] uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace quire
