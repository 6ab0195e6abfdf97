// Fields of JSON from outside, read with their paths: a wrong type and a value out of its range are errors that name the field.
// Every text is bounded, and every number is checked before anybody computes with it.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"

namespace quire::server {

// A document. Elements that were read from it are valid as long as it is.
class JsonDocument {
 public:
  // Deeper documents are refused, so that what is read from them may be walked by recursion.
  static constexpr size_t kMaxDepth = 64;

  // 400 invalid_json for what is no JSON or no object, or is too deep; 413 request_too_large beyond `max_bytes`.
  [[nodiscard]] static ApiResult<JsonDocument> parse_object(std::string_view text, size_t max_bytes);

  [[nodiscard]] const simdjson::dom::element& root() const { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;  // it owns the elements
  simdjson::dom::element root_;
};

// An element and the path that leads to it.
struct Field {
  simdjson::dom::element element;
  std::string path;  // empty: the whole body
};

// "string", "object", "null", ...: of messages.
[[nodiscard]] std::string_view type_name(const simdjson::dom::element& element);

// 400 invalid_type: "expected `wanted`, got a string".
[[nodiscard]] ApiError wrong_type(const Field& field, std::string_view wanted);
// 400 with the field's path before the message: "temperature: it must be ...".
[[nodiscard]] ApiError bad_field(const std::string& path, std::string code, const std::string& message);

// The values themselves; errors: invalid_type, and integer_below_min_value, integer_above_max_value, decimal_below_min_value,
// decimal_above_max_value, string_above_max_length, array_above_max_length, empty_array.
[[nodiscard]] ApiResult<bool> as_bool(const Field& field);
[[nodiscard]] ApiResult<int64_t> as_integer(const Field& field, int64_t lowest, int64_t highest);
[[nodiscard]] ApiResult<double> as_number(const Field& field, double lowest, double highest);
[[nodiscard]] ApiResult<std::string> as_string(const Field& field, size_t max_bytes);
[[nodiscard]] ApiResult<std::vector<Field>> as_array(const Field& field, size_t min_elements, size_t max_elements);

// The same value for those who print it. The element is of a JsonDocument.
[[nodiscard]] nlohmann::ordered_json to_nlohmann(const simdjson::dom::element& element);

// The fields of an object.
class ObjectReader {
 public:
  [[nodiscard]] static ApiResult<ObjectReader> of(const Field& field);

  // Nothing where the field is missing or null: the API takes the two for the same.
  [[nodiscard]] std::optional<Field> find(std::string_view name) const;
  // The same, but missing_required_parameter.
  [[nodiscard]] ApiResult<Field> require(std::string_view name) const;
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] const simdjson::dom::object& object() const { return object_; }

  // Read the field into `value` where it is there.
  [[nodiscard]] ApiStatus read(std::string_view name, bool& value) const;
  [[nodiscard]] ApiStatus read(std::string_view name, std::string& value, size_t max_bytes) const;
  [[nodiscard]] ApiStatus read(std::string_view name, double& value, double lowest, double highest) const;
  template <typename Integer>
  [[nodiscard]] ApiStatus read_integer(std::string_view name, Integer& value, int64_t lowest, int64_t highest) const {
    const std::optional<Field> field = find(name);
    if (!field) return {};
    QUIRE_TRY(const int64_t number, as_integer(*field, lowest, highest));
    value = static_cast<Integer>(number);
    return {};
  }

 private:
  ObjectReader(simdjson::dom::object object, std::string path) : object_(object), path_(std::move(path)) {}

  simdjson::dom::object object_;
  std::string path_;
};

}  // namespace quire::server
