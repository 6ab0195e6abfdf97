// Tests: what follows `is`.
#include <fmt/format.h>

#include <algorithm>

#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

using TestFunction = Result<bool> (*)(Runtime&, const Value&, const CallArguments&);

Result<Value> first_argument(const CallArguments& arguments) {
  if (arguments.positional.empty()) return template_error("the test needs an argument");
  return arguments.positional.front();
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.as_string() != nullptr || value.as_list() != nullptr || value.as_dict() != nullptr;
}

bool is_sequence(const Value& value) {
  return is_iterable(value) && (value.as_list() == nullptr || value.as_list()->kind != ListKind::kIterator);
}

Result<bool> compare_with(Runtime& runtime, const Value& value, const CallArguments& arguments, std::string_view sign) {
  QUIRE_TRY(const Value other, first_argument(arguments));
  return less(runtime, value, other, sign);
}

Result<bool> is_equal(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const Value other, first_argument(arguments));
  return equal(value, other, runtime.meter());
}

Result<bool> is_not_equal(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const bool same, is_equal(runtime, value, arguments));
  return !same;
}

Result<bool> is_in(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const Value container, first_argument(arguments));
  return contains(runtime, container, value);
}

// Python's `is`: the same object, or equal constants of the same type.
Result<bool> is_same(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const Value other, first_argument(arguments));
  if (value.as_list() != nullptr || value.as_dict() != nullptr) {
    return value.as_list() == other.as_list() && value.as_dict() == other.as_dict();
  }
  return type_name(value) == type_name(other) && equal(value, other, runtime.meter());
}

Result<bool> divides(Runtime& runtime, const Value& value, const Value& divisor, int64_t remainder) {
  QUIRE_TRY(const Value rest, arithmetic(runtime, '%', value, divisor));
  return equal(rest, Value(remainder), runtime.meter());
}

Result<bool> has_case(const Value& value, bool upper) {
  const std::string* text = value.as_string();
  if (text == nullptr) return false;
  return upper ? to_upper(*text) == *text && to_lower(*text) != *text : to_lower(*text) == *text && to_upper(*text) != *text;
}

constexpr std::pair<std::string_view, TestFunction> kTests[] = {
    {"!=", is_not_equal},
    {"<", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, "<"); }},
    {"<=", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, "<="); }},
    {"==", is_equal},
    {">", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, ">"); }},
    {">=", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, ">="); }},
    {"boolean", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as<bool>() != nullptr; }},
    {"callable",
     [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> {
       return v.is_undefined() || (v.as_object() != nullptr && v.as_object()->callable());
     }},
    {"defined", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return !v.is_undefined(); }},
    {"divisibleby",
     [](Runtime& r, const Value& v, const CallArguments& a) -> Result<bool> {
       QUIRE_TRY(const Value divisor, first_argument(a));
       return divides(r, v, divisor, 0);
     }},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"even", [](Runtime& r, const Value& v, const CallArguments&) { return divides(r, v, Value(int64_t{2}), 0); }},
    {"false",
     [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as<bool>() != nullptr && !*v.as<bool>(); }},
    {"float", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as<double>() != nullptr; }},
    {"ge", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, ">="); }},
    {"greaterthan", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, ">"); }},
    {"gt", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, ">"); }},
    {"in", is_in},
    {"integer", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as<int64_t>() != nullptr; }},
    {"iterable", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return is_iterable(v); }},
    {"le", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, "<="); }},
    {"lessthan", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, "<"); }},
    {"lower", [](Runtime&, const Value& v, const CallArguments&) { return has_case(v, false); }},
    {"lt", [](Runtime& r, const Value& v, const CallArguments& a) { return compare_with(r, v, a, "<"); }},
    {"mapping", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as_dict() != nullptr; }},
    {"ne", is_not_equal},
    {"none", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.is_none(); }},
    {"number", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.is_number(); }},
    {"odd", [](Runtime& r, const Value& v, const CallArguments&) { return divides(r, v, Value(int64_t{2}), 1); }},
    {"sameas", is_same},
    {"sequence", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return is_sequence(v); }},
    {"string", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as_string() != nullptr; }},
    {"true",
     [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.as<bool>() != nullptr && *v.as<bool>(); }},
    {"undefined", [](Runtime&, const Value& v, const CallArguments&) -> Result<bool> { return v.is_undefined(); }},
    {"upper", [](Runtime&, const Value& v, const CallArguments&) { return has_case(v, true); }},
};

}  // namespace

Result<bool> apply_test(Runtime& runtime, const std::string& name, const Value& operand, const CallArguments& arguments) {
  const DepthGuard guard(runtime);
  QUIRE_TRY_STATUS(guard.status());
  QUIRE_TRY_STATUS(runtime.charge_text(operand.as_string() == nullptr ? 0 : operand.as_string()->size()));
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests), [&](const auto& test) { return test.first == name; });
  if (found == std::end(kTests)) return template_error(fmt::format("No test named '{}'.", name));
  return found->second(runtime, operand, arguments);
}

}  // namespace quire::chat
