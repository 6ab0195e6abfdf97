// Result and Error: the road for the outside world.
//
// Everything that depends on a file, a socket, the operating system or a user's words returns Result<T> (or Status when there is
// no value). An Error says what happened, where, and what to do; it is meant to be shown to a person unchanged.
// Expected outcomes that are no errors (no space now, nothing to do) are small [[nodiscard]] enums instead, and bugs are checks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

enum class ErrorCode {
  kInvalidArgument,  // the caller's words are wrong: a flag, a request field
  kNotFound,         // a file, a key or a name that is not there
  kCorrupt,          // bytes from outside that break their format
  kUnsupported,      // well formed, but not something that Quire understands
  kOutOfMemory,      // more memory than there is, or than the budget allows
  kLimit,            // a bound on work or size was reached
  kIo,               // the operating system refused an operation
};

// The code's name in snake case, stable: "invalid_argument", "not_found", ...
[[nodiscard]] std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;
};

// Makes an Error from a message; the message begins with the place ("model.gguf: tensor blk.3.attn_q.weight: ...").
[[nodiscard]] inline Error make_error(ErrorCode code, std::string message) { return {code, std::move(message)}; }

// The same error with "where: " before its message, for callers who know the place better.
[[nodiscard]] Error at(std::string_view where, Error error);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; calling these on an error is a bug.
  [[nodiscard]] T& value() & { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return checked(), std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  // The error; calling this on a value is a bug.
  [[nodiscard]] const Error& error() const {
    QUIRE_CHECK(!ok(), "error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  void checked() const { QUIRE_CHECK(ok(), std::get_if<1>(&state_)->message); }

  std::variant<T, Error> state_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const {
    QUIRE_CHECK(!ok(), "error() of a Status that is ok");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace quire

#define QUIRE_CONCAT_INNER_(a, b) a##b
#define QUIRE_CONCAT_(a, b) QUIRE_CONCAT_INNER_(a, b)

// QUIRE_TRY(auto value, expression): binds the value of a Result, or returns its error from the enclosing function.
#define QUIRE_TRY(declaration, expression) QUIRE_TRY_INNER_(QUIRE_CONCAT_(result_, __LINE__), declaration, expression)
#define QUIRE_TRY_INNER_(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name.ok()) return name.error();                  \
  declaration = std::move(name).value()

// QUIRE_TRY_STATUS(expression): returns the error of a Status (or Result) from the enclosing function.
#define QUIRE_TRY_STATUS(expression)                                        \
  do {                                                                      \
    if (auto status_ = (expression); !status_.ok()) return status_.error(); \
  } while (false)
