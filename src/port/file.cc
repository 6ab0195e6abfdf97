#include "port/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace quire::port {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// What the operating system's errno means for somebody who named a path.
Error path_error(const std::string& path, std::string_view what, int error_number) {
  switch (error_number) {
    case ENOENT: return make_error(ErrorCode::kNotFound, fmt::format("{}: no such file; check the path", path));
    case ENOTDIR:
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: a part of the path is a file, not a directory; check the path", path));
    case EACCES:
    case EPERM:
      return make_error(ErrorCode::kIo, fmt::format("{}: permission denied; give this user access to it or choose another", path));
    case EISDIR: return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: is a directory; name a file", path));
    case ENOSPC: return make_error(ErrorCode::kIo, fmt::format("{}: the disk is full; free some space and try again", path));
    default: return make_error(ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, what, std::strerror(error_number)));
  }
}

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// Opening a pipe for mapping would wait for a writer; with O_NONBLOCK it opens and is then refused for what it is.
constexpr int kOpenForMapping = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

Status write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return path_error(path, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status write_and_sync(const std::string& temporary, const std::string& path, std::string_view bytes) {
  const FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) return path_error(path, "create", errno);
  QUIRE_TRY_STATUS(write_all(file.get(), path, bytes));
  if (::fsync(file.get()) != 0) return path_error(path, "sync", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return path_error(path, "rename a new file to it", errno);
  return {};
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new name lasts over a power failure once its directory is synced; some file systems cannot, and need not.
void sync_directory_of(const std::string& path) {
  const FileDescriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open()) (void)::fsync(directory.get());
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), kOpenForMapping));
  if (!file.is_open()) return path_error(path, "open", errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return path_error(path, "look at it", errno);
  if (S_ISDIR(info.st_mode)) return path_error(path, "map", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: is a pipe or a device; only a regular file can be mapped: copy it to one", path));
  }
  if (info.st_size == 0) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{}: is empty; if it was downloaded, download it again", path));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED && errno == ENOMEM) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("{}: no address space to map its {}; raise the limit (ulimit -v)", path,
                                                           format_bytes(Bytes(static_cast<int64_t>(size)))));
  }
  if (address == MAP_FAILED) return path_error(path, "map", errno);
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop(size_t offset, size_t length) const {
  QUIRE_CHECK(offset <= bytes_.size() && length <= bytes_.size() - offset);
  if (length == 0) return;
  const size_t begin = offset / page_size() * page_size();
  // Only advice: when the kernel does not take it, nothing but memory is lost.
  (void)::madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + length - begin, MADV_DONTNEED);
}

Result<AppendFile> AppendFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return path_error(path, "open", errno);
  AppendFile file(fd, path, false, Bytes(0));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return path_error(path, "look at it", errno);
  if (!S_ISREG(info.st_mode)) return file;
  // Where a file system has no locks there is nobody to ask.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: another process is writing it; wait for it or name another file", path));
  }
  file.regular_ = true;
  file.size_ = Bytes(info.st_size);
  sync_directory_of(path);
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), regular_(other.regular_), size_(other.size_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(regular_, other.regular_);
  std::swap(size_, other.size_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status AppendFile::cut(Bytes size) {
  QUIRE_CHECK(regular_ && size.value >= 0 && size <= size_);
  if (::ftruncate(fd_, size.value) != 0) return path_error(path_, "cut", errno);
  size_ = size;
  return {};
}

Status AppendFile::append(std::string_view bytes) {
  if (Status status = write_all(fd_, path_, bytes); !status.ok()) {
    if (regular_) (void)::ftruncate(fd_, size_.value);
    return status;
  }
  size_ += Bytes(static_cast<int64_t>(bytes.size()));
  return {};
}

Status AppendFile::sync() {
  if (regular_ && ::fdatasync(fd_) != 0) return path_error(path_, "sync", errno);
  return {};
}

Result<std::string> read_file(const std::string& path, Bytes max_bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return path_error(path, "open", errno);
  const auto limit = static_cast<size_t>(max_bytes.value);
  constexpr size_t kPiece = 64 * 1024;
  std::string content;
  while (true) {
    const size_t before = content.size();
    content.resize(before + kPiece);
    const ssize_t got = ::read(file.get(), content.data() + before, kPiece);
    const int error_number = errno;
    content.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && error_number == EINTR) continue;
    if (got < 0) return path_error(path, "read", error_number);
    if (got == 0) return content;
    if (content.size() > limit) {
      return make_error(ErrorCode::kLimit, fmt::format("{}: is longer than the {} that are read of such a file; name a smaller one",
                                                       path, format_bytes(max_bytes)));
    }
  }
}

Status write_file_atomically(const std::string& given, std::string_view bytes) {
  struct stat existing = {};
  const bool there = ::stat(given.c_str(), &existing) == 0;
  if (there && !S_ISREG(existing.st_mode) && !S_ISDIR(existing.st_mode)) {
    const FileDescriptor device(::open(given.c_str(), O_WRONLY | O_CLOEXEC));
    if (!device.is_open()) return path_error(given, "open", errno);
    return write_all(device.get(), given, bytes);
  }
  std::error_code unresolved;
  const std::filesystem::path resolved = there ? std::filesystem::canonical(given, unresolved) : std::filesystem::path();
  const std::string path = there && !unresolved ? resolved.string() : given;
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.new.{}.{}", path, ::getpid(), counter.fetch_add(1, std::memory_order_relaxed));
  if (Status status = write_and_sync(temporary, path, bytes); !status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  sync_directory_of(path);
  return {};
}

}  // namespace quire::port
