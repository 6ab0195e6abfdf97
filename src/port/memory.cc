#include "port/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::port {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t mapped_size(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

}  // namespace

Result<AnonymousMemory> AnonymousMemory::allocate(Bytes bytes) {
  QUIRE_CHECK(bytes.value > 0);
  const auto size = static_cast<size_t>(bytes.value);
  const size_t mapped = mapped_size(size);
  const size_t with_slack = mapped + kHugePage;
  void* address = ::mmap(nullptr, with_slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("cannot allocate {}: {}; free some memory or choose a smaller model",
                                                           format_bytes(bytes), std::strerror(errno)));
  }
  // A mapping begins at any page: cut the slack off so that it begins at a huge one.
  auto* begin = static_cast<std::byte*>(address);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + mapped, kHugePage - before);
  begin += before;
  // Advice: without it the memory is as good, only slower.
  (void)::madvise(begin, mapped, MADV_HUGEPAGE);
  (void)::madvise(begin, mapped, MADV_DONTDUMP);
  return AnonymousMemory({begin, size});
}

AnonymousMemory::AnonymousMemory(AnonymousMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

AnonymousMemory& AnonymousMemory::operator=(AnonymousMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

AnonymousMemory::~AnonymousMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), mapped_size(bytes_.size()));
}

}  // namespace quire::port
