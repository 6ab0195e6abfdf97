// Python's "%" on strings: %s %r %d %i %x %o %f %e %g %c %% with flags, width and precision, by position or %(name)s.
#include <fmt/format.h>

#include <algorithm>

#include "chat/runtime.h"
#include "chat/text.h"

namespace quire::chat {
namespace {

constexpr int kMaxWidth = 10000;

struct Conversion {
  bool left = false;
  bool zero = false;
  bool plus = false;
  int width = 0;
  int precision = -1;
  char kind = 0;
};

// A decimal number at `position`, bounded.
int parse_number(const std::string& format, size_t& position) {
  int number = 0;
  while (position < format.size() && format[position] >= '0' && format[position] <= '9') {
    number = std::min(kMaxWidth, number * 10 + (format[position++] - '0'));
  }
  return number;
}

bool parse_conversion(const std::string& format, size_t& position, Conversion& conversion) {
  for (; position < format.size(); ++position) {
    const char c = format[position];
    if (c == '-')
      conversion.left = true;
    else if (c == '0')
      conversion.zero = true;
    else if (c == '+')
      conversion.plus = true;
    else if (c != ' ' && c != '#')
      break;
  }
  conversion.width = parse_number(format, position);
  if (position < format.size() && format[position] == '.') {
    ++position;
    conversion.precision = parse_number(format, position);
  }
  if (position >= format.size()) return false;
  conversion.kind = format[position++];
  return true;
}

Result<std::string> convert_number(const Conversion& conversion, const Value& value) {
  int64_t integer = 0;
  const bool is_integer = value.as_integer(integer);
  if (!value.is_number())
    return template_error(fmt::format("%{} format: a number is required, not {}", conversion.kind, type_name(value)));
  const double number = is_integer ? static_cast<double>(integer) : *value.as<double>();
  const int precision = conversion.precision < 0 ? 6 : std::min(conversion.precision, 100);
  std::string text;
  switch (conversion.kind) {
    case 'f': text = fmt::format("{:.{}f}", number, precision); break;
    case 'e': text = fmt::format("{:.{}e}", number, precision); break;
    case 'g': text = fmt::format("{:.{}g}", number, precision); break;
    default: {
      if (!is_integer && !(number > -9e18 && number < 9e18)) return template_error("the number has no 64-bit integer");
      if (!is_integer) integer = static_cast<int64_t>(number);
      text = conversion.kind == 'x' ? fmt::format("{:x}", integer)
                                    : (conversion.kind == 'o' ? fmt::format("{:o}", integer) : fmt::format("{}", integer));
    }
  }
  if (conversion.plus && text.front() != '-') text.insert(0, 1, '+');
  const auto width = static_cast<size_t>(conversion.width);
  if (conversion.zero && !conversion.left && text.size() < width) {
    text.insert(text.front() == '-' || text.front() == '+' ? 1 : 0, width - text.size(), '0');
  }
  return text;
}

Result<MarkedText> convert(Runtime& runtime, const Conversion& conversion, const Value& value) {
  switch (conversion.kind) {
    case 's':
    case 'c':
    case 'r': {
      QUIRE_TRY(MarkedText text, conversion.kind == 'r' ? to_repr(runtime, value) : to_text(runtime, value));
      if (conversion.precision < 0) return text;
      return text.part(0, offset_of_character(text.text(), static_cast<size_t>(conversion.precision)));
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'o':
    case 'f':
    case 'e':
    case 'g': {
      QUIRE_TRY(std::string text, convert_number(conversion, value));
      return MarkedText(std::move(text));
    }
    default: return template_error(fmt::format("unsupported format character '{}'", conversion.kind));
  }
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const MarkedText& format, const Value& arguments)
      : runtime_(runtime), marked_format_(format), format_(format.text()), arguments_(arguments), out_(runtime) {}

  Result<Value> run() {
    while (position_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', position_), format_.size());
      QUIRE_TRY_STATUS(out_.append_part(marked_format_, position_, percent - position_));
      position_ = percent + 1;
      if (percent < format_.size()) QUIRE_TRY_STATUS(append_conversion());
    }
    const List* tuple = arguments_.as_list();
    const bool all_used =
        arguments_.as_dict() != nullptr || next_ == (tuple != nullptr && tuple->kind == ListKind::kTuple ? tuple->items.size() : 1);
    if (!all_used) return template_error("not all arguments converted during string formatting");
    return runtime_.make_string(std::move(out_.text()));
  }

 private:
  Status append_conversion() {
    Value value;
    bool named = false;
    if (position_ < format_.size() && format_[position_] == '(') {
      const size_t close = format_.find(')', position_);
      if (close == std::string::npos) return template_error("incomplete format key");
      if (arguments_.as_dict() == nullptr) return template_error("format requires a mapping");
      QUIRE_TRY(const Value key, runtime_.make_string(format_.substr(position_ + 1, close - position_ - 1)));
      QUIRE_TRY(value, get_item(runtime_, arguments_, key));
      named = true;
      position_ = close + 1;
    }
    Conversion conversion;
    if (!parse_conversion(format_, position_, conversion)) return template_error("incomplete format");
    if (conversion.kind == '%') return out_.append("%");
    if (!named) {
      QUIRE_TRY(value, next_argument());
    }
    QUIRE_TRY(const MarkedText text, convert(runtime_, conversion, value));
    const size_t length = count_characters(text.text());
    const auto width = static_cast<size_t>(conversion.width);
    const std::string padding(width > length ? width - length : 0, ' ');
    if (!conversion.left) QUIRE_TRY_STATUS(out_.append(padding));
    QUIRE_TRY_STATUS(out_.append(text));
    return conversion.left ? out_.append(padding) : Status();
  }

  Result<Value> next_argument() {
    const List* tuple = arguments_.as_list();
    const size_t place = next_++;
    if (tuple != nullptr && tuple->kind == ListKind::kTuple) {
      if (place < tuple->items.size()) return tuple->items[place];
    } else if (place == 0) {
      return arguments_;
    }
    return template_error("not enough arguments for format string");
  }

  Runtime& runtime_;
  const MarkedText& marked_format_;
  const std::string& format_;
  const Value& arguments_;
  TextBuilder out_;
  size_t position_ = 0;
  size_t next_ = 0;
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const MarkedText& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).run();
}

}  // namespace quire::chat
