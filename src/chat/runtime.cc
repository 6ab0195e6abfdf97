#include "chat/runtime.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::chat {

const Value* CallArguments::find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  const auto found = std::find_if(named.begin(), named.end(), [name](const auto& argument) { return argument.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

Error template_error(std::string message) { return make_error(ErrorCode::kUnsupported, std::move(message)); }

Status Runtime::charge(int64_t work) {
  meter_.work_left -= work;
  if (meter_.work_left < 0) {
    return make_error(ErrorCode::kLimit, fmt::format("the template does too much work (more than {} steps)", limits_.work));
  }
  if (meter_.live_bytes > limits_.memory_bytes) {
    return make_error(ErrorCode::kLimit,
                      fmt::format("the template needs too much memory (more than {} bytes)", limits_.memory_bytes));
  }
  return {};
}

Status Runtime::charge_new_text(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(limits_.memory_bytes)) {
    return make_error(ErrorCode::kLimit, fmt::format("the template makes a text of {} bytes (memory is bounded by {} bytes)", bytes,
                                                     limits_.memory_bytes));
  }
  QUIRE_TRY_STATUS(charge_text(bytes));
  if (meter_.live_bytes + static_cast<int64_t>(bytes) > limits_.memory_bytes) {
    return make_error(ErrorCode::kLimit,
                      fmt::format("the template needs too much memory (more than {} bytes)", limits_.memory_bytes));
  }
  return {};
}

Result<Value> Runtime::make_string(MarkedText text) {
  QUIRE_TRY_STATUS(charge_new_text(text.bytes()));
  return Value(std::make_shared<const String>(&meter_, std::move(text)));
}

Result<Value> Runtime::make_list(ListKind kind, std::vector<Value> items) {
  QUIRE_TRY_STATUS(charge(1 + static_cast<int64_t>(items.size())));
  auto list = std::make_shared<const List>(&meter_, kind, std::move(items));
  if (list->depth > kMaxValueDepth) {
    return make_error(ErrorCode::kLimit, fmt::format("lists and dicts within each other deeper than {} levels", kMaxValueDepth));
  }
  return Value(std::move(list));
}

Result<Value> Runtime::make_dict(std::vector<Dict::Item> items) {
  int64_t levels = 1;
  while ((size_t{1} << levels) < items.size()) ++levels;
  int64_t work = 1;
  for (const auto& [key, value] : items) {
    if (!can_be_key(key)) return template_error(fmt::format("unhashable type: '{}'", type_name(key)));
    work += levels * (1 + (key.as_string() == nullptr ? 0 : static_cast<int64_t>(key.as_string()->size() / 16)));
  }
  QUIRE_TRY_STATUS(charge(work));
  auto dict = std::make_shared<const Dict>(&meter_, std::move(items));
  if (dict->depth > kMaxValueDepth) {
    return make_error(ErrorCode::kLimit, fmt::format("lists and dicts within each other deeper than {} levels", kMaxValueDepth));
  }
  return Value(std::move(dict));
}

Result<Value> Runtime::make_undefined(std::string message) {
  QUIRE_TRY_STATUS(charge_text(message.size()));
  return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
}

Status DepthGuard::status() const {
  if (runtime_.depth <= runtime_.limits().depth) return {};
  return make_error(ErrorCode::kLimit, fmt::format("the template recurses deeper than {} levels", runtime_.limits().depth));
}

Status TextBuilder::append(std::string_view text) {
  QUIRE_TRY_STATUS(charge(text.size()));
  text_.append(text);
  return {};
}

Status TextBuilder::append_part(const MarkedText& text, size_t offset, size_t length) {
  QUIRE_TRY_STATUS(charge(length));
  text_.append_part(text, offset, length);
  return {};
}

Status TextBuilder::charge(size_t bytes) {
  QUIRE_TRY_STATUS(runtime_.charge_text(bytes));
  if (static_cast<int64_t>(text_.bytes() + bytes) + runtime_.meter().live_bytes > runtime_.limits().memory_bytes) {
    return make_error(ErrorCode::kLimit,
                      fmt::format("the template needs too much memory (more than {} bytes)", runtime_.limits().memory_bytes));
  }
  return {};
}

Value* Namespace::find(std::string_view name) {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [name](const auto& attribute) { return attribute.first == name; });
  return found == attributes.end() ? nullptr : &found->second;
}

}  // namespace quire::chat
