#include "chat/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::chat {
namespace {

constexpr std::string_view kFunctions[] = {"raise_exception", "strftime_now", "namespace", "range", "dict", "cycler", "joiner"};

}  // namespace

Evaluator::Evaluator(Runtime& runtime) : runtime_(runtime) {}

Result<MarkedText> Evaluator::run(const Program& program, std::vector<std::pair<std::string, Value>> variables) {
  const ScopeGuard globals(*this, nullptr);
  for (const std::string_view name : kFunctions) {
    QUIRE_TRY(Function * function, runtime_.make_object<Function>(name));
    scope_->set(std::string(name), Value(function));
  }
  for (auto& [name, value] : variables) scope_->set(name, std::move(value));
  const ScopeGuard template_scope(*this, scope_);
  QUIRE_TRY_STATUS(run_block(program.body));
  return std::move(output_);
}

Result<Evaluator::Flow> Evaluator::run_block(const Block& block) {
  const DepthGuard guard(runtime_);
  QUIRE_TRY_STATUS(guard.status());
  for (const Statement* statement : block) {
    QUIRE_TRY(const Flow flow, run_statement(*statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run_statement(const Statement& statement) {
  auto result = runtime_.charge(1).ok() ? std::visit([this](const auto& node) { return run(node); }, statement.node)
                                        : Result<Flow>(runtime_.charge(1).error());
  if (result.ok() || error_has_place_ || result.error().code == ErrorCode::kInvalidArgument) return result;
  error_has_place_ = true;
  return at(fmt::format("chat template, line {}", statement.place.line), result.error());
}

Status Evaluator::write(const MarkedText& text) {
  QUIRE_TRY_STATUS(runtime_.charge_text(text.bytes()));
  if (outer_output_ + static_cast<int64_t>(output_.bytes() + text.bytes()) > runtime_.limits().output_bytes) {
    return make_error(ErrorCode::kLimit, fmt::format("the template writes more than {} bytes", runtime_.limits().output_bytes));
  }
  output_.append(text);
  return {};
}

Result<MarkedText> Evaluator::capture(const Block& block) {
  MarkedText outer = std::exchange(output_, {});
  outer_output_ += static_cast<int64_t>(outer.bytes());
  const auto flow = run_block(block);
  outer_output_ -= static_cast<int64_t>(outer.bytes());
  MarkedText text = std::exchange(output_, std::move(outer));
  if (!flow.ok()) return flow.error();
  return text;
}

Result<Value> Evaluator::captured_value(const Block& block, const Expression* filter) {
  QUIRE_TRY(MarkedText text, capture(block));
  QUIRE_TRY(const Value value, runtime_.make_string(std::move(text)));
  if (filter == nullptr) return value;
  const Value* outer = std::exchange(filter_block_, &value);
  auto filtered = evaluate(*filter);
  filter_block_ = outer;
  return filtered;
}

void Evaluator::capture_scopes() {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent()) scope->captured = true;
}

Result<Evaluator::Flow> Evaluator::run(const TextOutput& node) {
  QUIRE_TRY_STATUS(write(*node.text.as_marked()));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const ExpressionOutput& node) {
  QUIRE_TRY(const Value value, evaluate(*node.value));
  if (const MarkedText* text = value.as_marked()) {
    QUIRE_TRY_STATUS(write(*text));
    return Flow::kNext;
  }
  QUIRE_TRY(const MarkedText text, to_text(runtime_, value));
  QUIRE_TRY_STATUS(write(text));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const If& node) {
  for (const auto& [condition, block] : node.branches) {
    QUIRE_TRY(const Value value, evaluate(*condition));
    if (is_true(value)) return run_block(block);
  }
  return run_block(node.otherwise);
}

Result<Evaluator::Flow> Evaluator::run(const For& node) {
  QUIRE_TRY(const Value iterable, evaluate(*node.iterable));
  QUIRE_TRY_STATUS(run_loop(node, iterable, scope_, 0));
  return Flow::kNext;
}

// The items of a loop; with "if", those for which the condition holds (it sees the target, but no `loop`).
Result<std::vector<Value>> Evaluator::loop_items(const For& node, const Value& iterable) {
  QUIRE_TRY(std::vector<Value> items, iterate(runtime_, iterable));
  if (node.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard turn(*this, scope_);
    QUIRE_TRY_STATUS(assign(node.target, item));
    QUIRE_TRY(const Value condition, evaluate(*node.condition));
    if (is_true(condition)) kept.push_back(std::move(item));
  }
  return kept;
}

Status Evaluator::run_loop(const For& node, const Value& iterable, Scope* around, int64_t level) {
  Scope* outer = std::exchange(scope_, around);
  const auto body = [&]() -> Status {
    QUIRE_TRY(std::vector<Value> items, loop_items(node, iterable));
    if (items.empty()) {
      const ScopeGuard otherwise(*this, around);
      QUIRE_TRY_STATUS(run_block(node.otherwise));
      return {};
    }
    const auto bytes = static_cast<int64_t>(items.size() * sizeof(Value));
    runtime_.meter().live_bytes += bytes;
    QUIRE_TRY(Loop * loop, runtime_.make_object<Loop>());
    loop->statement = &node;
    loop->scope = around;
    loop->level = level;
    loop->count = static_cast<int64_t>(items.size());
    loop->items = std::move(items);
    if (node.recursive) capture_scopes();
    for (loop->index = 0; loop->index < loop->count; ++loop->index) {
      const ScopeGuard turn(*this, around);
      scope_->set("loop", Value(loop));
      QUIRE_TRY_STATUS(assign(node.target, loop->items[static_cast<size_t>(loop->index)]));
      QUIRE_TRY(const Flow flow, run_block(node.body));
      if (flow == Flow::kBreak) break;
    }
    loop->items = {};
    runtime_.meter().live_bytes -= bytes;
    return {};
  };
  Status status = body();
  scope_ = outer;
  return status;
}

Status Evaluator::assign(const Target& target, Value value) {
  QUIRE_TRY_STATUS(runtime_.charge(1));
  if (target.is_tuple) {
    QUIRE_TRY(std::vector<Value> parts, iterate(runtime_, value));
    if (parts.size() != target.items.size()) {
      return template_error(
          parts.size() < target.items.size()
              ? fmt::format("not enough values to unpack (expected {}, got {})", target.items.size(), parts.size())
              : fmt::format("too many values to unpack (expected {})", target.items.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) QUIRE_TRY_STATUS(assign(target.items[i], std::move(parts[i])));
    return {};
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, std::move(value));
    return {};
  }
  QUIRE_TRY(const Value object, evaluate(Name{target.name}));
  auto* space = dynamic_cast<Namespace*>(object.as_object());
  if (space == nullptr) return template_error("cannot assign attribute on non-namespace object");
  QUIRE_TRY_STATUS(runtime_.charge(static_cast<int64_t>(space->attributes.size())));
  if (Value* attribute = space->find(target.attribute)) {
    *attribute = std::move(value);
  } else {
    space->attributes.emplace_back(target.attribute, std::move(value));
  }
  return {};
}

Result<Evaluator::Flow> Evaluator::run(const Set& node) {
  QUIRE_TRY(Value value, evaluate(*node.value));
  QUIRE_TRY_STATUS(assign(node.target, std::move(value)));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const SetBlock& node) {
  Result<Value> value = Value();
  {
    const ScopeGuard scope(*this, scope_);
    value = captured_value(node.body, node.filter);
  }
  if (!value.ok()) return value.error();
  QUIRE_TRY_STATUS(assign(node.target, *value));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const MacroDefinition& node) {
  QUIRE_TRY(Macro * macro, runtime_.make_object<Macro>(node, scope_));
  capture_scopes();
  scope_->set(node.name, Value(macro));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const CallBlock& node) {
  const auto& call_node = std::get<Call>(node.call->node);
  QUIRE_TRY(Macro * caller, runtime_.make_object<Macro>(node.caller, scope_));
  capture_scopes();
  QUIRE_TRY(const Value callee, evaluate(*call_node.callee));
  QUIRE_TRY(CallArguments arguments, evaluate(call_node.arguments));
  arguments.named.emplace_back("caller", Value(caller));
  QUIRE_TRY(const Value value, call(callee, std::move(arguments)));
  QUIRE_TRY(const MarkedText text, to_text(runtime_, value));
  QUIRE_TRY_STATUS(write(text));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const FilterBlock& node) {
  const ScopeGuard scope(*this, scope_);
  QUIRE_TRY(const Value value, captured_value(node.body, node.filter));
  QUIRE_TRY(const MarkedText text, to_text(runtime_, value));
  QUIRE_TRY_STATUS(write(text));
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::run(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, expression] : node.assignments) {
    QUIRE_TRY(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) QUIRE_TRY_STATUS(assign(node.assignments[i].first, std::move(values[i])));
  return run_block(node.body);
}

Result<Evaluator::Flow> Evaluator::run(const PlainBlock& node) { return run_block(node.body); }
Result<Evaluator::Flow> Evaluator::run(const Break&) { return Flow::kBreak; }
Result<Evaluator::Flow> Evaluator::run(const Continue&) { return Flow::kContinue; }

Result<Value> Evaluator::evaluate(const Expression& expression) {
  const DepthGuard guard(runtime_);
  QUIRE_TRY_STATUS(guard.status());
  QUIRE_TRY_STATUS(runtime_.charge(1));
  return std::visit([this](const auto& node) { return evaluate(node); }, expression.node);
}

Result<Value> Evaluator::evaluate(const Literal& node) { return node.value; }

Result<Value> Evaluator::evaluate(const Name& node) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent()) {
    if (const Value* found = scope->find(node.name)) return *found;
    QUIRE_TRY_STATUS(runtime_.charge(1));
  }
  return runtime_.make_undefined(fmt::format("'{}' is undefined", node.name));
}

Result<Value> Evaluator::evaluate(const ListDisplay& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const Expression* item : node.items) {
    QUIRE_TRY(Value value, evaluate(*item));
    items.push_back(std::move(value));
  }
  return runtime_.make_list(node.kind, std::move(items));
}

Result<Value> Evaluator::evaluate(const DictDisplay& node) {
  std::vector<Dict::Item> items;
  for (const auto& [key, value] : node.items) {
    QUIRE_TRY(Value key_value, evaluate(*key));
    QUIRE_TRY(Value item, evaluate(*value));
    items.emplace_back(std::move(key_value), std::move(item));
  }
  return runtime_.make_dict(std::move(items));
}

Result<Value> Evaluator::evaluate(const Attribute& node) {
  QUIRE_TRY(const Value object, evaluate(*node.object));
  return attribute_of(object, node.name);
}

Result<Value> Evaluator::attribute_of(const Value& object, const std::string& name) {
  if (const auto* loop = dynamic_cast<const Loop*>(object.as_object())) return loop_attribute(*loop, name);
  if (const auto* cycler = dynamic_cast<const Sequencer*>(object.as_object()); cycler != nullptr && name == "current") {
    return cycler->items.empty() ? runtime_.make_undefined("the cycler is empty") : Result<Value>(cycler->items[cycler->next]);
  }
  return get_attribute(runtime_, object, name);
}

Result<Value> Evaluator::loop_attribute(const Loop& loop, const std::string& name) {
  if (name == "index") return Value(loop.index + 1);
  if (name == "index0") return Value(loop.index);
  if (name == "revindex") return Value(loop.count - loop.index);
  if (name == "revindex0") return Value(loop.count - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index == loop.count - 1);
  if (name == "length") return Value(loop.count);
  if (name == "depth") return Value(loop.level + 1);
  if (name == "depth0") return Value(loop.level);
  if (name == "previtem") {
    if (loop.index == 0 || loop.items.empty()) return runtime_.make_undefined("there is no previous item");
    return loop.items[static_cast<size_t>(loop.index - 1)];
  }
  if (name == "nextitem") {
    if (loop.index + 1 >= loop.count || loop.items.empty()) return runtime_.make_undefined("there is no next item");
    return loop.items[static_cast<size_t>(loop.index + 1)];
  }
  return runtime_.make_undefined(fmt::format("'loop' has no attribute '{}'", name));
}

Result<Value> Evaluator::evaluate(const Subscript& node) {
  QUIRE_TRY(const Value object, evaluate(*node.object));
  QUIRE_TRY(const Value index, evaluate(*node.index));
  if (object.as_object() != nullptr && index.as_string() != nullptr) return attribute_of(object, *index.as_string());
  return get_item(runtime_, object, index);
}

Result<Value> Evaluator::evaluate(const Slice& node) {
  QUIRE_TRY(const Value object, evaluate(*node.object));
  Value parts[3];
  const Expression* expressions[3] = {node.start, node.stop, node.step};
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = Value(None{});
    if (expressions[i] == nullptr) continue;
    QUIRE_TRY(parts[i], evaluate(*expressions[i]));
  }
  return get_slice(runtime_, object, parts[0], parts[1], parts[2]);
}

Result<Value> Evaluator::evaluate(const Filter& node) {
  Value operand;
  if (node.operand != nullptr) {
    QUIRE_TRY(operand, evaluate(*node.operand));
  } else if (filter_block_ != nullptr) {
    operand = *filter_block_;
  }
  QUIRE_TRY(const CallArguments arguments, evaluate(node.arguments));
  return apply_filter(runtime_, node.name, operand, arguments);
}

Result<Value> Evaluator::evaluate(const Test& node) {
  QUIRE_TRY(const Value operand, evaluate(*node.operand));
  QUIRE_TRY(const CallArguments arguments, evaluate(node.arguments));
  QUIRE_TRY(const bool passes, apply_test(runtime_, node.name, operand, arguments));
  return Value(passes);
}

Result<Value> Evaluator::evaluate(const Unary& node) {
  QUIRE_TRY(const Value operand, evaluate(*node.operand));
  if (node.operation == UnaryOperator::kNot) return Value(!is_true(operand));
  QUIRE_TRY_STATUS(require_defined(operand));
  const bool negates = node.operation == UnaryOperator::kNegate;
  if (!operand.is_number()) {
    return template_error(fmt::format("bad operand type for unary {}: '{}'", negates ? '-' : '+', type_name(operand)));
  }
  if (negates && operand.as<double>() != nullptr) return Value(-*operand.as<double>());
  return negates ? arithmetic(runtime_, '-', Value(int64_t{0}), operand) : arithmetic(runtime_, '+', Value(int64_t{0}), operand);
}

Result<Value> Evaluator::evaluate(const Binary& node) {
  QUIRE_TRY(const Value left, evaluate(*node.left));
  QUIRE_TRY(const Value right, evaluate(*node.right));
  switch (node.operation) {
    case BinaryOperator::kAdd: return add(runtime_, left, right);
    case BinaryOperator::kSubtract: return arithmetic(runtime_, '-', left, right);
    case BinaryOperator::kMultiply: return arithmetic(runtime_, '*', left, right);
    case BinaryOperator::kDivide: return arithmetic(runtime_, '/', left, right);
    case BinaryOperator::kFloorDivide: return arithmetic(runtime_, 'f', left, right);
    case BinaryOperator::kModulo: return arithmetic(runtime_, '%', left, right);
    case BinaryOperator::kPower: return arithmetic(runtime_, '^', left, right);
  }
  return Value();
}

Result<Value> Evaluator::evaluate(const Logical& node) {
  QUIRE_TRY(Value left, evaluate(*node.left));
  if (is_true(left) != node.is_and) return left;
  return evaluate(*node.right);
}

Result<bool> Evaluator::compare(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::kEqual: return equal(left, right, runtime_.meter());
    case Comparison::kNotEqual: return !equal(left, right, runtime_.meter());
    case Comparison::kLess: return less(runtime_, left, right, "<");
    case Comparison::kLessEqual: return less(runtime_, left, right, "<=");
    case Comparison::kGreater: return less(runtime_, left, right, ">");
    case Comparison::kGreaterEqual: return less(runtime_, left, right, ">=");
    case Comparison::kIn: return contains(runtime_, right, left);
    case Comparison::kNotIn: break;
  }
  QUIRE_TRY(const bool inside, contains(runtime_, right, left));
  return !inside;
}

Result<Value> Evaluator::evaluate(const Compare& node) {
  QUIRE_TRY(Value left, evaluate(*node.first));
  for (const auto& [comparison, operand] : node.rest) {
    QUIRE_TRY(Value right, evaluate(*operand));
    QUIRE_TRY(const bool holds, compare(comparison, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::evaluate(const Concatenation& node) {
  TextBuilder out(runtime_);
  for (const Expression* part : node.parts) {
    QUIRE_TRY(const Value value, evaluate(*part));
    QUIRE_TRY(const MarkedText text, to_text(runtime_, value));
    QUIRE_TRY_STATUS(out.append(text));
  }
  return runtime_.make_string(std::move(out.text()));
}

Result<Value> Evaluator::evaluate(const Conditional& node) {
  QUIRE_TRY(const Value condition, evaluate(*node.condition));
  if (is_true(condition)) return evaluate(*node.value);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise);
  return runtime_.make_undefined("the inline if-expression evaluated to false and no else section was defined.");
}

}  // namespace quire::chat
