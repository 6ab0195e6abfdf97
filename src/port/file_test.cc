#include "port/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace quire::port {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "quire_file_test_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string file_with(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  [[nodiscard]] size_t entries() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(directory_), std::filesystem::directory_iterator()));
  }

  std::string directory_;
};

TEST_F(FileTest, MapsTheWholeFile) {
  const std::string content = "GGUF and more";
  Result<MappedFile> file = MappedFile::open(file_with("a", content));
  ASSERT_TRUE(file.ok());
  const std::span<const std::byte> bytes = file->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), content);
  const MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), bytes.data());
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(FileTest, AMovedOverMappingIsUnmappedOnce) {
  Result<MappedFile> a = MappedFile::open(file_with("a", "first"));
  Result<MappedFile> b = MappedFile::open(file_with("b", "second"));
  ASSERT_TRUE(a.ok() && b.ok());
  *a = std::move(*b);
  EXPECT_EQ(a->bytes().size(), 6U);
}

// Which pages of the mapping this process holds; the page cache's pages are not asked (mincore would).
size_t resident_pages(const MappedFile& file) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(pagemap, 0);
  size_t resident = 0;
  for (size_t offset = 0; offset < file.bytes().size(); offset += page) {
    uint64_t entry = 0;
    const uintptr_t address = reinterpret_cast<uintptr_t>(file.bytes().data()) + offset;
    EXPECT_EQ(::pread(pagemap, &entry, sizeof(entry), static_cast<off_t>(address / page * sizeof(entry))), 8);
    resident += entry >> 63;
  }
  ::close(pagemap);
  return resident;
}

TEST_F(FileTest, DroppedPagesLeaveTheResidentSetAndReadTheSameAgain) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::string content(64 * page, 'x');
  for (size_t i = 0; i < 64; ++i) content[i * page] = static_cast<char>('0' + i);
  Result<MappedFile> file = MappedFile::open(file_with("big", content));
  ASSERT_TRUE(file.ok());
  const auto sum = [&] {
    int total = 0;
    for (size_t i = 0; i < 64; ++i) total += static_cast<int>(file->bytes()[i * page]);
    return total;
  };
  const int before = sum();
  ASSERT_EQ(resident_pages(*file), 64U);
  file->drop(3 * page + 5, 30 * page - 10);
  EXPECT_EQ(resident_pages(*file), 34U);
  file->drop(0, content.size());
  EXPECT_EQ(resident_pages(*file), 0U);
  EXPECT_EQ(sum(), before);
  file->drop(content.size(), 0);
}

TEST_F(FileTest, ErrorsNameThePathAndSayWhatToDo) {
  const auto message = [](const std::string& file_path) {
    Result<MappedFile> file = MappedFile::open(file_path);
    EXPECT_FALSE(file.ok());
    EXPECT_THAT(file.error().message, StartsWith(file_path + ": "));
    return file.error().message;
  };
  EXPECT_THAT(message(path("missing.gguf")), HasSubstr("no such file"));
  EXPECT_THAT(message(directory_), HasSubstr("is a directory; name a file"));
  EXPECT_THAT(message(file_with("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(message(file_with("plain", "x") + "/below"), HasSubstr("a part of the path is a file"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message(path("pipe")), HasSubstr("is a pipe or a device"));
}

TEST_F(FileTest, AFileWithoutPermissionSaysSo) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string secret = file_with("secret", "x");
  ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
  EXPECT_THAT(MappedFile::open(secret).error().message, HasSubstr("permission denied"));
}

TEST_F(FileTest, ReadsUpToTheLimit) {
  const std::string content(200'000, 'q');
  const std::string file = file_with("text", content);
  Result<std::string> whole = read_file(file, Bytes(200'000));
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(*whole, content);
  EXPECT_EQ(read_file(file, Bytes(199'999)).error().code, ErrorCode::kLimit);
  EXPECT_EQ(*read_file(file_with("empty", ""), Bytes(0)), "");
  EXPECT_EQ(read_file(path("missing"), Bytes(10)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file(directory_, Bytes(10)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(*read_file("/proc/self/status", Bytes(1 << 20)), HasSubstr("VmRSS"));
}

TEST_F(FileTest, AFileGrowsAtItsEnd) {
  const std::string target = file_with("log", "one\n");
  Result<AppendFile> file = AppendFile::open(target);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->regular());
  EXPECT_EQ(file->size(), Bytes(4));
  EXPECT_TRUE(file->append("two\n").ok());
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(*read_file(target, Bytes(100)), "one\ntwo\n");
  EXPECT_TRUE(file->cut(Bytes(4)).ok());
  EXPECT_TRUE(file->append("three\n").ok());
  EXPECT_EQ(file->size(), Bytes(10));
  EXPECT_EQ(*read_file(target, Bytes(100)), "one\nthree\n");
  ASSERT_TRUE(AppendFile::open(path("new")).ok());
  EXPECT_EQ(*read_file(path("new"), Bytes(100)), "");
}

TEST_F(FileTest, AFileGrowsForOneProcessAtATime) {
  {
    Result<AppendFile> first = AppendFile::open(path("log"));
    const AppendFile moved = std::move(first).value();
    const Result<AppendFile> second = AppendFile::open(path("log"));
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(second.error().message, HasSubstr("another process"));
  }
  EXPECT_TRUE(AppendFile::open(path("log")).ok());
}

TEST_F(FileTest, WhatIsNoFileCannotBeCut) {
  Result<AppendFile> device = AppendFile::open("/dev/null");
  ASSERT_TRUE(device.ok());
  EXPECT_FALSE(device->regular());
  EXPECT_TRUE(device->append("x").ok());
  EXPECT_TRUE(device->sync().ok());
  EXPECT_EQ(AppendFile::open(directory_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(AppendFile::open(path("no/such/file")).error().code, ErrorCode::kNotFound);
}

// A file that may not grow: nothing of what did not fit is left.
TEST_F(FileTest, AnAppendThatFailsLeavesTheFileAsItWas) {
  Result<AppendFile> full = AppendFile::open("/dev/full");
  ASSERT_TRUE(full.ok());
  const Status status = full->append("x");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("the disk is full"));

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  Result<AppendFile> file = AppendFile::open(path("bounded"));
  ASSERT_TRUE(file->append("whole\n").ok());
  const rlimit bounded{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &bounded), 0);
  const Status refused = file->append("too long for it\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, ignored);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(*read_file(path("bounded"), Bytes(100)), "whole\n");
  EXPECT_TRUE(file->append("again\n").ok());
  EXPECT_EQ(*read_file(path("bounded"), Bytes(100)), "whole\nagain\n");
}

TEST_F(FileTest, AnAtomicWriteReplacesAndLeavesNothingBehind) {
  const std::string target = file_with("state", "old");
  // Whoever has the old file open keeps reading the old bytes.
  Result<MappedFile> old_file = MappedFile::open(target);
  ASSERT_TRUE(old_file.ok());
  ASSERT_TRUE(write_file_atomically(target, std::string("new\0bytes", 9)).ok());
  EXPECT_EQ(*read_file(target, Bytes(100)), std::string("new\0bytes", 9));
  EXPECT_EQ(static_cast<char>(old_file->bytes()[0]), 'o');
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAlone) {
  EXPECT_EQ(write_file_atomically(path("no/such/directory"), "x").error().code, ErrorCode::kNotFound);
  // A directory cannot be replaced by a file: the rename fails after the new file was written.
  ASSERT_TRUE(std::filesystem::create_directory(path("directory")));
  EXPECT_FALSE(write_file_atomically(path("directory"), "x").ok());
  EXPECT_TRUE(std::filesystem::is_directory(path("directory")));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, WritesThroughALinkAndIntoAPipe) {
  ASSERT_TRUE(write_file_atomically(path("target"), "old").ok());
  ASSERT_EQ(::symlink("target", path("link").c_str()), 0);
  ASSERT_TRUE(write_file_atomically(path("link"), "new").ok());
  EXPECT_EQ(read_file(path("target"), Bytes(100)).value(), "new");
  struct stat status = {};
  ASSERT_EQ(::lstat(path("link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file_atomically(path("pipe"), "through").ok());
  char seen[16] = {};
  EXPECT_EQ(::read(reader, seen, sizeof(seen)), 7);
  ::close(reader);
  ASSERT_EQ(::lstat(path("pipe").c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
}

}  // namespace
}  // namespace quire::port
