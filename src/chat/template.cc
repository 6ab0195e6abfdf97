#include "chat/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/evaluator.h"
#include "chat/parser.h"
#include "chat/runtime.h"

namespace quire::chat {
namespace {

using Json = nlohmann::ordered_json;

// Whose words the strings of a variable are.
enum class Origin { kModel, kConversation };

MarkedText marked(std::string text, Origin origin) {
  return origin == Origin::kModel ? MarkedText(std::move(text)) : MarkedText::of_input(std::move(text));
}

// A role is a word of the format: "<|" + role + "|>" is a token in some templates. Only known ones are: a role that is the name of
// another token ("im_end") is what a user wrote.
bool is_known_role(std::string_view key, const Json& value) {
  static constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};
  return key == "role" && value.is_string() &&
         std::find(std::begin(kRoles), std::end(kRoles), value.get_ref<const std::string&>()) != std::end(kRoles);
}

Result<Value> from_json(Runtime& runtime, const Json& json, Origin origin, int depth) {
  if (depth > kMaxValueDepth) {
    return make_error(ErrorCode::kLimit, fmt::format("the conversation is nested deeper than {} levels", kMaxValueDepth));
  }
  switch (json.type()) {
    case Json::value_t::boolean: return Value(json.get<bool>());
    case Json::value_t::number_integer: return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number <= static_cast<uint64_t>(INT64_MAX)) return Value(static_cast<int64_t>(number));
      return Value(static_cast<double>(number));
    }
    case Json::value_t::number_float: return Value(json.get<double>());
    case Json::value_t::string: return runtime.make_string(marked(json.get_ref<const std::string&>(), origin));
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& element : json) {
        QUIRE_TRY(Value item, from_json(runtime, element, origin, depth + 1));
        items.push_back(std::move(item));
      }
      return runtime.make_list(ListKind::kList, std::move(items));
    }
    case Json::value_t::object: {
      std::vector<Dict::Item> items;
      for (const auto& [name, element] : json.items()) {
        QUIRE_TRY(Value key, runtime.make_string(marked(name, origin)));
        QUIRE_TRY(Value item, from_json(runtime, element, is_known_role(name, element) ? Origin::kModel : origin, depth + 1));
        items.emplace_back(std::move(key), std::move(item));
      }
      return runtime.make_dict(std::move(items));
    }
    default: return Value(None{});
  }
}

}  // namespace

Result<Template> Template::compile(std::string_view source) {
  QUIRE_TRY(std::unique_ptr<Program> program, parse(source));
  return Template(std::shared_ptr<const Program>(std::move(program)));
}

Result<std::string> Template::render(const Json& variables, const RenderOptions& options) const {
  QUIRE_TRY(const MarkedText result, render_marked(variables, options));
  return result.text();
}

Result<MarkedText> Template::render_marked(const Json& variables, const RenderOptions& options) const {
  if (!variables.is_object()) return make_error(ErrorCode::kInvalidArgument, "the variables of a chat template must be an object");
  Runtime runtime(options.limits, options.now);
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [name, json] : variables.items()) {
    QUIRE_TRY(Value value, from_json(runtime, json, name.ends_with("_token") ? Origin::kModel : Origin::kConversation, 0));
    values.emplace_back(name, std::move(value));
  }
  return Evaluator(runtime).run(*program_, std::move(values));
}

bool Template::mentions(std::string_view name) const {
  return std::any_of(program_->expressions.begin(), program_->expressions.end(), [name](const auto& expression) {
    const auto* mentioned = std::get_if<Name>(&expression->node);
    return mentioned != nullptr && mentioned->name == name;
  });
}

bool Template::has_literal(std::string_view text) const {
  return std::any_of(program_->expressions.begin(), program_->expressions.end(), [text](const auto& expression) {
    const auto* literal = std::get_if<Literal>(&expression->node);
    return literal != nullptr && literal->value.as_string() != nullptr && *literal->value.as_string() == text;
  });
}

}  // namespace quire::chat
