// Methods of Python's strings, lists and dicts, as far as they change nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

using Method = Result<Value> (*)(Runtime&, const MarkedText& marked, const CallArguments&);

// The string argument at a place; `fallback` (nullptr: an error) where it is missing or None.
Result<const MarkedText*> marked_argument(const CallArguments& arguments, size_t index, std::string_view name,
                                          const MarkedText* fallback = nullptr, bool optional = false) {
  const Value* value = arguments.find(index, name);
  if (value == nullptr || value->is_none()) {
    if (optional || fallback != nullptr) return fallback;
    return template_error(fmt::format("missing the argument '{}'", name));
  }
  QUIRE_TRY_STATUS(require_defined(*value));
  if (value->as_string() == nullptr) {
    return template_error(fmt::format("the argument '{}' must be str, not {}", name, type_name(*value)));
  }
  return value->as_marked();
}

Result<const std::string*> string_argument(const CallArguments& arguments, size_t index, std::string_view name,
                                           bool optional = false) {
  QUIRE_TRY(const MarkedText* marked, marked_argument(arguments, index, name, nullptr, optional));
  return marked == nullptr ? nullptr : &marked->text();
}

Result<int64_t> integer_argument(const CallArguments& arguments, size_t index, std::string_view name, int64_t fallback) {
  const Value* value = arguments.find(index, name);
  if (value == nullptr || value->is_none()) return fallback;
  QUIRE_TRY_STATUS(require_defined(*value));
  int64_t integer = 0;
  if (value->as_integer(integer)) return integer;
  return template_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(*value)));
}

template <std::string (*kMap)(std::string_view)>
Result<Value> map_text(Runtime& runtime, const MarkedText& marked, const CallArguments&) {
  return runtime.make_string(MarkedText::made_from(marked, kMap(marked.text())));
}

std::string swap_case(std::string_view text) {
  std::string result;
  for (; !text.empty(); text.remove_prefix(first_character(text).bytes)) {
    const Character character = first_character(text);
    const std::string_view one = text.substr(0, character.bytes);
    result += is_upper(character.code_point) ? to_lower(one) : to_upper(one);
  }
  return result;
}

// `part` is a part of the marked text's own bytes.
Result<Value> make_part(Runtime& runtime, const MarkedText& marked, std::string_view part) {
  return runtime.make_string(marked.part(static_cast<size_t>(part.data() - marked.text().data()), part.size()));
}

template <bool kLeft, bool kRight>
Result<Value> strip(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* set, string_argument(arguments, 0, "chars", true));
  if (set != nullptr) {
    QUIRE_TRY_STATUS(runtime.charge(static_cast<int64_t>((1 + text.size() / 16) * (1 + set->size() / 2))));
  }
  std::string_view rest = text;
  if (kLeft) rest = strip_left(rest, set);
  if (kRight) rest = strip_right(rest, set);
  return make_part(runtime, marked, rest);
}

Result<Value> make_parts(Runtime& runtime, const MarkedText& marked, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    QUIRE_TRY(Value item, make_part(runtime, marked, part));
    items.push_back(std::move(item));
  }
  return runtime.make_list(ListKind::kList, std::move(items));
}

// Words between whitespace, at most `most` splits (negative: all) from one end. The part that is not split keeps its outer spaces.
std::vector<std::string_view> split_words(const std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> words;
  for (std::string_view rest = strip_left(text); !rest.empty(); rest = strip_left(rest)) {
    if (!from_right && most >= 0 && static_cast<int64_t>(words.size()) == most) {
      words.push_back(rest);
      return words;
    }
    size_t word = 0;
    while (word < rest.size() && !is_space(first_character(rest.substr(word)).code_point))
      word += first_character(rest.substr(word)).bytes;
    words.push_back(rest.substr(0, word));
    rest.remove_prefix(word);
  }
  if (from_right && most >= 0 && static_cast<int64_t>(words.size()) > most) {
    const auto unsplit = words.size() - static_cast<size_t>(most);
    const std::string_view last = words[unsplit - 1];
    words[unsplit - 1] = text.substr(0, static_cast<size_t>(last.data() + last.size() - text.data()));
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(unsplit - 1));
  }
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(from_right ? text.substr(found + separator.size()) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(found + separator.size());
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromRight>
Result<Value> split(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* separator, string_argument(arguments, 0, "sep", true));
  QUIRE_TRY(const int64_t most, integer_argument(arguments, 1, "maxsplit", -1));
  QUIRE_TRY_STATUS(runtime.charge_text(4 * text.size()));
  if (separator == nullptr) return make_parts(runtime, marked, split_words(text, most, kFromRight));
  if (separator->empty()) return template_error("empty separator");
  return make_parts(runtime, marked, split_at(text, *separator, most, kFromRight));
}

Result<Value> split_lines(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  const Value* keeps = arguments.find(0, "keepends");
  const bool keep_ends = keeps != nullptr && is_true(*keeps);
  std::vector<std::string_view> lines;
  QUIRE_TRY_STATUS(runtime.charge_text(4 * text.size()));
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find_first_of("\r\n\v\f\x1c\x1d\x1e"), rest.size());
    const size_t next = end == rest.size() ? end : end + (rest.substr(end, 2) == "\r\n" ? 2 : 1);
    lines.push_back(rest.substr(0, keep_ends ? next : end));
    rest.remove_prefix(next);
  }
  return make_parts(runtime, marked, lines);
}

template <bool kFromRight>
Result<Value> partition(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string_view text = marked.text();
  QUIRE_TRY(const std::string* separator, string_argument(arguments, 0, "sep"));
  if (separator->empty()) return template_error("empty separator");
  const size_t found = kFromRight ? text.rfind(*separator) : text.find(*separator);
  const std::string_view none = text.substr(0, 0);
  std::array<std::string_view, 3> parts = {text, none, none};
  if (kFromRight && found == std::string::npos) parts = {none, none, text};
  if (found != std::string::npos) {
    parts = {text.substr(0, found), text.substr(found, separator->size()), text.substr(found + separator->size())};
  }
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    QUIRE_TRY(Value item, make_part(runtime, marked, part));
    items.push_back(std::move(item));
  }
  return runtime.make_list(ListKind::kTuple, std::move(items));
}

// startswith and endswith: one string, or a tuple of which one has to fit.
template <bool kEnd>
Result<Value> fits(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  const Value* wanted = arguments.find(0, "prefix");
  if (wanted == nullptr) return template_error("missing the argument 'prefix'");
  QUIRE_TRY_STATUS(require_defined(*wanted));
  const auto fit = [&text](const std::string& part) {
    return part.size() <= text.size() && text.compare(kEnd ? text.size() - part.size() : 0, part.size(), part) == 0;
  };
  if (const std::string* part = wanted->as_string()) return Value(fit(*part));
  const List* tuple = wanted->as_list();
  if (tuple == nullptr || tuple->kind != ListKind::kTuple) {
    return template_error(
        fmt::format("{} first arg must be str or a tuple of str, not {}", kEnd ? "endswith" : "startswith", type_name(*wanted)));
  }
  for (const Value& item : tuple->items) {
    QUIRE_TRY_STATUS(runtime.charge_text(text.size()));
    if (item.as_string() != nullptr && fit(*item.as_string())) return Value(true);
  }
  return Value(false);
}

Result<Value> replace(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* old, string_argument(arguments, 0, "old"));
  QUIRE_TRY(const MarkedText* replacement, marked_argument(arguments, 1, "new"));
  QUIRE_TRY(const int64_t count, integer_argument(arguments, 2, "count", -1));
  const auto most = count < 0 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(count);
  TextBuilder out(runtime);
  QUIRE_TRY_STATUS(runtime.charge_text(text.size()));
  std::string_view rest = text;
  for (uint64_t done = 0; done < most; ++done) {
    // An empty text is found before every character and at the end.
    const size_t found =
        old->empty() ? (done == 0 ? 0 : (rest.empty() ? std::string::npos : first_character(rest).bytes)) : rest.find(*old);
    if (found == std::string_view::npos) break;
    QUIRE_TRY_STATUS(out.append_part(marked, text.size() - rest.size(), found));
    QUIRE_TRY_STATUS(out.append(*replacement));
    rest.remove_prefix(found + old->size());
  }
  QUIRE_TRY_STATUS(out.append_part(marked, text.size() - rest.size(), rest.size()));
  return runtime.make_string(std::move(out.text()));
}

template <bool kFromRight, bool kRaises>
Result<Value> find(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* part, string_argument(arguments, 0, "sub"));
  QUIRE_TRY(const int64_t start, integer_argument(arguments, 1, "start", 0));
  QUIRE_TRY_STATUS(runtime.charge_text(2 * text.size()));
  const auto size = static_cast<int64_t>(count_characters(text));
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  const size_t offset = offset_of_character(text, static_cast<size_t>(first));
  const size_t found = start > size ? std::string::npos : (kFromRight ? text.rfind(*part) : text.find(*part, offset));
  if (found != std::string::npos && found >= offset)
    return Value(static_cast<int64_t>(count_characters(std::string_view(text).substr(0, found))));
  if (kRaises) return template_error("substring not found");
  return Value(int64_t{-1});
}

Result<Value> count(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* part, string_argument(arguments, 0, "sub"));
  QUIRE_TRY_STATUS(runtime.charge_text(text.size()));
  if (part->empty()) return Value(static_cast<int64_t>(count_characters(text)) + 1);
  int64_t found = 0;
  for (size_t at = text.find(*part); at != std::string::npos; at = text.find(*part, at + part->size())) ++found;
  return Value(found);
}

Result<Value> join(Runtime& runtime, const MarkedText& separator, const CallArguments& arguments) {
  const Value* items = arguments.find(0, "iterable");
  if (items == nullptr) return template_error("missing the argument 'iterable'");
  QUIRE_TRY(const std::vector<Value> parts, iterate(runtime, *items));
  TextBuilder out(runtime);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].as_string() == nullptr) {
      return template_error(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(parts[i])));
    }
    if (i > 0) QUIRE_TRY_STATUS(out.append(separator));
    QUIRE_TRY_STATUS(out.append(*parts[i].as_marked()));
  }
  return runtime.make_string(std::move(out.text()));
}

template <bool (*kTest)(int32_t)>
Result<Value> all_are(Runtime& runtime, const MarkedText& marked, const CallArguments&) {
  const std::string& text = marked.text();
  QUIRE_TRY_STATUS(runtime.charge_text(text.size()));
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_character(rest).bytes)) {
    if (!kTest(first_character(rest).code_point)) return Value(false);
  }
  return Value(!text.empty());
}

bool is_alphanumeric(int32_t c) { return is_alphabetic(c) || is_digit(c); }
bool is_ascii(int32_t c) { return c < 0x80; }

// isupper and islower: some cased character, and none of the other case.
template <bool (*kWanted)(int32_t), bool (*kOther)(int32_t)>
Result<Value> case_is(Runtime& runtime, const MarkedText& marked, const CallArguments&) {
  const std::string& text = marked.text();
  QUIRE_TRY_STATUS(runtime.charge_text(text.size()));
  bool some = false;
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_character(rest).bytes)) {
    const int32_t c = first_character(rest).code_point;
    if (kOther(c)) return Value(false);
    some |= kWanted(c);
  }
  return Value(some);
}

template <bool kSuffix>
Result<Value> remove_end(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  QUIRE_TRY(const std::string* part, string_argument(arguments, 0, kSuffix ? "suffix" : "prefix"));
  const bool fits_end =
      part->size() <= text.size() && text.compare(kSuffix ? text.size() - part->size() : 0, part->size(), *part) == 0;
  if (!fits_end) return runtime.make_string(marked);
  return runtime.make_string(marked.part(kSuffix ? 0 : part->size(), text.size() - part->size()));
}

// ljust, rjust, center and zfill: where the padding goes.
enum class Padding { kRight, kLeft, kBoth, kZeros };

template <Padding kPadding>
Result<Value> pad(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  static const MarkedText kSpace(" ");
  const std::string& text = marked.text();
  QUIRE_TRY(const int64_t width, integer_argument(arguments, 0, "width", 0));
  QUIRE_TRY(const MarkedText* fill, marked_argument(arguments, 1, "fillchar", &kSpace));
  if (count_characters(fill->text()) != 1) return template_error("The fill character must be exactly one character long");
  const auto length = static_cast<int64_t>(count_characters(text));
  const auto missing = static_cast<uint64_t>(std::max<int64_t>(0, width - length));
  if (missing > 0)
    QUIRE_TRY_STATUS(runtime.charge_new_text(missing > (uint64_t{1} << 60) ? missing : marked.bytes() + missing * fill->bytes()));
  // Where the text is cut for the padding, and how much of that goes there; the rest goes to the end.
  size_t cut = 0;
  uint64_t before = missing;
  if (kPadding == Padding::kRight) before = 0;
  if (kPadding == Padding::kZeros) cut = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  if (kPadding == Padding::kBoth) before = missing / 2 + (missing & static_cast<uint64_t>(width) & 1);
  const MarkedText zero("0");
  const MarkedText& padding = kPadding == Padding::kZeros ? zero : *fill;
  MarkedText result = marked.part(0, cut);
  for (uint64_t i = 0; i < before; ++i) result.append(padding);
  result.append_part(marked, cut, text.size() - cut);
  for (uint64_t i = before; i < missing; ++i) result.append(padding);
  return runtime.make_string(std::move(result));
}

// "{}", "{0}" and "{name}", without format specifications.
Result<Value> format(Runtime& runtime, const MarkedText& marked, const CallArguments& arguments) {
  const std::string& text = marked.text();
  TextBuilder out(runtime);
  size_t automatic = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", i), text.size());
    QUIRE_TRY_STATUS(out.append_part(marked, i, brace - i));
    i = brace + 1;
    if (brace == text.size()) break;
    if (i < text.size() && text[i] == text[brace]) {
      QUIRE_TRY_STATUS(out.append_part(marked, i++, 1));
      continue;
    }
    const size_t close = text[brace] == '{' ? text.find('}', i) : std::string::npos;
    if (close == std::string::npos) return template_error("Single '{' or '}' encountered in format string");
    const std::string field = text.substr(i, close - i);
    const bool is_number = !field.empty() && field.size() < 9 && field.find_first_not_of("0123456789") == std::string::npos;
    const size_t place = field.empty() ? automatic++ : (is_number ? std::stoul(field) : std::numeric_limits<size_t>::max());
    const Value* value = arguments.find(place, field);
    if (value == nullptr) return template_error(fmt::format("no argument for the replacement field '{{{}}}'", field));
    QUIRE_TRY(const MarkedText shown, to_text(runtime, *value));
    QUIRE_TRY_STATUS(out.append(shown));
    i = close + 1;
  }
  return runtime.make_string(std::move(out.text()));
}

constexpr std::pair<std::string_view, Method> kStringMethods[] = {
    {"capitalize", map_text<capitalize>},
    {"casefold", map_text<to_lower>},
    {"center", pad<Padding::kBoth>},
    {"count", count},
    {"endswith", fits<true>},
    {"find", find<false, false>},
    {"format", format},
    {"index", find<false, true>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isalpha", all_are<is_alphabetic>},
    {"isascii", all_are<is_ascii>},
    {"isdecimal", all_are<is_digit>},
    {"isdigit", all_are<is_digit>},
    {"islower", case_is<is_lower, is_upper>},
    {"isnumeric", all_are<is_digit>},
    {"isspace", all_are<is_space>},
    {"isupper", case_is<is_upper, is_lower>},
    {"join", join},
    {"ljust", pad<Padding::kRight>},
    {"lower", map_text<to_lower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_end<false>},
    {"removesuffix", remove_end<true>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", pad<Padding::kLeft>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", split_lines},
    {"startswith", fits<false>},
    {"strip", strip<true, true>},
    {"swapcase", map_text<swap_case>},
    {"title", map_text<to_title>},
    {"upper", map_text<to_upper>},
    {"zfill", pad<Padding::kZeros>},
};

constexpr std::array<std::string_view, 5> kDictMethods = {"copy", "get", "items", "keys", "values"};
constexpr std::array<std::string_view, 3> kListMethods = {"copy", "count", "index"};

Method find_string_method(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kStringMethods), std::end(kStringMethods), [name](const auto& m) { return m.first == name; });
  return found == std::end(kStringMethods) ? nullptr : found->second;
}

Result<Value> call_dict_method(Runtime& runtime, const Value& object, const std::string& name, const CallArguments& arguments) {
  const Dict& dict = *object.as_dict();
  if (name == "copy") return object;
  if (name == "get") {
    const Value* key = arguments.find(0, "key");
    if (key == nullptr) return template_error("get expected at least 1 argument, got 0");
    if (!can_be_key(*key) && !key->is_undefined()) return template_error(fmt::format("unhashable type: '{}'", type_name(*key)));
    QUIRE_TRY_STATUS(runtime.charge_text(key->as_string() == nullptr ? 0 : key->as_string()->size()));
    const Value* found = key->is_undefined() ? nullptr : dict.find(*key);
    if (found != nullptr) return *found;
    const Value* fallback = arguments.find(1, "default");
    return fallback == nullptr ? Value(None{}) : *fallback;
  }
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    if (name == "items") {
      QUIRE_TRY(Value pair, runtime.make_list(ListKind::kTuple, {key, value}));
      items.push_back(std::move(pair));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return runtime.make_list(ListKind::kList, std::move(items));
}

Result<Value> call_list_method(Runtime& runtime, const Value& object, const std::string& name, const CallArguments& arguments) {
  if (name == "copy") return object;
  const Value* wanted = arguments.find(0, "value");
  if (wanted == nullptr) return template_error(fmt::format("{} expected at least 1 argument, got 0", name));
  int64_t found = 0;
  const auto& items = object.as_list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_TRY_STATUS(runtime.charge(1));
    if (!equal(items[i], *wanted, runtime.meter())) continue;
    if (name == "index") return Value(static_cast<int64_t>(i));
    ++found;
  }
  if (name == "count") return Value(found);
  return template_error("the value is not in the list");
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  if (object.as_string() != nullptr) return find_string_method(name) != nullptr;
  if (object.as_dict() != nullptr) return std::find(kDictMethods.begin(), kDictMethods.end(), name) != kDictMethods.end();
  const List* list = object.as_list();
  return list != nullptr && list->kind != ListKind::kIterator &&
         std::find(kListMethods.begin(), kListMethods.end(), name) != kListMethods.end();
}

Result<Value> call_method(Runtime& runtime, const Value& object, const std::string& name, const CallArguments& arguments) {
  QUIRE_TRY_STATUS(runtime.charge(1));
  if (const MarkedText* text = object.as_marked()) {
    QUIRE_TRY_STATUS(runtime.charge_text(text->bytes()));
    auto result = find_string_method(name)(runtime, *text, arguments);
    if (!result.ok() && result.error().code == ErrorCode::kUnsupported) return at(fmt::format("str.{}", name), result.error());
    return result;
  }
  if (object.as_dict() != nullptr) return call_dict_method(runtime, object, name, arguments);
  return call_list_method(runtime, object, name, arguments);
}

}  // namespace quire::chat
