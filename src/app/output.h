// What commands print, and what becomes of it.
//
// A stream that is closed, full or without a reader is no exception (as it would be for fmt::print): printing goes on into nothing,
// and main() asks once at the end.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace quire::app {

// Writes to stdout, buffered.
void write_output(std::string_view text);
// Writes to stderr, at once.
void write_message(std::string_view text);

template <typename... Arguments>
void print_output(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_output(fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename... Arguments>
void print_message(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_message(fmt::format(format, std::forward<Arguments>(arguments)...));
}

enum class [[nodiscard]] OutputState {
  kWritten,
  kReaderGone,  // `| head` has seen enough: no reason to say anything
  kFailed,
};

// Hands everything on stdout to the system. Whatever failed before is remembered.
OutputState flush_output();

// What to tell the user after kFailed.
[[nodiscard]] Error output_error();

// Text that may come from a file or a user, made fit for one line of a terminal: control bytes as \xNN, long texts cut.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace quire::app
