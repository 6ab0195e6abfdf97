#include "chat/value.h"

#include <algorithm>
#include <cmath>
#include <compare>

namespace quire::chat {
namespace {

int depth_of(const std::vector<Value>& items) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  return deepest + 1;
}

int depth_of(const std::vector<Dict::Item>& items) {
  int deepest = 0;
  for (const auto& [key, value] : items) deepest = std::max({deepest, key.depth(), value.depth()});
  return deepest + 1;
}

int sign(std::strong_ordering order) { return order < 0 ? -1 : (order > 0 ? 1 : 0); }

// Exact: an integer beyond 2^53 is not rounded to the double that it is compared with.
int compare_integer(int64_t a, double b) {
  if (b != b) return -1;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double fraction = b - static_cast<double>(whole);
  return fraction > 0 ? -1 : (fraction < 0 ? 1 : 0);
}

}  // namespace

int compare_numbers(const Value& a, const Value& b) {
  int64_t x = 0;
  int64_t y = 0;
  const bool x_whole = a.as_integer(x);
  const bool y_whole = b.as_integer(y);
  if (x_whole && y_whole) return sign(x <=> y);
  if (x_whole) return compare_integer(x, *b.as<double>());
  if (y_whole) return -compare_integer(y, *a.as<double>());
  const double p = *a.as<double>();
  const double q = *b.as<double>();
  if (p == q) return 0;
  if (p != p || q != q) return static_cast<int>(p != p) - static_cast<int>(q != q);
  return p < q ? -1 : 1;
}

namespace {

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Meter& meter) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&meter](const Value& x, const Value& y) { return equal(x, y, meter); });
}

bool equal_dicts(const Dict& a, const Dict& b, Meter& meter) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, meter)) return false;
  }
  return true;
}

int key_rank(const Value& value) {
  if (value.is_none()) return 0;
  if (value.is_number()) return 1;
  if (value.as_string() != nullptr) return 2;
  if (value.as_object() != nullptr) return 3;
  return 4;
}

}  // namespace

List::List(Meter* meter, ListKind k, std::vector<Value> i)
    : Metered(meter, sizeof(List) + i.size() * sizeof(Value)), kind(k), items(std::move(i)), depth(depth_of(items)) {}

Dict::Dict(Meter* meter, std::vector<Item> i)
    : Metered(meter, sizeof(Dict) + i.size() * (sizeof(Item) + sizeof(uint32_t))), depth(depth_of(i)) {
  by_key_.resize(i.size());
  for (size_t n = 0; n < i.size(); ++n) by_key_[n] = static_cast<uint32_t>(n);
  std::stable_sort(by_key_.begin(), by_key_.end(),
                   [&](uint32_t a, uint32_t b) { return compare_keys(i[a].first, i[b].first) < 0; });
  // Of equal keys the first place and the last value stay, as in Python.
  std::vector<bool> dropped(i.size(), false);
  size_t first = 0;
  for (size_t n = 1; n < by_key_.size(); ++n) {
    if (compare_keys(i[by_key_[first]].first, i[by_key_[n]].first) == 0) {
      i[by_key_[first]].second = i[by_key_[n]].second;
      dropped[by_key_[n]] = true;
    } else {
      first = n;
    }
  }
  std::vector<uint32_t> new_place(i.size());
  for (size_t n = 0; n < i.size(); ++n) {
    new_place[n] = static_cast<uint32_t>(items.size());
    if (!dropped[n]) items.push_back(std::move(i[n]));
  }
  std::erase_if(by_key_, [&](uint32_t n) { return dropped[n]; });
  for (uint32_t& n : by_key_) n = new_place[n];
}

const Value* Dict::find(const Value& key) const {
  const auto found = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                      [&](uint32_t n, const Value& wanted) { return compare_keys(items[n].first, wanted) < 0; });
  if (found == by_key_.end() || compare_keys(items[*found].first, key) != 0) return nullptr;
  return &items[*found].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::lower_bound(by_key_.begin(), by_key_.end(), key, [&](uint32_t n, std::string_view wanted) {
    const std::string* text = items[n].first.as_string();
    return text == nullptr ? key_rank(items[n].first) < 2 : std::string_view(*text) < wanted;
  });
  if (found == by_key_.end()) return nullptr;
  const std::string* text = items[*found].first.as_string();
  return text != nullptr && *text == key ? &items[*found].second : nullptr;
}

const std::string* Value::as_string() const {
  const auto* pointer = as<std::shared_ptr<const String>>();
  return pointer == nullptr ? nullptr : &(*pointer)->text.text();
}

const MarkedText* Value::as_marked() const {
  const auto* pointer = as<std::shared_ptr<const String>>();
  return pointer == nullptr ? nullptr : &(*pointer)->text;
}

const List* Value::as_list() const {
  const auto* pointer = as<std::shared_ptr<const List>>();
  return pointer == nullptr ? nullptr : pointer->get();
}

const Dict* Value::as_dict() const {
  const auto* pointer = as<std::shared_ptr<const Dict>>();
  return pointer == nullptr ? nullptr : pointer->get();
}

Object* Value::as_object() const {
  Object* const* pointer = as<Object*>();
  return pointer == nullptr ? nullptr : *pointer;
}

bool Value::as_integer(int64_t& out) const {
  if (const bool* truth = as<bool>()) return out = *truth ? 1 : 0, true;
  if (const int64_t* integer = as<int64_t>()) return out = *integer, true;
  return false;
}

int Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as_dict()) return dict->depth;
  return 0;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* truth = value.as<bool>()) return *truth;
  if (const int64_t* integer = value.as<int64_t>()) return *integer != 0;
  if (const double* number = value.as<double>()) return *number != 0;
  if (const std::string* text = value.as_string()) return !text->empty();
  if (const List* list = value.as_list()) return list->kind == ListKind::kIterator || !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  if (--meter.work_left < 0) return false;
  if (a.is_number() && b.is_number()) {
    const double* x = a.as<double>();
    if (x != nullptr && *x != *x) return false;  // NaN equals nothing
    return compare_numbers(a, b) == 0;
  }
  if (a.is_undefined() || a.is_none()) return a.is_undefined() == b.is_undefined() && a.is_none() == b.is_none();
  if (const std::string* text = a.as_string()) {
    if (b.as_string() == nullptr || text->size() != b.as_string()->size()) return false;
    meter.work_left -= static_cast<int64_t>(text->size() / 16);
    return *text == *b.as_string();
  }
  if (const List* list = a.as_list()) {
    const List* other = b.as_list();
    if (other == nullptr || list->kind != other->kind) return false;
    return list == other || (list->kind != ListKind::kIterator && equal_items(list->items, other->items, meter));
  }
  if (const Dict* dict = a.as_dict()) return b.as_dict() != nullptr && equal_dicts(*dict, *b.as_dict(), meter);
  return a.as_object() != nullptr && a.as_object() == b.as_object();
}

int compare_keys(const Value& a, const Value& b) {
  const int rank = key_rank(a);
  const int other_rank = key_rank(b);
  if (rank != other_rank) return rank < other_rank ? -1 : 1;
  switch (rank) {
    case 1: return compare_numbers(a, b);
    case 2: return sign(*a.as_string() <=> *b.as_string());
    case 3: return sign(std::compare_three_way{}(a.as_object(), b.as_object()));
    default: return 0;
  }
}

bool can_be_key(const Value& value) { return key_rank(value) < 4; }

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.as<bool>() != nullptr) return "bool";
  if (value.as<int64_t>() != nullptr) return "int";
  if (value.as<double>() != nullptr) return "float";
  if (value.as_string() != nullptr) return "str";
  if (const List* list = value.as_list()) {
    if (list->kind == ListKind::kIterator) return "generator";
    return list->kind == ListKind::kList ? "list" : "tuple";
  }
  if (value.as_dict() != nullptr) return "dict";
  return value.as_object()->type_name();
}

}  // namespace quire::chat
