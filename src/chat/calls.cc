// Calls: macros, the functions that templates are given, and methods of what they make.
#include <fmt/format.h>

#include <algorithm>

#include "chat/evaluator.h"

namespace quire::chat {

Result<CallArguments> Evaluator::evaluate(const Arguments& arguments) {
  CallArguments result;
  for (const Expression* argument : arguments.positional) {
    QUIRE_TRY(Value value, evaluate(*argument));
    result.positional.push_back(std::move(value));
  }
  if (arguments.rest != nullptr) {
    QUIRE_TRY(const Value rest, evaluate(*arguments.rest));
    QUIRE_TRY(std::vector<Value> items, iterate(runtime_, rest));
    result.positional.insert(result.positional.end(), items.begin(), items.end());
  }
  for (const auto& [name, argument] : arguments.named) {
    QUIRE_TRY(Value value, evaluate(*argument));
    result.named.emplace_back(name, std::move(value));
  }
  if (arguments.named_rest != nullptr) {
    QUIRE_TRY(const Value rest, evaluate(*arguments.named_rest));
    if (rest.as_dict() == nullptr)
      return template_error(fmt::format("argument after ** must be a mapping, not {}", type_name(rest)));
    for (const auto& [key, value] : rest.as_dict()->items) {
      QUIRE_TRY_STATUS(runtime_.charge(1));
      if (key.as_string() == nullptr) return template_error("keywords must be strings");
      result.named.emplace_back(*key.as_string(), value);
    }
  }
  return result;
}

Result<Value> Evaluator::evaluate(const Call& node) {
  const auto* attribute = std::get_if<Attribute>(&node.callee->node);
  if (attribute == nullptr) {
    QUIRE_TRY(const Value callee, evaluate(*node.callee));
    QUIRE_TRY(CallArguments arguments, evaluate(node.arguments));
    return call(callee, std::move(arguments));
  }
  // A method is called without being made a value first.
  QUIRE_TRY(const Value object, evaluate(*attribute->object));
  if (has_method(object, attribute->name)) {
    QUIRE_TRY(const CallArguments arguments, evaluate(node.arguments));
    return call_method(runtime_, object, attribute->name, arguments);
  }
  const bool has_own_methods =
      dynamic_cast<Loop*>(object.as_object()) != nullptr || dynamic_cast<Sequencer*>(object.as_object()) != nullptr;
  if (has_own_methods) {
    QUIRE_TRY(const CallArguments arguments, evaluate(node.arguments));
    return call_object_method(*object.as_object(), attribute->name, arguments);
  }
  QUIRE_TRY(const Value callee, attribute_of(object, attribute->name));
  QUIRE_TRY(CallArguments arguments, evaluate(node.arguments));
  return call(callee, std::move(arguments));
}

Result<Value> Evaluator::call(const Value& callee, CallArguments arguments) {
  const DepthGuard guard(runtime_);
  QUIRE_TRY_STATUS(guard.status());
  QUIRE_TRY_STATUS(require_defined(callee));
  Object* object = callee.as_object();
  if (auto* macro = dynamic_cast<Macro*>(object)) return call_macro(*macro, std::move(arguments));
  if (auto* function = dynamic_cast<Function*>(object)) return call_function(function->name, arguments);
  if (auto* method = dynamic_cast<BoundMethod*>(object)) return call_method(runtime_, method->object, method->name, arguments);
  if (auto* joiner = dynamic_cast<Sequencer*>(object); joiner != nullptr && joiner->is_joiner) {
    return std::exchange(joiner->next, 1) == 0 ? runtime_.make_string("") : Result<Value>(joiner->items.front());
  }
  if (auto* loop = dynamic_cast<Loop*>(object)) {
    if (!loop->statement->recursive) {
      return template_error("The loop must have the 'recursive' marker to be called recursively.");
    }
    if (arguments.positional.size() != 1) return template_error("loop() takes one argument");
    MarkedText outer = std::exchange(output_, {});
    outer_output_ += static_cast<int64_t>(outer.bytes());
    const Status status = run_loop(*loop->statement, arguments.positional.front(), loop->scope, loop->level + 1);
    outer_output_ -= static_cast<int64_t>(outer.bytes());
    MarkedText text = std::exchange(output_, std::move(outer));
    QUIRE_TRY_STATUS(status);
    return runtime_.make_string(std::move(text));
  }
  return template_error(fmt::format("'{}' object is not callable", type_name(callee)));
}

Result<Value> Evaluator::call_macro(const Macro& macro, CallArguments arguments) {
  const ScopeGuard scope(*this, macro.scope);
  QUIRE_TRY_STATUS(bind_parameters(macro, arguments));
  QUIRE_TRY_STATUS(bind_extra_arguments(macro, arguments));
  QUIRE_TRY(MarkedText text, capture(macro.definition.body));
  return runtime_.make_string(std::move(text));
}

// Gives every parameter its value, and takes it from the arguments. Defaults are evaluated in the macro's scope, in order.
Status Evaluator::bind_parameters(const Macro& macro, CallArguments& arguments) {
  const auto& parameters = macro.definition.parameters;
  const size_t given = std::min(parameters.size(), arguments.positional.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(), [&](const auto& a) { return a.first == parameter.name; });
    Value value;
    if (i < given) {
      value = std::move(arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      value = std::move(named->second);
      arguments.named.erase(named);
    } else if (parameter.default_value != nullptr) {
      QUIRE_TRY(value, evaluate(*parameter.default_value));
    } else {
      QUIRE_TRY(value, runtime_.make_undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
    scope_->set(parameter.name, std::move(value));
  }
  arguments.positional.erase(arguments.positional.begin(), arguments.positional.begin() + static_cast<ptrdiff_t>(given));
  return {};
}

// What is left goes to `caller`, `kwargs` and `varargs` where the macro names them, and is an error where it does not.
Status Evaluator::bind_extra_arguments(const Macro& macro, CallArguments& arguments) {
  const MacroDefinition& definition = macro.definition;
  if (definition.uses_caller) {
    const auto named =
        std::find_if(arguments.named.begin(), arguments.named.end(), [](const auto& a) { return a.first == "caller"; });
    if (named != arguments.named.end()) {
      scope_->set("caller", std::move(named->second));
      arguments.named.erase(named);
    } else if (scope_->find("caller") == nullptr) {
      QUIRE_TRY(Value undefined, runtime_.make_undefined("No caller defined"));
      scope_->set("caller", std::move(undefined));
    }
  }
  if (definition.uses_kwargs) {
    std::vector<Dict::Item> items;
    for (auto& [name, value] : arguments.named) {
      QUIRE_TRY(Value key, runtime_.make_string(name));
      items.emplace_back(std::move(key), std::move(value));
    }
    QUIRE_TRY(Value dict, runtime_.make_dict(std::move(items)));
    scope_->set("kwargs", std::move(dict));
  } else if (!arguments.named.empty()) {
    return template_error(fmt::format("macro '{}' takes no keyword argument '{}'", definition.name, arguments.named.front().first));
  }
  if (definition.uses_varargs) {
    QUIRE_TRY(Value rest, runtime_.make_list(ListKind::kTuple, std::move(arguments.positional)));
    scope_->set("varargs", std::move(rest));
  } else if (!arguments.positional.empty()) {
    return template_error(
        fmt::format("macro '{}' takes not more than {} argument(s)", definition.name, definition.parameters.size()));
  }
  return {};
}

Result<Value> Evaluator::call_function(std::string_view name, const CallArguments& arguments) {
  if (name == "raise_exception") {
    const Value* message = arguments.find(0, "message");
    QUIRE_TRY(const MarkedText text, message == nullptr ? Result<MarkedText>(MarkedText()) : to_text(runtime_, *message));
    return make_error(ErrorCode::kInvalidArgument, text.text());
  }
  if (name == "strftime_now") {
    const Value* format = arguments.find(0, "format");
    if (format == nullptr || format->as_string() == nullptr) return template_error("strftime_now needs a format");
    QUIRE_TRY_STATUS(runtime_.charge_new_text(8 * format->as_string()->size()));
    return runtime_.make_string(format_time(runtime_.now(), *format->as_string()));
  }
  if (name == "namespace") return make_namespace(arguments);
  if (name == "range") return make_range(arguments);
  if (name == "dict") return make_dict(arguments);
  QUIRE_TRY(Sequencer * sequencer, runtime_.make_object<Sequencer>());
  sequencer->is_joiner = name == "joiner";
  sequencer->items = arguments.positional;
  if (sequencer->is_joiner) {
    const Value* separator = arguments.find(0, "sep");
    QUIRE_TRY(Value text, separator == nullptr ? runtime_.make_string(", ") : Result<Value>(*separator));
    sequencer->items = {std::move(text)};
  }
  return Value(sequencer);
}

Result<Value> Evaluator::call_object_method(Object& object, const std::string& name, const CallArguments& arguments) {
  if (auto* loop = dynamic_cast<Loop*>(&object)) {
    if (name == "cycle" && !arguments.positional.empty()) {
      return arguments.positional[static_cast<size_t>(loop->index) % arguments.positional.size()];
    }
    if (name == "changed") {
      QUIRE_TRY(Value now, runtime_.make_list(ListKind::kTuple, arguments.positional));
      const bool changed = !loop->has_changed || !equal(now, loop->last_changed, runtime_.meter());
      loop->has_changed = true;
      loop->last_changed = std::move(now);
      return Value(changed);
    }
  }
  if (auto* cycler = dynamic_cast<Sequencer*>(&object); cycler != nullptr && !cycler->is_joiner && !cycler->items.empty()) {
    if (name == "next") {
      const size_t place = cycler->next;
      cycler->next = (place + 1) % cycler->items.size();
      return cycler->items[place];
    }
    if (name == "reset") return cycler->next = 0, Value(None{});
  }
  QUIRE_TRY(const Value callee, attribute_of(Value(&object), name));
  return call(callee, arguments);
}

Result<Value> Evaluator::make_namespace(const CallArguments& arguments) {
  QUIRE_TRY(Namespace * space, runtime_.make_object<Namespace>());
  for (const Value& source : arguments.positional) {
    if (source.as_dict() == nullptr) return template_error("namespace() takes named arguments and dicts");
    for (const auto& [key, value] : source.as_dict()->items) {
      QUIRE_TRY_STATUS(runtime_.charge(1 + static_cast<int64_t>(space->attributes.size())));
      if (key.as_string() != nullptr && space->find(*key.as_string()) == nullptr)
        space->attributes.emplace_back(*key.as_string(), value);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    QUIRE_TRY_STATUS(runtime_.charge(1 + static_cast<int64_t>(space->attributes.size())));
    if (Value* attribute = space->find(name)) {
      *attribute = value;
    } else {
      space->attributes.emplace_back(name, value);
    }
  }
  return Value(space);
}

Result<Value> Evaluator::make_range(const CallArguments& arguments) {
  int64_t parts[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) return template_error(fmt::format("range expected 1 to 3 arguments, got {}", count));
  for (size_t i = 0; i < count; ++i) {
    const Value& part = arguments.positional[i];
    QUIRE_TRY_STATUS(require_defined(part));
    if (!part.as_integer(parts[count == 1 ? 1 : i])) {
      return template_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(part)));
    }
  }
  const auto [start, stop, step] = std::tuple(parts[0], parts[1], parts[2]);
  if (step == 0) return template_error("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      return make_error(ErrorCode::kLimit, fmt::format("range() of more than {} numbers", kMaxRange));
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return runtime_.make_list(ListKind::kList, std::move(items));
}

Result<Value> Evaluator::make_dict(const CallArguments& arguments) {
  std::vector<Dict::Item> items;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    if (source.as_dict() != nullptr) {
      items = source.as_dict()->items;
    } else {
      QUIRE_TRY(const std::vector<Value> pairs, iterate(runtime_, source));
      for (const Value& pair : pairs) {
        QUIRE_TRY(const std::vector<Value> parts, iterate(runtime_, pair));
        if (parts.size() != 2) return template_error("dict() needs pairs");
        items.emplace_back(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    QUIRE_TRY(Value key, runtime_.make_string(name));
    items.emplace_back(std::move(key), value);
  }
  return runtime_.make_dict(std::move(items));
}

}  // namespace quire::chat
