#include "port/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace quire::port {
namespace {

TEST(AnonymousMemory, IsZeroedAlignedAndWritableToItsLastByte) {
  for (const int64_t size : {int64_t{1}, int64_t{4096}, (int64_t{2} << 20) - 1, int64_t{2} << 20, (int64_t{5} << 20) + 7}) {
    Result<AnonymousMemory> memory = AnonymousMemory::allocate(Bytes(size));
    ASSERT_TRUE(memory.ok());
    const std::span<std::byte> bytes = memory->bytes();
    ASSERT_EQ(bytes.size(), static_cast<size_t>(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % (2 << 20), 0U);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(bytes.data(), 0x5A, bytes.size());
    EXPECT_EQ(bytes.back(), std::byte{0x5A});
  }
}

TEST(AnonymousMemory, MovesItsBytes) {
  AnonymousMemory a = std::move(AnonymousMemory::allocate(Bytes(100))).value();
  const std::byte* place = a.bytes().data();
  AnonymousMemory b = std::move(a);
  EXPECT_EQ(b.bytes().data(), place);
  EXPECT_TRUE(a.bytes().empty());
  a = std::move(b);
  EXPECT_EQ(a.bytes().data(), place);
  EXPECT_TRUE(AnonymousMemory().bytes().empty());
}

TEST(AnonymousMemory, WhatCannotBeHadIsAnErrorWithTheNumber) {
  const Result<AnonymousMemory> memory = AnonymousMemory::allocate(Bytes(int64_t{1} << 60));
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(memory.error().message, ::testing::HasSubstr(format_bytes(Bytes(int64_t{1} << 60))));
  EXPECT_FALSE(AnonymousMemory::allocate(Bytes(INT64_MAX)).ok());
}

}  // namespace
}  // namespace quire::port
