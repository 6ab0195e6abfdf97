// Errors of the OpenAI API: what a client is told, in the shape and with the stable codes that it knows.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"

namespace quire::server {

// docs/batch.md lists the codes.
struct ApiError {
  int status = 400;  // of HTTP
  std::string message;
  std::string code;
  std::string param = {};  // the path of the field, as in "messages[0].content"; empty where it is no field's fault
  std::string type = "invalid_request_error";
};

// {"error": {"message", "type", "param", "code"}}
[[nodiscard]] nlohmann::ordered_json to_json(const ApiError& error);

// One line of JSON. Whatever is in its strings, it is valid UTF-8: what is not becomes U+FFFD.
[[nodiscard]] std::string to_line(const nlohmann::ordered_json& json);

// A value or what to tell the client; works with QUIRE_TRY.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT(google-explicit-constructor)
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] T& value() & { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return checked(), std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const ApiError& error() const {
    QUIRE_CHECK(!ok(), "error() of an ApiResult that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  void checked() const { QUIRE_CHECK(ok(), std::get_if<1>(&state_)->message); }

  std::variant<T, ApiError> state_;
};

class [[nodiscard]] ApiStatus {
 public:
  ApiStatus() = default;
  ApiStatus(ApiError error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  [[nodiscard]] const ApiError& error() const {
    QUIRE_CHECK(!ok(), "error() of an ApiStatus that is ok");
    return *error_;
  }

 private:
  std::optional<ApiError> error_;
};

}  // namespace quire::server
