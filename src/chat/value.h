// The values that a chat template computes with: Python's, as far as templates can see them.
//
// Strings, lists and dicts are immutable (templates run in Jinja's immutable sandbox) and shared by reference counts. They cannot
// form cycles, and their depth is bounded (kMaxValueDepth), so that destroying, printing and comparing them may recurse.
// Everything with an identity (namespaces, macros, loops) is an Object that lives in the render's arena until the render ends;
// values point at objects without owning them, so that objects may point at each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/marked_text.h"

namespace quire::chat {

class Value;

// Counts the bytes of the values alive, and the work done. One for a render; constants of a compiled template have none.
struct Meter {
  int64_t live_bytes = 0;
  int64_t work_left = 0;
};

// Adds its size to a meter as long as it lives.
class Metered {
 public:
  Metered(Meter* meter, size_t bytes) : meter_(meter), bytes_(static_cast<int64_t>(bytes)) {
    if (meter_ != nullptr) meter_->live_bytes += bytes_;
  }
  ~Metered() {
    if (meter_ != nullptr) meter_->live_bytes -= bytes_;
  }
  Metered(const Metered&) = delete;
  Metered& operator=(const Metered&) = delete;

 private:
  Meter* meter_;
  int64_t bytes_;
};

struct String : Metered {
  String(Meter* meter, MarkedText t) : Metered(meter, sizeof(String) + t.bytes()), text(std::move(t)) {}
  const MarkedText text;
};

enum class ListKind {
  kList,
  kTuple,
  kIterator,  // what filters like map and methods like items give: can be looped over, has no length and no elements by index
};

struct List : Metered {
  // Depths of more than kMaxValueDepth are refused by whoever makes lists and dicts (Runtime).
  List(Meter* meter, ListKind k, std::vector<Value> i);
  const ListKind kind;
  const std::vector<Value> items;
  const int depth;  // 1 more than the deepest item
};

// In order of insertion; keys are found by binary search.
struct Dict : Metered {
  using Item = std::pair<Value, Value>;
  Dict(Meter* meter, std::vector<Item> i);
  // nullptr when the key is not there.
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;

  std::vector<Item> items;  // no two keys are equal
  int depth;

 private:
  std::vector<uint32_t> by_key_;
};

// What a missing name, attribute or element gives; the message is the error that using it raises.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

struct None {};

// Things with an identity; see above.
struct Object {
  virtual ~Object() = default;
  // "Namespace", "Macro", ...: the type's name in messages and printed forms.
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  [[nodiscard]] virtual bool callable() const { return false; }
};

class Value {
 public:
  Value() : state_(Undefined{}) {}
  Value(None none) : state_(none) {}  // NOLINT(google-explicit-constructor)
  explicit Value(bool value) : state_(value) {}
  explicit Value(int64_t value) : state_(value) {}
  explicit Value(double value) : state_(value) {}
  explicit Value(std::shared_ptr<const String> value) : state_(std::move(value)) {}
  explicit Value(std::shared_ptr<const List> value) : state_(std::move(value)) {}
  explicit Value(std::shared_ptr<const Dict> value) : state_(std::move(value)) {}
  explicit Value(Object* object) : state_(object) {}
  explicit Value(Undefined undefined) : state_(std::move(undefined)) {}

  // The alternative, or nullptr where the value is of another kind.
  template <typename T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&state_);
  }
  [[nodiscard]] const std::string* as_string() const;
  [[nodiscard]] const MarkedText* as_marked() const;  // the same with where its bytes came from
  [[nodiscard]] const List* as_list() const;
  [[nodiscard]] const Dict* as_dict() const;
  [[nodiscard]] Object* as_object() const;
  [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
  [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
  [[nodiscard]] bool is_number() const { return as<bool>() != nullptr || as<int64_t>() != nullptr || as<double>() != nullptr; }
  // Python's int or bool.
  [[nodiscard]] bool as_integer(int64_t& out) const;
  // 0 for everything but lists and dicts.
  [[nodiscard]] int depth() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const String>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, Object*>
      state_;
};

// Python's bool(): false for undefined, None, 0, and what is empty.
[[nodiscard]] bool is_true(const Value& value);

// Python's ==. Takes work from the meter; false once none is left (values that share parts can be exponentially larger than their
// memory), which the render's next charge reports.
[[nodiscard]] bool equal(const Value& a, const Value& b, Meter& meter);

// A total order over numbers, and over the values that may be keys of a dict: all but undefined, lists and dicts.
[[nodiscard]] int compare_numbers(const Value& a, const Value& b);
[[nodiscard]] int compare_keys(const Value& a, const Value& b);
[[nodiscard]] bool can_be_key(const Value& value);

// Python's name of the type: "str", "list", "dict", "int", "NoneType", "Undefined", ...
[[nodiscard]] std::string_view type_name(const Value& value);

}  // namespace quire::chat
