// Filters: what follows `|`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

using FilterFunction = Result<Value> (*)(Runtime&, const Value&, const CallArguments&);

bool flag(const CallArguments& arguments, size_t index, std::string_view name, bool fallback) {
  const Value* value = arguments.find(index, name);
  return value == nullptr ? fallback : is_true(*value);
}

Result<int64_t> integer(const CallArguments& arguments, size_t index, std::string_view name, int64_t fallback) {
  const Value* value = arguments.find(index, name);
  if (value == nullptr || value->is_none()) return fallback;
  QUIRE_TRY_STATUS(require_defined(*value));
  int64_t number = 0;
  if (value->as_integer(number)) return number;
  return template_error(fmt::format("the argument '{}' must be int, not {}", name, type_name(*value)));
}

// The argument as text; `fallback` where it is missing.
Result<std::string> text_argument(Runtime& runtime, const CallArguments& arguments, size_t index, std::string_view name,
                                  std::string fallback = "") {
  const Value* value = arguments.find(index, name);
  if (value == nullptr) return fallback;
  QUIRE_TRY(const MarkedText text, to_text(runtime, *value));
  return text.text();
}

// What "attribute='a.b'" of sort, map and others takes from an item: attributes or elements, one after the other.
Result<Value> take_attribute(Runtime& runtime, Value item, const Value& attribute) {
  int64_t place = 0;
  if (attribute.as_integer(place)) return get_item(runtime, item, attribute);
  if (attribute.as_string() == nullptr) return template_error("an attribute's name must be a string or an integer");
  const std::string& path = *attribute.as_string();
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('.', start), path.size());
    const std::string part = path.substr(start, end - start);
    const bool is_number = !part.empty() && part.size() < 9 && part.find_first_not_of("0123456789") == std::string::npos;
    QUIRE_TRY(const Value key, is_number ? Result<Value>(Value(static_cast<int64_t>(std::stoi(part)))) : runtime.make_string(part));
    QUIRE_TRY(item, get_item(runtime, item, key));
    start = end + 1;
  }
  return item;
}

// The keys that sort, unique, min and max compare: an attribute of each item, or the item; strings in lower case unless told else.
Result<std::vector<Value>> comparison_keys(Runtime& runtime, const std::vector<Value>& items, const Value* attribute,
                                           bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    Value key = item;
    if (attribute != nullptr && !attribute->is_none()) {
      QUIRE_TRY(key, take_attribute(runtime, item, *attribute));
    }
    if (!case_sensitive && key.as_string() != nullptr) {
      QUIRE_TRY(key, runtime.make_string(to_lower(*key.as_string())));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

// The places of the keys in ascending (or descending) order; equal ones stay in theirs.
Result<std::vector<size_t>> sorted_places(Runtime& runtime, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> places(keys.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  Status failure;
  // False for ever after a failure: then every sort ends.
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    if (!failure.ok()) return false;
    failure = runtime.charge(1);
    if (!failure.ok()) return false;
    auto result = reverse ? less(runtime, keys[b], keys[a], "<") : less(runtime, keys[a], keys[b], "<");
    if (result.ok()) return *result;
    failure = result.error();
    return false;
  });
  QUIRE_TRY_STATUS(failure);
  return places;
}

Result<Value> sort(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  QUIRE_TRY(const auto keys,
            comparison_keys(runtime, items, arguments.find(2, "attribute"), flag(arguments, 1, "case_sensitive", false)));
  QUIRE_TRY(const auto places, sorted_places(runtime, keys, flag(arguments, 0, "reverse", false)));
  std::vector<Value> sorted;
  for (const size_t place : places) sorted.push_back(items[place]);
  return runtime.make_list(ListKind::kList, std::move(sorted));
}

Result<Value> dictsort(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY_STATUS(require_defined(value));
  if (value.as_dict() == nullptr) return template_error(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  QUIRE_TRY(const std::string by, text_argument(runtime, arguments, 1, "by", "key"));
  if (by != "key" && by != "value") return template_error("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> parts;
  for (const auto& [key, item] : value.as_dict()->items) parts.push_back(by == "key" ? key : item);
  QUIRE_TRY(const auto keys, comparison_keys(runtime, parts, nullptr, flag(arguments, 0, "case_sensitive", false)));
  QUIRE_TRY(const auto places, sorted_places(runtime, keys, flag(arguments, 2, "reverse", false)));
  std::vector<Value> pairs;
  for (const size_t place : places) {
    const auto& [key, item] = value.as_dict()->items[place];
    QUIRE_TRY(Value pair, runtime.make_list(ListKind::kTuple, {key, item}));
    pairs.push_back(std::move(pair));
  }
  return runtime.make_list(ListKind::kList, std::move(pairs));
}

Result<Value> unique(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  QUIRE_TRY(const auto keys,
            comparison_keys(runtime, items, arguments.find(1, "attribute"), flag(arguments, 0, "case_sensitive", false)));
  std::vector<Value> kept;
  std::vector<const Value*> seen;
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_TRY_STATUS(runtime.charge(static_cast<int64_t>(seen.size())));
    const bool known =
        std::any_of(seen.begin(), seen.end(), [&](const Value* key) { return equal(*key, keys[i], runtime.meter()); });
    if (known) continue;
    seen.push_back(&keys[i]);
    kept.push_back(items[i]);
  }
  return runtime.make_list(ListKind::kIterator, std::move(kept));
}

template <bool kLargest>
Result<Value> extreme(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  if (items.empty()) return runtime.make_undefined("No aggregated item, sequence was empty.");
  QUIRE_TRY(const auto keys,
            comparison_keys(runtime, items, arguments.find(1, "attribute"), flag(arguments, 0, "case_sensitive", false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    QUIRE_TRY(const bool better, kLargest ? less(runtime, keys[best], keys[i], "<") : less(runtime, keys[i], keys[best], "<"));
    if (better) best = i;
  }
  return items[best];
}

Result<Value> sum(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  const Value* attribute = arguments.find(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : items) {
    Value part = item;
    if (attribute != nullptr && !attribute->is_none()) {
      QUIRE_TRY(part, take_attribute(runtime, item, *attribute));
    }
    QUIRE_TRY(total, add(runtime, total, part));
  }
  return total;
}

// map, and select, reject, selectattr, rejectattr: a name of a filter or test and its arguments follow.
CallArguments arguments_after(const CallArguments& arguments, size_t count) {
  CallArguments rest;
  if (arguments.positional.size() > count) {
    rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count), arguments.positional.end());
  }
  rest.named = arguments.named;
  return rest;
}

Result<Value> map(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  const Value* attribute = arguments.find(arguments.positional.size(), "attribute");
  const Value* fallback = arguments.find(arguments.positional.size(), "default");
  const CallArguments rest = arguments_after(arguments, 1);
  std::vector<Value> results;
  for (const Value& item : items) {
    Value result;
    if (attribute != nullptr) {
      QUIRE_TRY(result, take_attribute(runtime, item, *attribute));
      if (result.is_undefined() && fallback != nullptr) result = *fallback;
    } else {
      if (arguments.positional.empty()) return template_error("map requires a filter argument");
      if (arguments.positional[0].as_string() == nullptr) return template_error("map needs a filter's name");
      QUIRE_TRY(result, apply_filter(runtime, *arguments.positional[0].as_string(), item, rest));
    }
    results.push_back(std::move(result));
  }
  return runtime.make_list(ListKind::kIterator, std::move(results));
}

template <bool kKeeps, bool kByAttribute>
Result<Value> choose(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  const size_t names = kByAttribute ? 1 : 0;
  if (arguments.positional.size() < names) return template_error("Missing parameter for attribute name");
  const Value* test = arguments.positional.size() > names ? &arguments.positional[names] : nullptr;
  if (test != nullptr && test->as_string() == nullptr) return template_error("a test's name must be a string");
  const CallArguments rest = arguments_after(arguments, names + 1);
  std::vector<Value> kept;
  for (const Value& item : items) {
    Value subject = item;
    if (kByAttribute) {
      QUIRE_TRY(subject, take_attribute(runtime, item, arguments.positional[0]));
    }
    bool passes = is_true(subject);
    if (test != nullptr) {
      QUIRE_TRY(passes, apply_test(runtime, *test->as_string(), subject, rest));
    }
    if (passes == kKeeps) kept.push_back(item);
  }
  return runtime.make_list(ListKind::kIterator, std::move(kept));
}

Result<Value> groupby(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  if (attribute == nullptr) return template_error("groupby needs an attribute");
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  QUIRE_TRY(const auto keys, comparison_keys(runtime, items, attribute, flag(arguments, 2, "case_sensitive", false)));
  QUIRE_TRY(const auto places, sorted_places(runtime, keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < places.size();) {
    std::vector<Value> members;
    const size_t first = places[i];
    for (; i < places.size() && equal(keys[places[i]], keys[first], runtime.meter()); ++i) members.push_back(items[places[i]]);
    if (members.empty()) return template_error("groupby needs keys that can be compared");
    QUIRE_TRY(Value key, take_attribute(runtime, items[first], *attribute));
    QUIRE_TRY(Value list, runtime.make_list(ListKind::kList, std::move(members)));
    QUIRE_TRY(Value group, runtime.make_list(ListKind::kTuple, {std::move(key), std::move(list)}));
    groups.push_back(std::move(group));
  }
  return runtime.make_list(ListKind::kList, std::move(groups));
}

Result<Value> batch(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  QUIRE_TRY(const int64_t count, integer(arguments, 0, "linecount", 0));
  if (count < 1) return template_error("batch needs a positive number of items");
  const Value* fill = arguments.find(1, "fill_with");
  std::vector<Value> rows;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> row;
    for (; i < items.size() && static_cast<int64_t>(row.size()) < count; ++i) row.push_back(items[i]);
    if (fill != nullptr && !fill->is_none()) {
      QUIRE_TRY_STATUS(runtime.charge(count - static_cast<int64_t>(row.size())));
      row.resize(static_cast<size_t>(count), *fill);
    }
    QUIRE_TRY(Value list, runtime.make_list(ListKind::kList, std::move(row)));
    rows.push_back(std::move(list));
  }
  return runtime.make_list(ListKind::kIterator, std::move(rows));
}

Result<Value> first(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  if (items.empty()) return runtime.make_undefined("No first item, sequence was empty.");
  return items.front();
}

Result<Value> last(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(const std::vector<Value> items, iterate(runtime, value));
  if (items.empty()) return runtime.make_undefined("No last item, sequence was empty.");
  return items.back();
}

Result<Value> length(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(const int64_t size, length_of(runtime, value));
  return Value(size);
}

Result<Value> reverse(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(std::vector<Value> items, iterate(runtime, value));
  std::reverse(items.begin(), items.end());
  if (value.as_string() == nullptr) return runtime.make_list(ListKind::kIterator, std::move(items));
  MarkedText text;
  for (const Value& item : items) text.append(*item.as_marked());
  return runtime.make_string(std::move(text));
}

Result<Value> list(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(std::vector<Value> items, iterate(runtime, value));
  return runtime.make_list(ListKind::kList, std::move(items));
}

Result<Value> items(Runtime& runtime, const Value& value, const CallArguments&) {
  if (value.is_undefined()) return runtime.make_list(ListKind::kIterator, {});
  if (value.as_dict() == nullptr) return template_error("Can only get item pairs from a mapping.");
  return call_method(runtime, value, "items", {});
}

Result<Value> join(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::vector<Value> parts, iterate(runtime, value));
  const Value* between = arguments.find(0, "d");
  QUIRE_TRY(const MarkedText separator, between == nullptr ? Result<MarkedText>(MarkedText()) : to_text(runtime, *between));
  const Value* attribute = arguments.find(1, "attribute");
  TextBuilder out(runtime);
  for (size_t i = 0; i < parts.size(); ++i) {
    Value part = parts[i];
    if (attribute != nullptr && !attribute->is_none()) {
      QUIRE_TRY(part, take_attribute(runtime, parts[i], *attribute));
    }
    if (i > 0) QUIRE_TRY_STATUS(out.append(separator));
    QUIRE_TRY(const MarkedText text, to_text(runtime, part));
    QUIRE_TRY_STATUS(out.append(text));
  }
  return runtime.make_string(std::move(out.text()));
}

Result<Value> default_value(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  const bool missing = value.is_undefined() || (flag(arguments, 1, "boolean", false) && !is_true(value));
  if (!missing) return value;
  const Value* fallback = arguments.find(0, "default_value");
  return fallback == nullptr ? runtime.make_string("") : Result<Value>(*fallback);
}

Result<Value> tojson(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  JsonStyle style;
  style.ascii = flag(arguments, 0, "ensure_ascii", false);
  style.sort_keys = flag(arguments, 3, "sort_keys", false);
  const Value* indent = arguments.find(1, "indent");
  if (indent != nullptr && !indent->is_none()) {
    style.indents = true;
    style.item_separator = std::string(1, ',');
    if (indent->as_string() != nullptr) {
      style.indent = *indent->as_string();
    } else {
      QUIRE_TRY(const int64_t spaces, integer(arguments, 1, "indent", 0));
      style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(spaces, 0, 1000)), ' ');
    }
  }
  const Value* separators = arguments.find(2, "separators");
  if (separators != nullptr && separators->as_list() != nullptr && separators->as_list()->items.size() == 2) {
    QUIRE_TRY(const MarkedText of_items, to_text(runtime, separators->as_list()->items[0]));
    QUIRE_TRY(const MarkedText of_keys, to_text(runtime, separators->as_list()->items[1]));
    style.item_separator = of_items.text();
    style.key_separator = of_keys.text();
  }
  QUIRE_TRY(MarkedText text, to_json(runtime, value, style));
  return runtime.make_string(std::move(text));
}

Result<Value> to_integer(Runtime&, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY_STATUS(require_defined(value));
  const Value* fallback = arguments.find(0, "default");
  QUIRE_TRY(const int64_t base, integer(arguments, 1, "base", 10));
  int64_t number = 0;
  if (value.as_integer(number)) return Value(number);
  double real = std::nan("");
  if (value.as<double>() != nullptr) real = *value.as<double>();
  if (const std::string* text = value.as_string()) {
    const std::string_view digits = strip_left(strip_right(*text));
    const bool has_prefix = base == 16 && (digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0X");
    const std::string_view unsigned_digits = digits.substr(has_prefix ? 2 : (digits.substr(0, 1) == "+" ? 1 : 0));
    const char* end = unsigned_digits.data() + unsigned_digits.size();
    if (base >= 2 && base <= 36) {
      const auto parsed = std::from_chars(unsigned_digits.data(), end, number, static_cast<int>(base));
      if (parsed.ec == std::errc() && parsed.ptr == end) return Value(number);
    }
    const auto parsed = std::from_chars(unsigned_digits.data(), end, real);
    if (parsed.ec != std::errc() || parsed.ptr != end) real = std::nan("");
  }
  if (real > -9.2e18 && real < 9.2e18) return Value(static_cast<int64_t>(real));
  return fallback == nullptr ? Value(int64_t{0}) : *fallback;
}

Result<Value> to_float(Runtime&, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY_STATUS(require_defined(value));
  int64_t number = 0;
  if (value.as_integer(number)) return Value(static_cast<double>(number));
  if (value.as<double>() != nullptr) return value;
  if (const std::string* text = value.as_string()) {
    const std::string_view digits = strip_left(strip_right(*text));
    double real = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (!digits.empty() && parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size()) return Value(real);
  }
  const Value* fallback = arguments.find(0, "default");
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Result<Value> absolute(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY_STATUS(require_defined(value));
  if (const double* number = value.as<double>()) return Value(std::abs(*number));
  int64_t number = 0;
  if (!value.as_integer(number)) return template_error(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
  return number < 0 ? arithmetic(runtime, '-', Value(int64_t{0}), value) : Result<Value>(Value(number));
}

Result<Value> round_number(Runtime&, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const int64_t precision, integer(arguments, 0, "precision", 0));
  const Value* method = arguments.find(1, "method");
  const std::string how = method == nullptr || method->as_string() == nullptr ? "common" : *method->as_string();
  int64_t whole = 0;
  if (!value.is_number()) return template_error(fmt::format("type {} doesn't define __round__ method", type_name(value)));
  const double number = value.as_integer(whole) ? static_cast<double>(whole) : *value.as<double>();
  if (how == "common") {
    if (precision < 0 || precision > 15) return Value(number);
    // Rounded as printed, which is exact for the decimal digits.
    const std::string text = fmt::format("{:.{}f}", number, precision);
    double rounded = number;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return Value(rounded);
  }
  if (how != "ceil" && how != "floor") return template_error("method must be common, ceil or floor");
  double scale = 1;
  for (int64_t i = 0; i < std::clamp<int64_t>(precision, 0, 15); ++i) scale *= 10;
  return Value((how == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale);
}

template <std::string (*kMap)(std::string_view)>
Result<Value> map_text(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(const MarkedText text, to_text(runtime, value));
  return runtime.make_string(MarkedText::made_from(text, kMap(text.text())));
}

// Jinja's filter of this name, unlike str.title, begins words after spaces and opening brackets only.
std::string title_words(std::string_view text) {
  static constexpr std::string_view kBeforeWords = "-({[<";
  std::string result;
  bool begins = true;
  for (; !text.empty(); text.remove_prefix(first_character(text).bytes)) {
    const Character character = first_character(text);
    const std::string_view one = text.substr(0, character.bytes);
    result += begins ? to_upper(one) : to_lower(one);
    begins = is_space(character.code_point) || kBeforeWords.find(one) != std::string_view::npos;
  }
  return result;
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&#34;"; break;
      case '\'': result += "&#39;"; break;
      default: result.push_back(c);
    }
  }
  return result;
}

Result<Value> to_string_value(Runtime& runtime, const Value& value, const CallArguments&) {
  if (value.as_string() != nullptr) return value;
  QUIRE_TRY(MarkedText text, to_text(runtime, value));
  return runtime.make_string(std::move(text));
}

// The method of the operand's text that has the filter's name.
Result<Value> text_method(Runtime& runtime, const Value& value, const std::string& name, const CallArguments& arguments) {
  QUIRE_TRY(const Value text, to_string_value(runtime, value, {}));
  return call_method(runtime, text, name, arguments);
}

Result<Value> trim(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  return text_method(runtime, value, "strip", arguments);
}

Result<Value> replace(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  return text_method(runtime, value, "replace", arguments);
}

Result<Value> center(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const int64_t width, integer(arguments, 0, "width", 80));
  return text_method(runtime, value, "center", {{Value(width)}, {}});
}

Result<Value> format(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const MarkedText text, to_text(runtime, value));
  if (arguments.named.empty()) {
    QUIRE_TRY(const Value tuple, runtime.make_list(ListKind::kTuple, arguments.positional));
    return format_percent(runtime, text, tuple);
  }
  std::vector<Dict::Item> named;
  for (const auto& [name, argument] : arguments.named) {
    QUIRE_TRY(Value key, runtime.make_string(name));
    named.emplace_back(std::move(key), argument);
  }
  QUIRE_TRY(const Value dict, runtime.make_dict(std::move(named)));
  return format_percent(runtime, text, dict);
}

Result<Value> indent(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const MarkedText marked, to_text(runtime, value));
  const std::string& text = marked.text();
  std::string spaces;
  const Value* width = arguments.find(0, "width");
  if (width != nullptr && width->as_string() != nullptr) {
    spaces = *width->as_string();
  } else {
    QUIRE_TRY(const int64_t count, integer(arguments, 0, "width", 4));
    spaces = std::string(static_cast<size_t>(std::clamp<int64_t>(count, 0, 1000)), ' ');
  }
  const bool first_too = flag(arguments, 1, "first", false);
  const bool blank_too = flag(arguments, 2, "blank", false);
  TextBuilder out(runtime);
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    if (start == 0 ? first_too : (blank_too || !line.empty())) QUIRE_TRY_STATUS(out.append(spaces));
    QUIRE_TRY_STATUS(out.append_part(marked, start, line.size()));
    if (end < text.size()) QUIRE_TRY_STATUS(out.append("\n"));
    start = end + 1;
  }
  return runtime.make_string(std::move(out.text()));
}

Result<Value> wordcount(Runtime& runtime, const Value& value, const CallArguments&) {
  QUIRE_TRY(const MarkedText marked, to_text(runtime, value));
  const std::string& text = marked.text();
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_character(rest).bytes)) {
    const int32_t c = first_character(rest).code_point;
    const bool is_word = c == '_' || is_alphabetic(c) || is_digit(c);
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return Value(words);
}

Result<Value> attr(Runtime& runtime, const Value& value, const CallArguments& arguments) {
  QUIRE_TRY(const std::string name, text_argument(runtime, arguments, 0, "name"));
  QUIRE_TRY_STATUS(require_defined(value));
  // Unlike the dot, never an element of a dict.
  if (value.as_dict() != nullptr && !has_method(value, name))
    return runtime.make_undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return get_attribute(runtime, value, name);
}

Result<Value> same(Runtime&, const Value& value, const CallArguments&) { return value; }

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"abs", absolute},
    {"attr", attr},
    {"batch", batch},
    {"capitalize", map_text<capitalize>},
    {"center", center},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"e", map_text<escape_html>},
    {"escape", map_text<escape_html>},
    {"first", first},
    {"float", to_float},
    {"forceescape", map_text<escape_html>},
    {"format", format},
    {"groupby", groupby},
    {"indent", indent},
    {"int", to_integer},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"lower", map_text<to_lower>},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", choose<false, false>},
    {"rejectattr", choose<false, true>},
    {"replace", replace},
    {"reverse", reverse},
    {"round", round_number},
    {"safe", same},
    {"select", choose<true, false>},
    {"selectattr", choose<true, true>},
    {"sort", sort},
    {"string", to_string_value},
    {"sum", sum},
    {"title", map_text<title_words>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", map_text<to_upper>},
    {"wordcount", wordcount},
};

}  // namespace

Result<Value> apply_filter(Runtime& runtime, const std::string& name, const Value& operand, const CallArguments& arguments) {
  const DepthGuard guard(runtime);
  QUIRE_TRY_STATUS(guard.status());
  QUIRE_TRY_STATUS(runtime.charge_text(operand.as_string() == nullptr ? 0 : operand.as_string()->size()));
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const auto& filter) { return filter.first == name; });
  if (found == std::end(kFilters)) return template_error(fmt::format("No filter named '{}'.", name));
  return found->second(runtime, operand, arguments);
}

}  // namespace quire::chat
