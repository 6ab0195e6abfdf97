#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

// How messages name the object of a failed access: "dict object", "None", ...
std::string object_name(const Value& object) {
  if (object.is_none()) return "None";
  return fmt::format("{} object", type_name(object));
}

Error unsupported_operands(std::string_view operation, const Value& left, const Value& right) {
  return template_error(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", operation, type_name(left), type_name(right)));
}

Error integer_overflow() { return template_error("the result has more than 64 bits"); }

// Python's names of attributes that would change their object, which the sandbox keeps from templates.
bool changes_object(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kOfLists = {"append", "clear",  "extend",  "insert",
                                                               "pop",    "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kOfDicts = {"clear", "pop", "popitem", "setdefault", "update"};
  const List* list = object.as_list();
  if (list != nullptr && list->kind == ListKind::kList) return std::find(kOfLists.begin(), kOfLists.end(), name) != kOfLists.end();
  if (object.as_dict() != nullptr) return std::find(kOfDicts.begin(), kOfDicts.end(), name) != kOfDicts.end();
  return false;
}

Result<Value> repeat(Runtime& runtime, const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (const MarkedText* marked = sequence.as_marked()) {
    const std::string* text = &marked->text();
    if (text->empty() || times == 0) return runtime.make_string("");
    if (times > runtime.limits().memory_bytes) return runtime.charge_new_text(std::numeric_limits<int64_t>::max()).error();
    QUIRE_TRY_STATUS(runtime.charge_new_text(marked->bytes() * static_cast<uint64_t>(times)));
    MarkedText result;
    for (int64_t i = 0; i < times; ++i) result.append(*marked);
    return runtime.make_string(std::move(result));
  }
  const List& list = *sequence.as_list();
  if (list.items.empty()) times = 0;
  if (times > runtime.limits().memory_bytes) return runtime.charge_new_text(std::numeric_limits<int64_t>::max()).error();
  QUIRE_TRY_STATUS(runtime.charge_new_text(list.items.size() * static_cast<uint64_t>(times) * sizeof(Value)));
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  return runtime.make_list(list.kind, std::move(items));
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return template_error("0.0 cannot be raised to a negative power");
    return Value(math::pow(std::abs(static_cast<double>(base)), static_cast<double>(exponent)) *
                 (base < 0 && exponent % 2 != 0 ? -1 : 1));
  }
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return integer_overflow();
    if (base == 0 || base == 1) break;
    if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  }
  return Value(result);
}

Result<Value> integer_arithmetic(char operation, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (operation) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) return integer_overflow();
      return Value(result);
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) return integer_overflow();
      return Value(result);
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) return integer_overflow();
      return Value(result);
    case '^': return integer_power(a, b);
    default: break;
  }
  if (b == 0) return template_error(operation == '/' ? "division by zero" : "integer division or modulo by zero");
  if (operation == '/') return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return operation == '%' ? Result<Value>(Value(int64_t{0})) : integer_arithmetic('-', 0, a);
  // Python rounds down.
  const bool adjusts = a % b != 0 && (a < 0) != (b < 0);
  return Value(operation == '%' ? a % b + (adjusts ? b : 0) : a / b - (adjusts ? 1 : 0));
}

double as_double(const Value& value) {
  int64_t integer = 0;
  return value.as_integer(integer) ? static_cast<double>(integer) : *value.as<double>();
}

Result<Value> float_arithmetic(char operation, double a, double b) {
  switch (operation) {
    case '+': return Value(a + b);
    case '-': return Value(a - b);
    case '*': return Value(a * b);
    case '^':
      if (b == 0) return Value(1.0);
      if (a == 0) return b > 0 ? Result<Value>(Value(0.0)) : template_error("0.0 cannot be raised to a negative power");
      if (a < 0) return template_error("a negative number to a fractional power has no real value");
      return Value(math::pow(a, b));
    default: break;
  }
  if (b == 0) return template_error("float division by zero");
  if (operation == '/') return Value(a / b);
  const double quotient = std::floor(a / b);
  if (operation == 'f') return Value(quotient);
  return Value(std::isfinite(quotient) ? a - quotient * b : std::numeric_limits<double>::quiet_NaN());
}

std::string_view sign_of(char operation) {
  switch (operation) {
    case 'f': return "//";
    case '^': return "** or pow()";
    case '-': return "-";
    case '*': return "*";
    case '/': return "/";
    default: return "%";
  }
}

// Whether a comes before b: -1, 0, 1.
Result<int> order(Runtime& runtime, const Value& a, const Value& b, std::string_view sign) {
  QUIRE_TRY_STATUS(require_defined(a));
  QUIRE_TRY_STATUS(require_defined(b));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.as_string() != nullptr && b.as_string() != nullptr) {
    QUIRE_TRY_STATUS(runtime.charge_text(std::min(a.as_string()->size(), b.as_string()->size())));
    return a.as_string()->compare(*b.as_string());
  }
  const List* x = a.as_list();
  const List* y = b.as_list();
  if (x != nullptr && y != nullptr && x->kind == y->kind && x->kind != ListKind::kIterator) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      QUIRE_TRY_STATUS(runtime.charge(1));
      if (equal(x->items[i], y->items[i], runtime.meter())) continue;
      return order(runtime, x->items[i], y->items[i], sign);
    }
    return static_cast<int>(x->items.size() > y->items.size()) - static_cast<int>(x->items.size() < y->items.size());
  }
  return template_error(fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b)));
}

// The integer of a slice's part; `missing` for None.
Result<int64_t> slice_part(const Value& part, int64_t missing) {
  if (part.is_none()) return missing;
  int64_t value = 0;
  if (part.as_integer(value)) return value;
  QUIRE_TRY_STATUS(require_defined(part));
  return template_error("slice indices must be integers or None or have an __index__ method");
}

// The places that Python's [start:stop:step] takes from a sequence of `size`.
Result<std::vector<size_t>> slice_places(Runtime& runtime, int64_t size, const Value& start, const Value& stop, const Value& step) {
  QUIRE_TRY(const int64_t stride, slice_part(step, 1));
  if (stride == 0) return template_error("slice step cannot be zero");
  const bool forward = stride > 0;
  const int64_t lowest = forward ? 0 : -1;
  const int64_t highest = forward ? size : size - 1;
  const auto bound = [&](int64_t place) { return std::clamp(place < 0 ? place + size : place, lowest, highest); };
  int64_t first = forward ? lowest : highest;
  int64_t last = forward ? highest : lowest;
  if (!start.is_none()) {
    QUIRE_TRY(const int64_t value, slice_part(start, 0));
    first = bound(value);
  }
  if (!stop.is_none()) {
    QUIRE_TRY(const int64_t value, slice_part(stop, 0));
    last = bound(value);
  }
  QUIRE_TRY_STATUS(runtime.charge(size));
  std::vector<size_t> places;
  for (int64_t i = first; forward ? i < last : i > last;) {
    places.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  return places;
}

}  // namespace

Status require_defined(const Value& value) {
  const Undefined* undefined = value.as<Undefined>();
  if (undefined == nullptr) return {};
  return template_error(undefined->message == nullptr ? "undefined value" : *undefined->message);
}

Result<Value> add(Runtime& runtime, const Value& left, const Value& right) {
  if (left.as_marked() != nullptr && right.as_marked() != nullptr) {
    QUIRE_TRY_STATUS(runtime.charge_new_text(left.as_marked()->bytes() + right.as_marked()->bytes()));
    MarkedText sum = *left.as_marked();
    sum.append(*right.as_marked());
    return runtime.make_string(std::move(sum));
  }
  QUIRE_TRY_STATUS(require_defined(left));
  QUIRE_TRY_STATUS(require_defined(right));
  if (left.is_number() && right.is_number()) return arithmetic(runtime, '+', left, right);
  const List* x = left.as_list();
  const List* y = right.as_list();
  if (x != nullptr && y != nullptr && x->kind == y->kind && x->kind != ListKind::kIterator) {
    QUIRE_TRY_STATUS(runtime.charge(static_cast<int64_t>(x->items.size() + y->items.size())));
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return runtime.make_list(x->kind, std::move(items));
  }
  if (left.as_string() != nullptr || (x != nullptr && x->kind != ListKind::kIterator)) {
    const auto name = type_name(left);
    return template_error(fmt::format("can only concatenate {} (not \"{}\") to {}", name, type_name(right), name));
  }
  return unsupported_operands("+", left, right);
}

Result<Value> arithmetic(Runtime& runtime, char operation, const Value& left, const Value& right) {
  if (operation == '%' && left.as_marked() != nullptr) return format_percent(runtime, *left.as_marked(), right);
  QUIRE_TRY_STATUS(require_defined(left));
  QUIRE_TRY_STATUS(require_defined(right));
  int64_t a = 0;
  int64_t b = 0;
  if (left.as_integer(a) && right.as_integer(b)) return integer_arithmetic(operation, a, b);
  if (left.is_number() && right.is_number()) return float_arithmetic(operation, as_double(left), as_double(right));
  if (operation == '*') {
    const auto repeats = [](const Value& value) {
      return value.as_string() != nullptr || (value.as_list() != nullptr && value.as_list()->kind != ListKind::kIterator);
    };
    if (repeats(left) && right.as_integer(b)) return repeat(runtime, left, b);
    if (repeats(right) && left.as_integer(a)) return repeat(runtime, right, a);
  }
  return unsupported_operands(sign_of(operation), left, right);
}

Result<bool> less(Runtime& runtime, const Value& left, const Value& right, std::string_view sign) {
  QUIRE_TRY(const int result, order(runtime, left, right, sign));
  const auto unordered = [](const Value& value) { return value.as<double>() != nullptr && std::isnan(*value.as<double>()); };
  if (unordered(left) || unordered(right)) return false;
  if (sign == "<") return result < 0;
  if (sign == "<=") return result <= 0;
  return sign == ">" ? result > 0 : result >= 0;
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const std::string* text = container.as_string()) {
    QUIRE_TRY_STATUS(runtime.charge_text(text->size()));
    const std::string* part = item.as_string();
    if (part != nullptr) return std::string_view(*text).find(*part) != std::string_view::npos;
    QUIRE_TRY_STATUS(require_defined(item));
    return template_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
  }
  if (const Dict* dict = container.as_dict()) {
    QUIRE_TRY_STATUS(runtime.charge_text(item.as_string() == nullptr ? 0 : item.as_string()->size()));
    if (!can_be_key(item)) return template_error(fmt::format("unhashable type: '{}'", type_name(item)));
    return dict->find(item) != nullptr;
  }
  if (const List* list = container.as_list()) {
    for (const Value& candidate : list->items) {
      QUIRE_TRY_STATUS(runtime.charge(1));
      if (equal(candidate, item, runtime.meter())) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  return template_error(fmt::format("argument of type '{}' is not iterable", type_name(container)));
}

Result<Value> get_attribute(Runtime& runtime, const Value& object, const std::string& name) {
  QUIRE_TRY_STATUS(require_defined(object));
  if (changes_object(object, name)) {
    return runtime.make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  if (has_method(object, name)) {
    QUIRE_TRY(BoundMethod * method, runtime.make_object<BoundMethod>(object, name));
    return Value(method);
  }
  if (const Dict* dict = object.as_dict()) {
    if (const Value* found = dict->find(std::string_view(name))) return *found;
  }
  if (auto* space = dynamic_cast<Namespace*>(object.as_object())) {
    if (const Value* found = space->find(name)) return *found;
  }
  return runtime.make_undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Result<Value> get_item(Runtime& runtime, const Value& object, const Value& index) {
  QUIRE_TRY_STATUS(require_defined(object));
  int64_t place = 0;
  const bool is_integer = index.as_integer(place);
  if (const Dict* dict = object.as_dict()) {
    QUIRE_TRY_STATUS(runtime.charge_text(index.as_string() == nullptr ? 0 : index.as_string()->size()));
    if (const Value* found = can_be_key(index) ? dict->find(index) : nullptr) return *found;
  }
  if (const List* list = object.as_list(); list != nullptr && is_integer && list->kind != ListKind::kIterator) {
    const auto size = static_cast<int64_t>(list->items.size());
    if (place < 0) place += size;
    if (place >= 0 && place < size) return list->items[static_cast<size_t>(place)];
  }
  if (const MarkedText* marked = object.as_marked(); marked != nullptr && is_integer) {
    const std::string* text = &marked->text();
    QUIRE_TRY_STATUS(runtime.charge_text(2 * text->size()));
    if (place < 0) place += static_cast<int64_t>(count_characters(*text));
    const size_t start = place < 0 ? text->size() : offset_of_character(*text, static_cast<size_t>(place));
    if (start < text->size()) {
      return runtime.make_string(marked->part(start, first_character(std::string_view(*text).substr(start)).bytes));
    }
  }
  if (const std::string* name = index.as_string()) return get_attribute(runtime, object, *name);
  QUIRE_TRY(const MarkedText shown, to_repr(runtime, index));
  return runtime.make_undefined(fmt::format("{} has no element {}", object_name(object), shown.text()));
}

Result<Value> get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  QUIRE_TRY_STATUS(require_defined(object));
  if (const List* list = object.as_list(); list != nullptr && list->kind != ListKind::kIterator) {
    QUIRE_TRY(const std::vector<size_t> places, slice_places(runtime, static_cast<int64_t>(list->items.size()), start, stop, step));
    std::vector<Value> items;
    items.reserve(places.size());
    for (const size_t place : places) items.push_back(list->items[place]);
    return runtime.make_list(list->kind, std::move(items));
  }
  if (const MarkedText* marked = object.as_marked()) {
    const std::string* text = &marked->text();
    std::vector<size_t> offsets;
    QUIRE_TRY_STATUS(runtime.charge_new_text(text->size() * sizeof(size_t)));
    for (size_t offset = 0; offset < text->size(); offset += first_character(std::string_view(*text).substr(offset)).bytes) {
      offsets.push_back(offset);
    }
    QUIRE_TRY(const std::vector<size_t> places, slice_places(runtime, static_cast<int64_t>(offsets.size()), start, stop, step));
    offsets.push_back(text->size());
    MarkedText result;
    for (const size_t place : places) result.append_part(*marked, offsets[place], offsets[place + 1] - offsets[place]);
    return runtime.make_string(std::move(result));
  }
  return runtime.make_undefined(fmt::format("{} has no element slice", object_name(object)));
}

Result<std::vector<Value>> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const List* list = value.as_list()) {
    QUIRE_TRY_STATUS(runtime.charge(static_cast<int64_t>(list->items.size())));
    return list->items;
  }
  if (const Dict* dict = value.as_dict()) {
    QUIRE_TRY_STATUS(runtime.charge(static_cast<int64_t>(dict->items.size())));
    for (const auto& [key, item] : dict->items) items.push_back(key);
    return items;
  }
  if (const MarkedText* text = value.as_marked()) {
    for (std::string_view rest = text->text(); !rest.empty();) {
      const size_t bytes = first_character(rest).bytes;
      QUIRE_TRY(Value character, runtime.make_string(text->part(text->text().size() - rest.size(), bytes)));
      items.push_back(std::move(character));
      rest.remove_prefix(bytes);
    }
    return items;
  }
  return template_error(fmt::format("'{}' object is not iterable", type_name(value)));
}

Result<int64_t> length_of(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return int64_t{0};
  if (const std::string* text = value.as_string()) {
    QUIRE_TRY_STATUS(runtime.charge_text(text->size()));
    return static_cast<int64_t>(count_characters(*text));
  }
  if (const List* list = value.as_list(); list != nullptr && list->kind != ListKind::kIterator) {
    return static_cast<int64_t>(list->items.size());
  }
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->items.size());
  return template_error(fmt::format("object of type '{}' has no len()", type_name(value)));
}

}  // namespace quire::chat
