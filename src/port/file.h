// Files: mapping one for reading, reading a small one whole, replacing one so that nobody ever sees half of it.
//
// Every error begins with the path and says what to do.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace quire::port {

// A file mapped for reading, private to this process, unmapped by the destructor. The path must name a regular file with at least
// one byte; a directory, a pipe, a missing or an unreadable file is an error.
//
// The mapping shows the file as it was when opened. If somebody truncates the file in place while it is mapped, touching the bytes
// that went away raises SIGBUS: replace model files by renaming a new one over them (write_file_atomically does), never in place.
class MappedFile {
 public:
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // The whole file, page-aligned. Valid as long as this object.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  // Says that [offset, offset + length) will not be read again soon: its pages leave this process's resident set. They stay clean
  // in the page cache, where the kernel takes them first when memory is short and where the next start finds them otherwise.
  // Reading them again is allowed and reads the file. The range is widened to whole pages; it must lie inside the file.
  void drop(size_t offset, size_t length) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// A file that grows at its end while this process has it open; another one that would open it so is refused meanwhile. Pipes and
// devices can be written too, but neither cut nor synced.
class AppendFile {
 public:
  // Opens the file at its end, or makes an empty one. kInvalidArgument: it is a directory, or another process has it.
  [[nodiscard]] static Result<AppendFile> open(const std::string& path);

  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  // Whether it is a file, which can be cut, and not a pipe or a device.
  [[nodiscard]] bool regular() const { return regular_; }
  [[nodiscard]] Bytes size() const { return size_; }

  // Leaves the first `size` bytes. Only of a regular file, and not more than it has.
  [[nodiscard]] Status cut(Bytes size);
  // After an error a regular file is as long as it was: all of the bytes are there or none.
  [[nodiscard]] Status append(std::string_view bytes);
  // Returns when what was written would survive a power failure.
  [[nodiscard]] Status sync();

 private:
  AppendFile(int fd, std::string path, bool regular, Bytes size)
      : fd_(fd), path_(std::move(path)), regular_(regular), size_(size) {}

  int fd_;
  std::string path_;
  bool regular_;
  Bytes size_;
};

// The content of a file of at most `max_bytes`; a longer one is an error (kLimit). Works for files of /proc and /sys too, whose
// size is not known before they are read.
[[nodiscard]] Result<std::string> read_file(const std::string& path, Bytes max_bytes);

// Replaces the file by `bytes`: they are written and synced beside it under another name, which then takes the path's place. A
// crash or an error at any moment leaves the old file or the new one, and an error leaves nothing else behind. Of a link the file
// that it leads to is replaced; a device or a pipe is written, never replaced.
[[nodiscard]] Status write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace quire::port
