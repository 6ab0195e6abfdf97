// Damaged files: every truncation and every flipped bit of a header is refused or gives a file that can be read, and no refusal
// costs more memory than the file justifies. This program counts what it allocates.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>

#include "gguf/gguf.h"
#include "tests/support/gguf_visit.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/random.h"
#include "tests/support/tiny_models.h"

namespace {
std::atomic<size_t> allocated_bytes = 0;  // in all, freed or not
}  // namespace

// Not inlined, because compilers take the malloc and free inside for mismatched pairs with new and delete.
[[gnu::noinline]] void* operator new(size_t size) {
  allocated_bytes += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace quire::gguf {
namespace {

using test_support::GgufWriter;

// Parses a copy of exactly these bytes, so that a sanitizer sees a read beyond them. True when they were accepted.
bool parse_damaged(std::span<const std::byte> bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const size_t before = allocated_bytes;
  const auto file = File::parse({copy.get(), bytes.size()});
  const size_t allocated = allocated_bytes - before;
  EXPECT_LE(allocated, 8 * bytes.size() + 4096);
  if (file) test_support::visit_everything(*file);
  return file.ok();
}

std::vector<std::byte> small_file(uint32_t version) {
  GgufWriter writer(version, 16);
  writer.add("general.architecture", "llama");
  writer.add("number", uint32_t{3});
  writer.add("real", 2.5f);
  writer.add("truth", true);
  writer.add("strings", std::vector<std::string>{"ab", "c"});
  writer.add("numbers", std::vector<int32_t>{1, -2});
  writer.add("nested", std::vector<std::vector<uint8_t>>{{1}, {2, 3}});
  writer.add_tensor("norm", TensorType::kF32, {4}, std::vector<std::byte>(16));
  writer.add_tensor("matrix", TensorType::kQ4_0, {32, 2}, std::vector<std::byte>(36));
  writer.add_tensor("k", TensorType::kQ6_K, {256}, std::vector<std::byte>(210));
  return writer.bytes();
}

size_t header_size(std::span<const std::byte> bytes) { return File::parse(bytes)->data_offset(); }

TEST(GgufDamage, EveryTruncationIsRefused) {
  for (const uint32_t version : {2u, 3u}) {
    const auto bytes = small_file(version);
    // The data of the last tensor ends before the padding of the file does.
    const size_t end = File::parse(bytes)->tensors().back().offset + 210;
    for (size_t length = 0; length < end; ++length) {
      EXPECT_FALSE(parse_damaged(std::span(bytes).first(length))) << length << " bytes";
    }
    EXPECT_TRUE(parse_damaged(std::span(bytes).first(end)));
  }
}

TEST(GgufDamage, EveryFlippedBitOfAHeaderIsSurvived) {
  const auto whole = small_file(3);
  size_t refused = 0;
  const size_t bits = 8 * header_size(whole);
  for (size_t bit = 0; bit < bits; ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    refused += parse_damaged(bytes) ? 0 : 1;
  }
  // Flips in names and values go unseen; those in lengths, counts, types, sizes and offsets do not.
  EXPECT_GT(refused, bits / 2);
  EXPECT_LT(refused, bits);
}

TEST(GgufDamage, OverwrittenNumbersAreSurvived) {
  const auto whole = small_file(3);
  const size_t header = header_size(whole);
  const uint64_t values[] = {0,         1, 0x7fffffff, 0xffffffff, uint64_t{1} << 32, uint64_t{1} << 60, INT64_MAX, UINT64_MAX - 31,
                             UINT64_MAX};
  for (size_t at = 4; at + 8 <= header; ++at) {
    for (const uint64_t value : values) {
      auto bytes = whole;
      std::memcpy(bytes.data() + at, &value, 8);
      parse_damaged(bytes);
    }
  }
}

// A real file's header, or a tiny model's where it is not there: truncated and damaged at places drawn at random.
std::vector<std::byte> real_header() {
  std::ifstream file(QUIRE_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf", std::ios::binary);
  if (!file) return test_support::tiny_llama_model();
  std::vector<std::byte> header(4 << 20);
  file.read(reinterpret_cast<char*>(header.data()), static_cast<std::streamsize>(header.size()));
  return header;
}

TEST(GgufDamage, TruncatedRealHeadersAreRefused) {
  const auto bytes = real_header();
  test_support::Random random(1);
  for (int i = 0; i < 60; ++i) {
    const size_t most = i % 2 == 0 ? bytes.size() - 1 : 4000;
    EXPECT_FALSE(parse_damaged(std::span(bytes).first(random.below(static_cast<uint32_t>(most)))));
  }
}

TEST(GgufDamage, DamagedRealHeadersAreSurvived) {
  auto bytes = test_support::tiny_gemma3_model();
  const size_t header = header_size(bytes);
  test_support::Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const size_t at = random.below(static_cast<uint32_t>(header));
    const std::byte before = bytes[at];
    bytes[at] = static_cast<std::byte>(random.next());
    const auto file = File::parse(bytes);
    if (file) test_support::visit_everything(*file);
    bytes[at] = before;
  }
}

TEST(GgufDamage, ManyEntriesCostInProportion) {
  GgufWriter writer;
  for (int i = 0; i < 20000; ++i) writer.add(std::to_string(i), uint8_t{1});
  for (int i = 0; i < 20000; ++i) writer.declare_tensor(std::to_string(i), TensorType::kF32, {1}, 4);
  EXPECT_TRUE(parse_damaged(writer.bytes()));
}

}  // namespace
}  // namespace quire::gguf
