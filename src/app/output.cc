#include "app/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quire::app {
namespace {

int first_error = 0;  // errno of the first write to stdout that failed

void remember_failure() {
  if (first_error == 0) first_error = errno != 0 ? errno : EIO;
}

}  // namespace

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember_failure();
}

void write_message(std::string_view text) {
  std::fflush(stdout);  // what was printed before comes before
  // Where nobody can hear a message, nobody can hear that either.
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

OutputState flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) remember_failure();
  if (first_error == 0) return OutputState::kWritten;
  return first_error == EPIPE ? OutputState::kReaderGone : OutputState::kFailed;
}

Error output_error() {
  return make_error(ErrorCode::kIo, fmt::format("stdout cannot be written: {}; check where it goes, and that its disk is not full",
                                                std::strerror(first_error)));
}

std::string one_line(std::string_view text) {
  constexpr size_t kLongest = 2000;
  std::string line;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text.size() > kLongest ? line + "..." : line;
}

}  // namespace quire::app
