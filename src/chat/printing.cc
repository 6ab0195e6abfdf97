#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

// How Python writes a string in a list: in single quotes unless it has some and no double ones, with escapes.
std::string quote(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char mark = single ? '\'' : '"';
  std::string result(1, mark);
  while (!text.empty()) {
    const Character character = first_character(text);
    const int32_t c = character.code_point;
    if (c == mark || c == '\\') {
      result.push_back('\\');
      result.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (is_printable(c)) {
      result.append(text.substr(0, character.bytes));
    } else {
      result += c < 0x100 ? fmt::format("\\x{:02x}", c) : (c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c));
    }
    text.remove_prefix(character.bytes);
  }
  result.push_back(mark);
  return result;
}

Status write_repr(Runtime& runtime, const Value& value, TextBuilder& out) {
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_none()) return out.append("None");
  if (const bool* truth = value.as<bool>()) return out.append(*truth ? "True" : "False");
  if (const int64_t* integer = value.as<int64_t>()) return out.append(fmt::format("{}", *integer));
  if (const double* number = value.as<double>()) return out.append(format_float(*number));
  if (const MarkedText* text = value.as_marked()) {
    QUIRE_TRY_STATUS(runtime.charge_new_text(4 * text->bytes()));
    return out.append(MarkedText::made_from(*text, quote(text->text())));
  }
  if (const List* list = value.as_list()) {
    if (list->kind == ListKind::kIterator) return out.append("<generator object>");
    const bool is_list = list->kind == ListKind::kList;
    QUIRE_TRY_STATUS(out.append(is_list ? "[" : "("));
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) QUIRE_TRY_STATUS(out.append(", "));
      QUIRE_TRY_STATUS(write_repr(runtime, list->items[i], out));
    }
    return out.append(is_list ? "]" : (list->items.size() == 1 ? ",)" : ")"));
  }
  if (const Dict* dict = value.as_dict()) {
    QUIRE_TRY_STATUS(out.append("{"));
    for (size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) QUIRE_TRY_STATUS(out.append(", "));
      QUIRE_TRY_STATUS(write_repr(runtime, dict->items[i].first, out));
      QUIRE_TRY_STATUS(out.append(": "));
      QUIRE_TRY_STATUS(write_repr(runtime, dict->items[i].second, out));
    }
    return out.append("}");
  }
  return out.append(fmt::format("<{}>", type_name(value)));
}

std::string json_string(std::string_view text, bool ascii) {
  std::string result = "\"";
  while (!text.empty()) {
    const Character character = first_character(text);
    const int32_t c = character.code_point;
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t escape = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      result.push_back('\\');
      result.push_back(kLetters[escape]);
    } else if (c < 0x20 || (ascii && c >= 0x7f && c < 0x10000)) {
      result += c == 0x7f ? "\x7f" : fmt::format("\\u{:04x}", c);
    } else if (ascii && c >= 0x10000) {
      const int32_t offset = c - 0x10000;
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
    } else {
      result.append(text.substr(0, character.bytes));
    }
    text.remove_prefix(character.bytes);
  }
  result.push_back('"');
  return result;
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style), out_(runtime) {}

  Status write(const Value& value, size_t level) {
    if (value.is_none()) return out_.append("null");
    if (const bool* truth = value.as<bool>()) return out_.append(*truth ? "true" : "false");
    if (const int64_t* integer = value.as<int64_t>()) return out_.append(fmt::format("{}", *integer));
    if (const double* number = value.as<double>()) return out_.append(json_number(*number));
    if (const MarkedText* text = value.as_marked()) return write_string(*text);
    const List* list = value.as_list();
    if (list != nullptr && list->kind != ListKind::kIterator) return write_list(*list, level);
    if (const Dict* dict = value.as_dict()) return write_dict(*dict, level);
    return template_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  MarkedText& text() { return out_.text(); }

 private:
  static std::string json_number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return format_float(number);
  }

  Status write_string(const MarkedText& text) {
    QUIRE_TRY_STATUS(runtime_.charge_new_text(2 * text.bytes()));
    return out_.append(MarkedText::made_from(text, json_string(text.text(), style_.ascii)));
  }

  Status break_line(size_t level) {
    if (!style_.indents) return {};
    QUIRE_TRY_STATUS(out_.append("\n"));
    for (size_t i = 0; i < level; ++i) QUIRE_TRY_STATUS(out_.append(style_.indent));
    return {};
  }

  Status write_list(const List& list, size_t level) {
    if (list.items.empty()) return out_.append("[]");
    QUIRE_TRY_STATUS(out_.append("["));
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) QUIRE_TRY_STATUS(out_.append(style_.item_separator));
      QUIRE_TRY_STATUS(break_line(level + 1));
      QUIRE_TRY_STATUS(write(list.items[i], level + 1));
    }
    QUIRE_TRY_STATUS(break_line(level));
    return out_.append("]");
  }

  Status write_key(const Value& key) {
    if (key.as_marked() != nullptr) return write_string(*key.as_marked());
    QUIRE_TRY_STATUS(out_.append("\""));
    QUIRE_TRY_STATUS(write(key, 0));
    return out_.append("\"");
  }

  Status write_dict(const Dict& dict, size_t level) {
    if (dict.items.empty()) return out_.append("{}");
    std::vector<const Dict::Item*> items;
    for (const Dict::Item& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      QUIRE_TRY_STATUS(runtime_.charge(static_cast<int64_t>(items.size())));
      std::sort(items.begin(), items.end(), [](const auto* a, const auto* b) { return compare_keys(a->first, b->first) < 0; });
    }
    QUIRE_TRY_STATUS(out_.append("{"));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) QUIRE_TRY_STATUS(out_.append(style_.item_separator));
      QUIRE_TRY_STATUS(break_line(level + 1));
      QUIRE_TRY_STATUS(write_key(items[i]->first));
      QUIRE_TRY_STATUS(out_.append(style_.key_separator));
      QUIRE_TRY_STATUS(write(items[i]->second, level + 1));
    }
    QUIRE_TRY_STATUS(break_line(level));
    return out_.append("}");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
};

// Days since the first of March of the year 0, in the Gregorian calendar.
int64_t day_number(int year, int month, int day) {
  const int64_t y = month > 2 ? year : int64_t{year} - 1;
  const int64_t m = (month + 9) % 12;
  return 365 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1;
}

}  // namespace

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer;
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string_view scientific(buffer.data(), static_cast<size_t>(end - buffer.data()));
  std::string result;
  if (scientific.front() == '-') {
    result = "-";
    scientific.remove_prefix(1);
  }
  const size_t mark = scientific.find('e');
  std::string digits;
  for (const char c : scientific.substr(0, mark)) {
    if (c != '.') digits.push_back(c);
  }
  int exponent = 0;
  const char* number = scientific.data() + mark + 1;
  std::from_chars(*number == '+' ? number + 1 : number, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", result, digits.front(), fraction, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return fmt::format("{}0.{}{}", result, std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  const auto whole = static_cast<size_t>(exponent + 1);
  if (digits.size() <= whole) return fmt::format("{}{}{}.0", result, digits, std::string(whole - digits.size(), '0'));
  return fmt::format("{}{}.{}", result, digits.substr(0, whole), digits.substr(whole));
}

Result<MarkedText> to_repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  QUIRE_TRY_STATUS(write_repr(runtime, value, out));
  return std::move(out.text());
}

Result<MarkedText> to_text(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return MarkedText();
  if (const MarkedText* text = value.as_marked()) {
    QUIRE_TRY_STATUS(runtime.charge_new_text(text->bytes()));
    return *text;
  }
  return to_repr(runtime, value);
}

Result<MarkedText> to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  QUIRE_TRY_STATUS(writer.write(value, 0));
  return std::move(writer.text());
}

std::string format_time(const CivilTime& time, std::string_view format) {
  static constexpr std::array<const char*, 12> kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                                          "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                       "Thursday", "Friday", "Saturday"};
  const std::string month = kMonths[static_cast<size_t>(time.month + 11) % 12];
  const int64_t days = day_number(time.year, time.month, time.day);
  const std::string day = kDays[static_cast<size_t>((days + 3) % 7)];
  std::string result;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      result.push_back(format[i]);
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();  // "%-d": without a leading zero
    i += bare ? 2 : 1;
    const auto number = [bare](int64_t value, int width) {
      return bare ? fmt::format("{}", value) : fmt::format("{:0{}}", value, width);
    };
    const int hour12 = time.hour % 12 == 0 ? 12 : time.hour % 12;
    switch (format[i]) {
      case 'Y': result += fmt::format("{}", time.year); break;
      case 'y': result += number(time.year % 100, 2); break;
      case 'm': result += number(time.month, 2); break;
      case 'd': result += number(time.day, 2); break;
      case 'e': result += fmt::format("{:>2}", time.day); break;
      case 'H': result += number(time.hour, 2); break;
      case 'I': result += number(hour12, 2); break;
      case 'M': result += number(time.minute, 2); break;
      case 'S': result += number(time.second, 2); break;
      case 'j': result += number(days - day_number(time.year, 1, 1) + 1, 3); break;
      case 'p': result += time.hour < 12 ? "AM" : "PM"; break;
      case 'B': result += month; break;
      case 'b':
      case 'h': result += month.substr(0, 3); break;
      case 'A': result += day; break;
      case 'a': result += day.substr(0, 3); break;
      case 'F': result += fmt::format("{}-{:02}-{:02}", time.year, time.month, time.day); break;
      case 'T': result += fmt::format("{:02}:{:02}:{:02}", time.hour, time.minute, time.second); break;
      case '%': result += "%"; break;
      default: result += fmt::format("%{}{}", bare ? "-" : "", format[i]);
    }
  }
  return result;
}

}  // namespace quire::chat
