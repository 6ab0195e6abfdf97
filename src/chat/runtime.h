// What the parts of the interpreter share while a template is rendered: bounds, the making of values, and errors.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/limits.h"
#include "chat/template.h"
#include "chat/value.h"

namespace quire::chat {

// The values that a call, filter or test is given.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at a place or of a name; nullptr when it was not given.
  [[nodiscard]] const Value* find(size_t index, std::string_view name) const;
};

// An error of the template itself, in Python's words. The place is added where the statement is known.
[[nodiscard]] Error template_error(std::string message);

class Runtime {
 public:
  Runtime(const Limits& limits, const CivilTime& now) : limits_(limits), now_(now) { meter_.work_left = limits.work; }

  // Takes work off; an error when none is left, or when the values alive have grown beyond their bound.
  Status charge(int64_t work);
  // The same for reading or writing so many bytes of text.
  Status charge_text(size_t bytes) { return charge(1 + static_cast<int64_t>(bytes / 16)); }
  // Before making a text of so many bytes.
  Status charge_new_text(uint64_t bytes);

  Result<Value> make_string(std::string text) { return make_string(MarkedText(std::move(text))); }
  Result<Value> make_string(MarkedText text);
  Result<Value> make_list(ListKind kind, std::vector<Value> items);
  Result<Value> make_dict(std::vector<Dict::Item> items);
  // A missing thing; using it raises `message`.
  Result<Value> make_undefined(std::string message);

  // An object that lives until the render ends.
  template <typename T, typename... Arguments>
  Result<T*> make_object(Arguments&&... arguments) {
    meter_.live_bytes += sizeof(T) + 64;
    QUIRE_TRY_STATUS(charge(1));
    auto owned = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  // Nested evaluations under way; see DepthGuard.
  int depth = 0;

  [[nodiscard]] Meter& meter() { return meter_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const CivilTime& now() const { return now_; }

 private:
  // Destroyed last: every value alive counts down on it.
  Meter meter_;
  Limits limits_;
  CivilTime now_;
  std::vector<std::unique_ptr<Object>> objects_;
};

// Counts one nested evaluation as long as it lives; its status is an error when there are too many.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) { ++runtime_.depth; }
  ~DepthGuard() { --runtime_.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  [[nodiscard]] Status status() const;

 private:
  Runtime& runtime_;
};

// A text under way that charges what is appended.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}
  Status append(std::string_view text);
  Status append(const MarkedText& text) { return append_part(text, 0, text.text().size()); }
  Status append_part(const MarkedText& text, size_t offset, size_t length);
  [[nodiscard]] MarkedText& text() { return text_; }

 private:
  Status charge(size_t bytes);

  Runtime& runtime_;
  MarkedText text_;
};

// `namespace(...)`: the one thing that templates can change.
struct Namespace : Object {
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
  std::vector<std::pair<std::string, Value>> attributes;
  [[nodiscard]] Value* find(std::string_view name);
};

// A method taken from its object without being called, as in "x.items is defined".
struct BoundMethod : Object {
  BoundMethod(Value o, std::string n) : object(std::move(o)), name(std::move(n)) {}
  [[nodiscard]] std::string_view type_name() const override { return "builtin_function_or_method"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value object;
  std::string name;
};

// Printed forms (printing.cc). str() and repr() are Python's; JSON is what transformers' tojson filter writes.
[[nodiscard]] Result<MarkedText> to_text(Runtime& runtime, const Value& value);
[[nodiscard]] Result<MarkedText> to_repr(Runtime& runtime, const Value& value);
struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool indents = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
[[nodiscard]] Result<MarkedText> to_json(Runtime& runtime, const Value& value, const JsonStyle& style);
[[nodiscard]] std::string format_float(double value);
[[nodiscard]] std::string format_time(const CivilTime& time, std::string_view format);

// Operators (operators.cc).
[[nodiscard]] Result<Value> add(Runtime& runtime, const Value& left, const Value& right);
[[nodiscard]] Result<Value> arithmetic(Runtime& runtime, char operation, const Value& left, const Value& right);
[[nodiscard]] Result<bool> less(Runtime& runtime, const Value& left, const Value& right, std::string_view sign);
[[nodiscard]] Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);
[[nodiscard]] Result<Value> get_attribute(Runtime& runtime, const Value& object, const std::string& name);
[[nodiscard]] Result<Value> get_item(Runtime& runtime, const Value& object, const Value& index);
// start, stop and step may be None.
[[nodiscard]] Result<Value> get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                                      const Value& step);
// What a loop over the value visits.
[[nodiscard]] Result<std::vector<Value>> iterate(Runtime& runtime, const Value& value);
// Python's len().
[[nodiscard]] Result<int64_t> length_of(Runtime& runtime, const Value& value);
// The error of using a value that is undefined; ok for any other.
[[nodiscard]] Status require_defined(const Value& value);
// Python's "%" on a string (formatting.cc).
[[nodiscard]] Result<Value> format_percent(Runtime& runtime, const MarkedText& format, const Value& arguments);

// Methods of strings, lists and dicts (methods.cc), filters (filters.cc), tests (tests.cc).
[[nodiscard]] bool has_method(const Value& object, std::string_view name);
[[nodiscard]] Result<Value> call_method(Runtime& runtime, const Value& object, const std::string& name,
                                        const CallArguments& arguments);
[[nodiscard]] Result<Value> apply_filter(Runtime& runtime, const std::string& name, const Value& operand,
                                         const CallArguments& arguments);
[[nodiscard]] Result<bool> apply_test(Runtime& runtime, const std::string& name, const Value& operand,
                                      const CallArguments& arguments);

}  // namespace quire::chat
