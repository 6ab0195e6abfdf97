#include "chat/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/evaluator.h"
#include "chat/parser.h"
#include "chat/runtime.h"

namespace quire::chat {
namespace {

using Json = nlohmann::ordered_json;

Result<Value> from_json(Runtime& runtime, const Json& json, int depth) {
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
    case Json::value_t::string: return runtime.make_string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& element : json) {
        QUIRE_TRY(Value item, from_json(runtime, element, depth + 1));
        items.push_back(std::move(item));
      }
      return runtime.make_list(ListKind::kList, std::move(items));
    }
    case Json::value_t::object: {
      std::vector<Dict::Item> items;
      for (const auto& [name, element] : json.items()) {
        QUIRE_TRY(Value key, runtime.make_string(name));
        QUIRE_TRY(Value item, from_json(runtime, element, depth + 1));
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
  if (!variables.is_object()) return make_error(ErrorCode::kInvalidArgument, "the variables of a chat template must be an object");
  Runtime runtime(options.limits, options.now);
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [name, json] : variables.items()) {
    QUIRE_TRY(Value value, from_json(runtime, json, 0));
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

}  // namespace quire::chat
