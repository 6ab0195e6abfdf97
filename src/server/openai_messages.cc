#include "server/openai_messages.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/openai_request.h"

namespace quire::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxParts = 4096;
constexpr size_t kMaxTools = 1024;

ApiResult<std::string> read_part(const Field& field) {
  QUIRE_TRY(const ObjectReader part, ObjectReader::of(field));
  QUIRE_TRY(const Field type_field, part.require("type"));
  QUIRE_TRY(const std::string type, as_string(type_field, kMaxNameBytes));
  if (type != "text") {
    return bad_field(type_field.path, "unsupported_value", fmt::format("\"{}\" is not supported; only \"text\" is", type));
  }
  QUIRE_TRY(const Field text, part.require("text"));
  return as_string(text, kMaxBodyBytes);
}

// The content's text, or null.
ApiResult<Json> read_content(const ObjectReader& message, std::string_view role) {
  const std::optional<Field> field = message.find("content");
  if (!field) {
    const bool only_calls = role == "assistant" && message.find("tool_calls").has_value();
    if (only_calls) return Json();
    return bad_field(message.path_of("content"), "missing_required_parameter", "it is required");
  }
  if (field->element.is_string()) {
    QUIRE_TRY(std::string text, as_string(*field, kMaxBodyBytes));
    return Json(std::move(text));
  }
  if (!field->element.is_array()) return wrong_type(*field, "a string or an array of parts");
  QUIRE_TRY(const std::vector<Field> parts, as_array(*field, 1, kMaxParts));
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    QUIRE_TRY(const std::string part, read_part(parts[i]));
    if (i > 0) text += "\n";
    text += part;
  }
  return Json(std::move(text));
}

// OpenAI has the arguments of a call as a text; templates want the object.
Json read_arguments(const simdjson::dom::element& value) {
  Json arguments = to_nlohmann(value);
  if (!arguments.is_string()) return arguments;
  const auto document = JsonDocument::parse_object(arguments.get_ref<const std::string&>(), kMaxBodyBytes);
  return document.ok() ? to_nlohmann(document->root()) : arguments;
}

ApiResult<Json> read_tool_calls(const Field& field) {
  QUIRE_TRY(const std::vector<Field> calls, as_array(field, 0, kMaxTools));
  Json result = Json::array();
  for (const Field& call_field : calls) {
    QUIRE_TRY(const ObjectReader call, ObjectReader::of(call_field));
    QUIRE_TRY(const Field function_field, call.require("function"));
    QUIRE_TRY(const ObjectReader function, ObjectReader::of(function_field));
    QUIRE_TRY(const Field name_field, function.require("name"));
    QUIRE_TRY(const std::string name, as_string(name_field, kMaxNameBytes));
    Json made = {{"id", ""}, {"type", "function"}, {"function", {{"name", name}, {"arguments", Json::object()}}}};
    if (const std::optional<Field> arguments = function.find("arguments")) {
      made["function"]["arguments"] = read_arguments(arguments->element);
    }
    std::string id;
    QUIRE_TRY_STATUS(call.read("id", id, kMaxNameBytes));
    made["id"] = id;
    result.push_back(std::move(made));
  }
  return result;
}

ApiResult<Json> read_message(const Field& field) {
  QUIRE_TRY(const ObjectReader message, ObjectReader::of(field));
  QUIRE_TRY(const Field role_field, message.require("role"));
  QUIRE_TRY(const std::string role, as_string(role_field, kMaxNameBytes));
  QUIRE_TRY(Json content, read_content(message, role));
  Json result = {{"role", role}, {"content", std::move(content)}};
  if (const std::optional<Field> calls = message.find("tool_calls")) {
    QUIRE_TRY(Json made, read_tool_calls(*calls));
    // A message with none looks to templates like one that calls tools.
    if (!made.empty()) result["tool_calls"] = std::move(made);
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    const std::optional<Field> text = message.find(name);
    if (!text) continue;
    QUIRE_TRY(std::string value, as_string(*text, kMaxBodyBytes));
    result[name] = std::move(value);
  }
  return result;
}

// Whether tools are to be shown to the model.
ApiResult<bool> read_tool_choice(const ObjectReader& body) {
  const std::optional<Field> field = body.find("tool_choice");
  if (!field) return true;
  if (!field->element.is_string() && !field->element.is_object()) return wrong_type(*field, "a string or an object");
  const std::string choice = field->element.is_string() ? std::string(std::string_view(field->element)) : "";
  if (choice == "none") return false;
  if (choice == "auto") return true;
  return bad_field(field->path, "unsupported_value", "a model cannot be made to call a tool; \"auto\" and \"none\" are supported");
}

ApiResult<Json> read_tools(const ObjectReader& body) {
  const std::optional<Field> field = body.find("tools");
  if (!field) return Json();
  QUIRE_TRY(const std::vector<Field> tools, as_array(*field, 0, kMaxTools));
  Json result = Json::array();
  for (const Field& tool_field : tools) {
    QUIRE_TRY(const ObjectReader tool, ObjectReader::of(tool_field));
    QUIRE_TRY(const Field function_field, tool.require("function"));
    QUIRE_TRY(const ObjectReader function, ObjectReader::of(function_field));
    QUIRE_TRY(const Field name, function.require("name"));
    QUIRE_TRY_STATUS(as_string(name, kMaxNameBytes));
    result.push_back(to_nlohmann(tool_field.element));
  }
  return result.empty() ? Json() : result;
}

}  // namespace

ApiResult<chat::Conversation> read_conversation(const ObjectReader& body) {
  QUIRE_TRY(const Field field, body.require("messages"));
  QUIRE_TRY(const std::vector<Field> messages, as_array(field, 1, kMaxMessages));
  chat::Conversation conversation{.messages = Json::array()};
  for (const Field& message : messages) {
    QUIRE_TRY(Json made, read_message(message));
    conversation.messages.push_back(std::move(made));
  }
  QUIRE_TRY(const bool shown, read_tool_choice(body));
  QUIRE_TRY(Json tools, read_tools(body));
  if (shown) conversation.tools = std::move(tools);
  return conversation;
}

}  // namespace quire::server
