#include "base/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace quire {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Hash, DoesNotDependOnHowTheBytesArrive) {
  Hasher hasher;
  hasher.add(bytes_of("virtually "));
  hasher.add(bytes_of(""));
  hasher.add(bytes_of("contiguous"));
  EXPECT_EQ(hasher.digest(), hash64(bytes_of("virtually contiguous")));
}

TEST(Hash, DependsOnSeedAndBytes) {
  EXPECT_NE(hash64(bytes_of("a")), hash64(bytes_of("b")));
  EXPECT_NE(hash64(bytes_of("a"), 1), hash64(bytes_of("a"), 2));
}

}  // namespace
}  // namespace quire
