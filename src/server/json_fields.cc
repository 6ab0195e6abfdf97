#include "server/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace quire::server {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// With its article, for messages.
std::string_view described(const element& value) {
  switch (value.type()) {
    case element_type::OBJECT: return "an object";
    case element_type::ARRAY: return "an array";
    case element_type::STRING: return "a string";
    case element_type::BOOL: return "a boolean";
    case element_type::NULL_VALUE: return "null";
    case element_type::INT64:
    case element_type::UINT64: return "an integer";
    case element_type::DOUBLE: return "a number with a fraction";
  }
  return "something else";
}

}  // namespace

ApiResult<JsonDocument> JsonDocument::parse_object(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return ApiError{.status = 413,
                    .message = fmt::format("this has {} bytes; at most {} are taken", text.size(), max_bytes),
                    .code = "request_too_large"};
  }
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  simdjson::error_code error = document.parser_->allocate(text.size() + simdjson::SIMDJSON_PADDING, kMaxDepth);
  if (error == simdjson::SUCCESS) error = document.parser_->parse(text.data(), text.size()).get(document.root_);
  if (error != simdjson::SUCCESS) {
    const std::string reason = error == simdjson::DEPTH_ERROR ? fmt::format("it is nested deeper than {} levels", kMaxDepth)
                                                              : std::string(simdjson::error_message(error));
    return ApiError{.message = fmt::format("this is no JSON that can be read: {}", reason), .code = "invalid_json"};
  }
  if (!document.root_.is_object()) {
    return ApiError{.message = fmt::format("a JSON object is expected, this is {}", described(document.root_)),
                    .code = "invalid_json"};
  }
  return document;
}

ApiError bad_field(const std::string& path, std::string code, const std::string& message) {
  return {.message = path.empty() ? message : fmt::format("{}: {}", path, message), .code = std::move(code), .param = path};
}

ApiError wrong_type(const Field& field, std::string_view wanted) {
  return bad_field(field.path, "invalid_type", fmt::format("expected {}, got {}", wanted, described(field.element)));
}

ApiResult<bool> as_bool(const Field& field) {
  bool value = false;
  if (field.element.get(value) != simdjson::SUCCESS) return wrong_type(field, "a boolean");
  return value;
}

ApiResult<int64_t> as_integer(const Field& field, int64_t lowest, int64_t highest) {
  const auto above = [&] {
    return bad_field(field.path, "integer_above_max_value", fmt::format("it must be at most {}", highest));
  };
  if (field.element.is_uint64() && !field.element.is_int64()) return above();
  int64_t value = 0;
  if (!field.element.is_int64() || field.element.get(value) != simdjson::SUCCESS) return wrong_type(field, "an integer");
  if (value > highest) return above();
  if (value < lowest) return bad_field(field.path, "integer_below_min_value", fmt::format("it must be at least {}", lowest));
  return value;
}

ApiResult<double> as_number(const Field& field, double lowest, double highest) {
  double value = 0;
  if (!field.element.is_number() || field.element.get(value) != simdjson::SUCCESS || !std::isfinite(value)) {
    return wrong_type(field, "a number");
  }
  if (value > highest) return bad_field(field.path, "decimal_above_max_value", fmt::format("it must be at most {}", highest));
  if (value < lowest) return bad_field(field.path, "decimal_below_min_value", fmt::format("it must be at least {}", lowest));
  return value;
}

ApiResult<std::string> as_string(const Field& field, size_t max_bytes) {
  std::string_view value;
  if (field.element.get(value) != simdjson::SUCCESS) return wrong_type(field, "a string");
  if (value.size() > max_bytes) {
    return bad_field(field.path, "string_above_max_length",
                     fmt::format("it has {} bytes; at most {} are taken", value.size(), max_bytes));
  }
  return std::string(value);
}

ApiResult<std::vector<Field>> as_array(const Field& field, size_t min_elements, size_t max_elements) {
  simdjson::dom::array array;
  if (field.element.get(array) != simdjson::SUCCESS) return wrong_type(field, "an array");
  std::vector<Field> elements;
  for (const element& value : array) {
    if (elements.size() == max_elements) {
      return bad_field(field.path, "array_above_max_length", fmt::format("at most {} elements are taken", max_elements));
    }
    elements.push_back({value, fmt::format("{}[{}]", field.path, elements.size())});
  }
  if (elements.size() < min_elements) return bad_field(field.path, "empty_array", "it must not be empty");
  return elements;
}

nlohmann::ordered_json to_nlohmann(const element& value) {
  using Json = nlohmann::ordered_json;
  switch (value.type()) {
    case element_type::OBJECT: {
      Json result = Json::object();
      // Looking each key up before it is added would take time squared; who reads it takes the last of equal ones.
      auto& fields = result.get_ref<Json::object_t&>();
      for (const auto& [key, item] : simdjson::dom::object(value)) {
        fields.Json::object_t::Container::emplace_back(std::string(key), to_nlohmann(item));
      }
      return result;
    }
    case element_type::ARRAY: {
      Json result = Json::array();
      for (const element& item : simdjson::dom::array(value)) result.push_back(to_nlohmann(item));
      return result;
    }
    case element_type::STRING: return std::string(std::string_view(value));
    case element_type::BOOL: return bool(value);
    case element_type::INT64: return int64_t(value);
    case element_type::UINT64: return uint64_t(value);
    case element_type::DOUBLE: return double(value);
    case element_type::NULL_VALUE: break;
  }
  return nullptr;
}

ApiResult<ObjectReader> ObjectReader::of(const Field& field) {
  simdjson::dom::object object;
  if (field.element.get(object) != simdjson::SUCCESS) return wrong_type(field, "an object");
  return ObjectReader(object, field.path);
}

std::string ObjectReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<Field> ObjectReader::find(std::string_view name) const {
  element value;
  if (object_.at_key(name).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return Field{value, path_of(name)};
}

ApiResult<Field> ObjectReader::require(std::string_view name) const {
  std::optional<Field> field = find(name);
  if (!field) return bad_field(path_of(name), "missing_required_parameter", "it is required");
  return *std::move(field);
}

ApiStatus ObjectReader::read(std::string_view name, bool& value) const {
  const std::optional<Field> field = find(name);
  if (!field) return {};
  QUIRE_TRY(value, as_bool(*field));
  return {};
}

ApiStatus ObjectReader::read(std::string_view name, std::string& value, size_t max_bytes) const {
  const std::optional<Field> field = find(name);
  if (!field) return {};
  QUIRE_TRY(value, as_string(*field, max_bytes));
  return {};
}

ApiStatus ObjectReader::read(std::string_view name, double& value, double lowest, double highest) const {
  const std::optional<Field> field = find(name);
  if (!field) return {};
  QUIRE_TRY(value, as_number(*field, lowest, highest));
  return {};
}

}  // namespace quire::server
