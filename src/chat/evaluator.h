// Runs a compiled template.
//
// Names are looked up through a chain of scopes, innermost first: a loop's turn, a macro's call, a with or a call block each have
// one; if and set have none. What a scope is given goes with it, except by way of a namespace. A macro remembers the scope that it
// was defined in; such scopes live until the render ends.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/runtime.h"
#include "chat/syntax.h"

namespace quire::chat {

class Scope {
 public:
  Scope(Meter& meter, Scope* parent) : parent_(parent), meter_(meter) {}
  ~Scope() { meter_.live_bytes -= kBytesPerVariable * static_cast<int64_t>(variables_.size()); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  [[nodiscard]] Scope* parent() const { return parent_; }
  // nullptr when this scope has no variable of the name.
  [[nodiscard]] const Value* find(std::string_view name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : &found->second;
  }
  void set(const std::string& name, Value value) {
    if (variables_.insert_or_assign(name, std::move(value)).second) meter_.live_bytes += kBytesPerVariable;
  }

  bool captured = false;

 private:
  static constexpr int64_t kBytesPerVariable = 128;

  Scope* parent_;
  Meter& meter_;
  std::map<std::string, Value, std::less<>> variables_;
};

// A macro, or the caller of a call block.
struct Macro : Object {
  Macro(const MacroDefinition& d, Scope* s) : definition(d), scope(s) {}
  [[nodiscard]] std::string_view type_name() const override { return "Macro"; }
  [[nodiscard]] bool callable() const override { return true; }
  const MacroDefinition& definition;
  Scope* scope;
};

// `loop`. Callable in a recursive loop.
struct Loop : Object {
  [[nodiscard]] std::string_view type_name() const override { return "LoopContext"; }
  [[nodiscard]] bool callable() const override { return true; }
  const For* statement = nullptr;
  Scope* scope = nullptr;    // around the loop
  std::vector<Value> items;  // empty again after the loop
  int64_t count = 0;
  int64_t index = 0;  // from 0
  int64_t level = 0;  // of recursion, from 0
  Value last_changed;
  bool has_changed = false;
};

// raise_exception, strftime_now, namespace, range, dict, cycler, joiner.
struct Function : Object {
  explicit Function(std::string_view n) : name(n) {}
  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  [[nodiscard]] bool callable() const override { return true; }
  std::string_view name;
};

// cycler(a, b, ...): gives its items in turn; joiner(separator): gives nothing the first time, the separator from then on.
struct Sequencer : Object {
  [[nodiscard]] std::string_view type_name() const override { return is_joiner ? "Joiner" : "Cycler"; }
  [[nodiscard]] bool callable() const override { return is_joiner; }
  bool is_joiner = false;
  std::vector<Value> items;
  size_t next = 0;
};

class Evaluator {
 public:
  explicit Evaluator(Runtime& runtime);

  // `variables` become the outermost scope's.
  Result<MarkedText> run(const Program& program, std::vector<std::pair<std::string, Value>> variables);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // A scope as long as it lives, kept on when something captured it.
  class ScopeGuard;

  // Statements.
  Result<Flow> run_block(const Block& block);
  Result<Flow> run_statement(const Statement& statement);
  Result<Flow> run(const TextOutput& node);
  Result<Flow> run(const ExpressionOutput& node);
  Result<Flow> run(const If& node);
  Result<Flow> run(const For& node);
  Result<Flow> run(const Set& node);
  Result<Flow> run(const SetBlock& node);
  Result<Flow> run(const MacroDefinition& node);
  Result<Flow> run(const CallBlock& node);
  Result<Flow> run(const FilterBlock& node);
  Result<Flow> run(const With& node);
  Result<Flow> run(const PlainBlock& node);
  Result<Flow> run(const Break& node);
  Result<Flow> run(const Continue& node);
  Status run_loop(const For& node, const Value& iterable, Scope* around, int64_t level);
  Result<std::vector<Value>> loop_items(const For& node, const Value& iterable);
  Status assign(const Target& target, Value value);
  Status write(const MarkedText& text);
  // The text that a block writes.
  Result<MarkedText> capture(const Block& block);
  Result<Value> captured_value(const Block& block, const Expression* filter);
  void capture_scopes();

  // Expressions.
  Result<Value> evaluate(const Expression& expression);
  Result<Value> evaluate(const Literal& node);
  Result<Value> evaluate(const Name& node);
  Result<Value> evaluate(const ListDisplay& node);
  Result<Value> evaluate(const DictDisplay& node);
  Result<Value> evaluate(const Attribute& node);
  Result<Value> evaluate(const Subscript& node);
  Result<Value> evaluate(const Slice& node);
  Result<Value> evaluate(const Call& node);
  Result<Value> evaluate(const Filter& node);
  Result<Value> evaluate(const Test& node);
  Result<Value> evaluate(const Unary& node);
  Result<Value> evaluate(const Binary& node);
  Result<Value> evaluate(const Logical& node);
  Result<Value> evaluate(const Compare& node);
  Result<Value> evaluate(const Concatenation& node);
  Result<Value> evaluate(const Conditional& node);
  Result<bool> compare(Comparison comparison, const Value& left, const Value& right);
  Result<Value> attribute_of(const Value& object, const std::string& name);
  Result<Value> loop_attribute(const Loop& loop, const std::string& name);

  // Calls.
  Result<CallArguments> evaluate(const Arguments& arguments);
  Result<Value> call(const Value& callee, CallArguments arguments);
  Result<Value> call_macro(const Macro& macro, CallArguments arguments);
  Status bind_parameters(const Macro& macro, CallArguments& arguments);
  Status bind_extra_arguments(const Macro& macro, CallArguments& arguments);
  Result<Value> call_function(std::string_view name, const CallArguments& arguments);
  Result<Value> call_object_method(Object& object, const std::string& name, const CallArguments& arguments);
  Result<Value> make_namespace(const CallArguments& arguments);
  Result<Value> make_range(const CallArguments& arguments);
  Result<Value> make_dict(const CallArguments& arguments);

  Runtime& runtime_;
  Scope* scope_ = nullptr;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;
  MarkedText output_;                    // of the capture under way
  int64_t outer_output_ = 0;             // bytes of the captures around it
  const Value* filter_block_ = nullptr;  // what the innermost operand of a block's filters stands for
  bool error_has_place_ = false;
};

class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator& evaluator, Scope* parent)
      : evaluator_(evaluator), outer_(evaluator.scope_), scope_(std::make_unique<Scope>(evaluator.runtime_.meter(), parent)) {
    evaluator_.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    evaluator_.scope_ = outer_;
    if (scope_->captured) evaluator_.kept_scopes_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace quire::chat
