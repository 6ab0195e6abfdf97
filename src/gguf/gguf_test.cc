#include "gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/gguf_visit.h"
#include "tests/support/gguf_writer.h"

namespace quire::gguf {
namespace {

using test_support::GgufWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::byte> zeros(size_t count) { return std::vector<std::byte>(count); }

// The error of bytes that must be refused.
Error refusal(const std::vector<std::byte>& bytes) {
  const auto file = File::parse(bytes);
  if (file.ok()) {
    ADD_FAILURE() << "parsed";
    return make_error(ErrorCode::kIo, "");
  }
  return file.error();
}

void expect_refused(const GgufWriter& writer, ErrorCode code, const std::string& part_of_message) {
  const Error error = refusal(writer.bytes());
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_THAT(error.message, HasSubstr(part_of_message));
}

GgufWriter all_value_types(uint32_t version) {
  GgufWriter writer(version);
  writer.add("u8", uint8_t{200});
  writer.add("i8", int8_t{-100});
  writer.add("u16", uint16_t{60000});
  writer.add("i16", int16_t{-30000});
  writer.add("u32", uint32_t{4000000000});
  writer.add("i32", int32_t{-2000000000});
  writer.add("u64", std::numeric_limits<uint64_t>::max());
  writer.add("i64", std::numeric_limits<int64_t>::min());
  writer.add("f32", 1.5f);
  writer.add("f64", 1e300);
  writer.add("yes", true);
  writer.add("no", false);
  writer.add("text", "gr\u00fc\u00df");
  writer.add("empty", "");
  writer.add("strings", std::vector<std::string>{"a", "", "long \u2581 string"});
  writer.add("numbers", std::vector<int16_t>{-3, 0, 7});
  writer.add("reals", std::vector<float>{0.25f, -2.0f});
  writer.add("bools", std::vector<bool>{true, false, true});
  writer.add("nothing", std::vector<uint64_t>{});
  writer.add("nested", std::vector<std::vector<uint8_t>>{{1, 2}, {}, {3}});
  return writer;
}

class Versions : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Gguf, Versions, ::testing::Values(2u, 3u));

TEST_P(Versions, ReadsScalarsOfAllTypes) {
  const auto bytes = all_value_types(GetParam()).bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), GetParam());
  EXPECT_EQ(*file->get_u64("u8"), 200u);
  EXPECT_EQ(*file->get_i64("i8"), -100);
  EXPECT_EQ(*file->get_u64("u16"), 60000u);
  EXPECT_EQ(*file->get_i64("i16"), -30000);
  EXPECT_EQ(*file->get_u64("u32"), 4000000000u);
  EXPECT_EQ(*file->get_i64("u32"), 4000000000);
  EXPECT_EQ(*file->get_i64("i32"), -2000000000);
  EXPECT_EQ(*file->get_u64("u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*file->get_i64("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*file->get_f64("f32"), 1.5);
  EXPECT_EQ(*file->get_f64("f64"), 1e300);
  EXPECT_TRUE(*file->get_bool("yes"));
  EXPECT_FALSE(*file->get_bool("no"));
  EXPECT_EQ(*file->get_string("text"), "gr\u00fc\u00df");
  EXPECT_EQ(*file->get_string("empty"), "");
}

TEST_P(Versions, ReadsArrays) {
  const auto bytes = all_value_types(GetParam()).bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_THAT(*file->get_strings("strings"), ElementsAre("a", "", "long \u2581 string"));
  EXPECT_THAT(*file->get_integers("numbers"), ElementsAre(-3, 0, 7));
  EXPECT_THAT(*file->get_floats("reals"), ElementsAre(0.25, -2.0));
  EXPECT_THAT(*file->get_bools("bools"), ElementsAre(true, false, true));
  EXPECT_THAT(*file->get_integers("nothing"), SizeIs(0));
  const auto nested = file->get_array("nested")->arrays();
  ASSERT_TRUE(nested.ok());
  ASSERT_THAT(*nested, SizeIs(3));
  EXPECT_THAT(*(*nested)[0].integers(), ElementsAre(1, 2));
  EXPECT_THAT(*(*nested)[1].integers(), SizeIs(0));
  EXPECT_THAT(*(*nested)[2].integers(), ElementsAre(3));
}

TEST(Gguf, KeepsTheOrderOfMetadataAndTensors) {
  GgufWriter writer;
  writer.add("z", uint32_t{1});
  writer.add("a", uint32_t{2});
  writer.add_tensor("second", TensorType::kF32, {1}, zeros(4));
  writer.add_tensor("first", TensorType::kF32, {1}, zeros(4));
  const auto bytes = writer.bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata()[0].key, "z");
  EXPECT_EQ(file->metadata()[1].key, "a");
  EXPECT_EQ(file->tensors()[0].name, "second");
  EXPECT_EQ(file->find_tensor("first"), &file->tensors()[1]);
  EXPECT_EQ(file->find_tensor("third"), nullptr);
  EXPECT_EQ(file->find("b"), nullptr);
  EXPECT_EQ(file->get_tensor("third").error().message, "tensor third is missing");
}

TEST(Gguf, TypeErrorsNameKeyAndTypes) {
  const auto bytes = all_value_types(3).bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->get_u64("text").error().message, "metadata key text: expected an unsigned integer, found string");
  EXPECT_EQ(file->get_u64("i8").error().message, "metadata key i8: expected an unsigned integer, found -100 (int8)");
  EXPECT_THAT(file->get_i64("u64").error().message, HasSubstr("found 18446744073709551615 (uint64)"));
  EXPECT_EQ(file->get_f64("u8").error().message, "metadata key u8: expected a float, found uint8");
  EXPECT_EQ(file->get_bool("u8").error().message, "metadata key u8: expected a bool, found uint8");
  EXPECT_EQ(file->get_string("strings").error().message, "metadata key strings: expected a string, found array");
  EXPECT_EQ(file->get_strings("numbers").error().message,
            "metadata key numbers: expected an array of strings, found an array of int16");
  EXPECT_EQ(file->get_strings("text").error().message, "metadata key text: expected an array, found string");
  EXPECT_EQ(file->get_u64("absent").error().message, "metadata key absent is missing");
  EXPECT_EQ(file->get_u64("absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(*file->get_u64_or("absent", 7), 7u);
  EXPECT_FALSE(file->get_u64_or("text", 7).ok());
}

TEST(Gguf, TensorsHaveTheirShapeAndData) {
  GgufWriter writer(3, 64);
  std::vector<std::byte> data(3 * 18 * 2);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  writer.add_tensor("one", TensorType::kF16, {5}, zeros(10));
  writer.add_tensor("two", TensorType::kQ4_0, {64, 3}, data);
  const auto bytes = writer.bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(file->data_offset() % 64, 0u);
  const auto tensor = file->get_tensor("two");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->type, TensorType::kQ4_0);
  EXPECT_EQ(tensor->dimensions, 2);
  EXPECT_THAT(tensor->dims, ElementsAre(64, 3, 1, 1));
  EXPECT_EQ(tensor->offset, file->data_offset() + 64);
  EXPECT_TRUE(std::ranges::equal(tensor->data, data));
  EXPECT_EQ(tensor->row(2).front(), data[2 * 36]);
  EXPECT_EQ(tensor->row(2).size(), 36u);
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  EXPECT_THAT(refusal({}).message, HasSubstr("no GGUF file"));
  EXPECT_THAT(refusal(zeros(100)).message, HasSubstr("no GGUF file"));
  auto bytes = GgufWriter(1).bytes();
  EXPECT_THAT(refusal(bytes).message, HasSubstr("GGUF version 1 is not supported"));
  EXPECT_THAT(refusal(GgufWriter(4).bytes()).message, HasSubstr("GGUF version 4 is not supported (Quire reads versions 2 and 3)"));
  EXPECT_THAT(refusal(GgufWriter(0).bytes()).message, HasSubstr("GGUF version 0"));
  EXPECT_THAT(refusal(GgufWriter(0x03000000).bytes()).message, HasSubstr("big-endian"));
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  const auto with_counts = [](uint64_t tensors, uint64_t entries) {
    auto bytes = GgufWriter().bytes();
    std::memcpy(bytes.data() + 8, &tensors, 8);
    std::memcpy(bytes.data() + 16, &entries, 8);
    return bytes;
  };
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_THAT(refusal(with_counts(count, 0)).message, HasSubstr("more than a file of"));
    EXPECT_THAT(refusal(with_counts(0, count)).message, HasSubstr("more than a file of"));
    EXPECT_THAT(refusal(with_counts(count, count)).message, HasSubstr("more than a file of"));
  }
}

TEST(Gguf, RefusesLengthsThatTheFileCannotHold) {
  for (const uint64_t length : {uint64_t{9}, uint64_t{1} << 30, uint64_t{1} << 62, ~uint64_t{0}}) {
    test_support::ByteWriter text;
    text.put(length);
    text.put_bytes(zeros(8));
    GgufWriter string;
    string.add_encoded("k", ValueType::kString, text.bytes());
    auto bytes = string.bytes();
    bytes.resize(24 + 9 + 4 + 16);  // without the padding, which would lend bytes to the string
    const Error error = refusal(bytes);
    EXPECT_THAT(error.message, HasSubstr("metadata key k: the file of"));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  }
  for (const auto type : {ValueType::kUint8, ValueType::kFloat64, ValueType::kString, ValueType::kArray}) {
    for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 30, (uint64_t{1} << 61) + 1, ~uint64_t{0}}) {
      test_support::ByteWriter array;
      array.put(static_cast<uint32_t>(type));
      array.put(count);
      GgufWriter writer;
      writer.add_encoded("k", ValueType::kArray, array.bytes());
      expect_refused(writer, ErrorCode::kCorrupt, "metadata key k: the file of");
    }
  }
}

TEST(Gguf, RefusesUnknownValueTypesAndBools) {
  GgufWriter unknown;
  unknown.add_encoded("k", static_cast<ValueType>(13), zeros(8));
  expect_refused(unknown, ErrorCode::kCorrupt, "metadata key k: unknown value type 13");
  GgufWriter boolean;
  boolean.add_encoded("k", ValueType::kBool, std::vector<std::byte>{std::byte{2}});
  expect_refused(boolean, ErrorCode::kCorrupt, "metadata key k: a bool is 2");
}

TEST(Gguf, BoundsTheDepthOfArrays) {
  GgufWriter deep;
  deep.add("k", std::vector<std::vector<std::vector<std::vector<uint8_t>>>>{{{{1}}}});
  const auto bytes = deep.bytes();
  EXPECT_TRUE(File::parse(bytes).ok());
  GgufWriter deeper;
  deeper.add("k", std::vector<std::vector<std::vector<std::vector<std::vector<uint8_t>>>>>{{{{{1}}}}});
  expect_refused(deeper, ErrorCode::kUnsupported, "nested more than 4 deep");
}

TEST(Gguf, RefusesDuplicatesAndBadNames) {
  GgufWriter keys;
  keys.add("same", uint32_t{1});
  keys.add("other", uint32_t{1});
  keys.add("same", uint32_t{2});
  expect_refused(keys, ErrorCode::kCorrupt, "metadata key same is there twice");
  GgufWriter tensors;
  tensors.add_tensor("same", TensorType::kF32, {1}, zeros(4));
  tensors.add_tensor("same", TensorType::kF32, {1}, zeros(4));
  expect_refused(tensors, ErrorCode::kCorrupt, "tensor same is there twice");
  GgufWriter empty;
  empty.add("", uint32_t{1});
  expect_refused(empty, ErrorCode::kCorrupt, "the key of metadata entry 0 has 0 bytes");
  GgufWriter unprintable;
  unprintable.add_raw_tensor("a\nb\x1b[31m", {1}, 99, 0);
  expect_refused(unprintable, ErrorCode::kUnsupported, "tensor a\\x0ab\\x1b[31m: its type 99 (unknown) is not supported");
}

TEST(Gguf, RefusesBadAlignment) {
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    GgufWriter writer;
    writer.add("general.alignment", alignment);
    expect_refused(writer, ErrorCode::kCorrupt, "metadata key general.alignment");
  }
  GgufWriter text;
  text.add("general.alignment", "32");
  expect_refused(text, ErrorCode::kCorrupt, "metadata key general.alignment: expected an unsigned integer, found string");
}

TEST(Gguf, RefusesSplitFiles) {
  GgufWriter part;
  part.add("split.count", uint16_t{3});
  expect_refused(part, ErrorCode::kUnsupported, "one of the 3 parts of a split model");
  GgufWriter whole;
  whole.add("split.count", uint16_t{1});
  const auto bytes = whole.bytes();
  EXPECT_TRUE(File::parse(bytes).ok());
}

TEST(Gguf, NamesUnsupportedTensorTypes) {
  GgufWriter writer;
  writer.add_raw_tensor("blk.0.ffn_up.weight", {256}, 23, 0);
  expect_refused(
      writer, ErrorCode::kUnsupported,
      "tensor blk.0.ffn_up.weight: its type IQ4_XS is not supported (supported: F32, F16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, "
      "Q6_K, BF16)");
}

struct BadShape {
  std::vector<uint64_t> dims;
  TensorType type;
  uint64_t offset;
  std::string message;
};

TEST(Gguf, RefusesBadShapesAndOffsets) {
  const uint64_t huge = uint64_t{1} << 62;
  const std::vector<BadShape> cases = {
      {{}, TensorType::kF32, 0, "it has 0 dimensions"},
      {{1, 1, 1, 1, 1}, TensorType::kF32, 0, "it has 5 dimensions"},
      {{4, 0}, TensorType::kF32, 0, "dimension 1 is 0"},
      {{0}, TensorType::kF32, 0, "dimension 0 is 0"},
      {{1, 1, 1, 0}, TensorType::kF32, 0, "dimension 3 is 0"},
      {{~uint64_t{0}}, TensorType::kF32, 0, "dimension 0 is 18446744073709551615"},
      {{100}, TensorType::kQ4_K, 0, "its rows have 100 elements, which is no multiple of the 256 that a block of Q4_K holds"},
      {{16}, TensorType::kQ8_0, 0, "no multiple of the 32"},
      {{(uint64_t{1} << 42) + 1, (uint64_t{1} << 42) + 1}, TensorType::kF32, 0, "beyond any file"},
      {{(uint64_t{1} << 32) + 1, uint64_t{1} << 32}, TensorType::kF16, 0, "beyond any file"},
      {{uint64_t{1} << 31, uint64_t{1} << 30}, TensorType::kF16, 0, "its data ends at byte"},
      {{huge}, TensorType::kF16, 0, "beyond any file"},
      {{8}, TensorType::kF32, 16, "its offset 16 is no multiple of the alignment 32"},
      {{8}, TensorType::kF32, ~uint64_t{31}, "beyond any file"},
      {{8}, TensorType::kF32, huge, "its data ends at byte"},
      {{8}, TensorType::kF32, 64, "its data ends at byte"},
  };
  for (const BadShape& bad : cases) {
    GgufWriter writer;
    writer.add_raw_tensor("t", bad.dims, static_cast<uint32_t>(bad.type), bad.offset);
    writer.declare_tensor("u", TensorType::kF32, {16}, 64);
    expect_refused(writer, ErrorCode::kCorrupt, "tensor t: ");
    expect_refused(writer, ErrorCode::kCorrupt, bad.message);
  }
}

TEST(Gguf, RefusesOverlappingTensors) {
  GgufWriter writer;
  writer.declare_tensor("a", TensorType::kF32, {16}, 64);
  writer.add_raw_tensor("b", {8}, 0, 32);
  expect_refused(writer, ErrorCode::kCorrupt, "the tensors a and b overlap");
}

TEST(Gguf, TellsWhereACutFileShouldEnd) {
  GgufWriter writer;
  writer.declare_tensor("a", TensorType::kF32, {16}, 64);
  auto bytes = writer.bytes();
  const size_t whole = bytes.size();
  bytes.pop_back();
  EXPECT_EQ(refusal(bytes).message, "tensor a: its data ends at byte " + std::to_string(whole) + ", but the file has " +
                                        std::to_string(whole - 1) + " bytes; it is cut short: fetch it again");
}

TEST(Gguf, AcceptsAFileWithoutTensorsAndPadding) {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", "gpt2");
  auto bytes = writer.bytes();
  bytes.resize(24 + 8 + 20 + 4 + 8 + 4);
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(*file->get_string("tokenizer.ggml.model"), "gpt2");
}

TEST(Gguf, CopiesEntriesFromFileToFile) {
  const auto bytes = all_value_types(3).bytes();
  const auto file = File::parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  GgufWriter copy;
  for (const Entry& entry : file->metadata()) copy.add(entry);
  EXPECT_EQ(copy.bytes(), bytes);
}

}  // namespace
}  // namespace quire::gguf
