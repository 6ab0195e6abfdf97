#include "chat/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire::chat {
namespace {

Error nesting_error(Place place) {
  return make_error(ErrorCode::kLimit, syntax_error(place, fmt::format("nested deeper than {} levels", kMaxNesting)).message);
}

std::vector<const Expression*> children_of(const Arguments& arguments, const Expression* operand) {
  std::vector<const Expression*> children = arguments.positional;
  for (const auto& [name, value] : arguments.named) children.push_back(value);
  for (const Expression* child : {arguments.rest, arguments.named_rest, operand}) children.push_back(child);
  return children;
}

}  // namespace

Status NestingGuard::status() const {
  if (parser_.nesting_ > kMaxNesting) return nesting_error(parser_.current().place);
  return {};
}

template <typename Node>
Result<const Expression*> ExpressionParser::make(Place place, Node node, const std::vector<const Expression*>& children) {
  int height = 1;
  for (const Expression* child : children) {
    if (child != nullptr) height = std::max(height, child->height + 1);
  }
  if (height > kMaxNesting) return nesting_error(place);
  program_.expressions.push_back(std::make_unique<Expression>(Expression{place, height, std::move(node)}));
  return program_.expressions.back().get();
}

Token ExpressionParser::take() {
  Token token = tokens_[position_];
  if (token.kind != TokenKind::kEnd) ++position_;
  return token;
}

bool ExpressionParser::at_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++position_;
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (current().kind != TokenKind::kName || current().text != name) return false;
  ++position_;
  return true;
}

Status ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return syntax_error(current().place, fmt::format("expected {}, got {}", what, describe(current())));
  take();
  return {};
}

Status ExpressionParser::expect_operator(std::string_view text) {
  if (skip_operator(text)) return {};
  return syntax_error(current().place, fmt::format("expected '{}', got {}", text, describe(current())));
}

Status ExpressionParser::expect_name(std::string_view name) {
  if (skip_name(name)) return {};
  return syntax_error(current().place, fmt::format("expected '{}', got {}", name, describe(current())));
}

Result<std::string> ExpressionParser::expect_any_name(std::string_view what) {
  if (current().kind != TokenKind::kName) {
    return syntax_error(current().place, fmt::format("expected {}, got {}", what, describe(current())));
  }
  return take().text;
}

NamesUsed ExpressionParser::end_names(NamesUsed outer) {
  const NamesUsed inner = names_used_;
  names_used_ = {outer.caller || inner.caller, outer.kwargs || inner.kwargs, outer.varargs || inner.varargs};
  return inner;
}

Result<const Expression*> ExpressionParser::parse_expression(bool conditional) {
  const NestingGuard guard(*this);
  QUIRE_TRY_STATUS(guard.status());
  QUIRE_TRY(const Expression* value, parse_or());
  while (conditional && current().kind == TokenKind::kName && current().text == "if") {
    const Place place = take().place;
    QUIRE_TRY(const Expression* condition, parse_or());
    const Expression* otherwise = nullptr;
    if (skip_name("else")) {
      QUIRE_TRY(otherwise, parse_expression());
    }
    QUIRE_TRY(value, make(place, Conditional{value, condition, otherwise}, {value, condition, otherwise}));
  }
  return value;
}

Result<const Expression*> ExpressionParser::parse_tuple(bool conditional) {
  const Place place = current().place;
  QUIRE_TRY(const Expression* first, parse_expression(conditional));
  if (!at_operator(",")) return first;
  std::vector<const Expression*> items = {first};
  while (skip_operator(",")) {
    const TokenKind next = current().kind;
    const bool ended = next == TokenKind::kOutputEnd || next == TokenKind::kBlockEnd || at_operator(")") ||
                       (next == TokenKind::kName && current().text == "recursive");
    if (ended) break;
    QUIRE_TRY(const Expression* item, parse_expression(conditional));
    items.push_back(item);
  }
  return make(place, ListDisplay{ListKind::kTuple, items}, items);
}

Result<const Expression*> ExpressionParser::parse_or() {
  QUIRE_TRY(const Expression* left, parse_and());
  while (current().kind == TokenKind::kName && current().text == "or") {
    const Place place = take().place;
    QUIRE_TRY(const Expression* right, parse_and());
    QUIRE_TRY(left, make(place, Logical{false, left, right}, {left, right}));
  }
  return left;
}

Result<const Expression*> ExpressionParser::parse_and() {
  QUIRE_TRY(const Expression* left, parse_not());
  while (current().kind == TokenKind::kName && current().text == "and") {
    const Place place = take().place;
    QUIRE_TRY(const Expression* right, parse_not());
    QUIRE_TRY(left, make(place, Logical{true, left, right}, {left, right}));
  }
  return left;
}

Result<const Expression*> ExpressionParser::parse_not() {
  if (current().kind != TokenKind::kName || current().text != "not") return parse_comparison();
  const NestingGuard guard(*this);
  QUIRE_TRY_STATUS(guard.status());
  const Place place = take().place;
  QUIRE_TRY(const Expression* operand, parse_not());
  return make(place, Unary{UnaryOperator::kNot, operand}, {operand});
}

// Takes a comparison operator when there is one.
Result<bool> ExpressionParser::parse_comparison_operator(Comparison& operation) {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEqual}, {"!=", Comparison::kNotEqual},     {"<=", Comparison::kLessEqual},
      {"<", Comparison::kLess},   {">=", Comparison::kGreaterEqual}, {">", Comparison::kGreater}};
  for (const auto& [text, comparison] : kOperators) {
    if (skip_operator(text)) return operation = comparison, true;
  }
  if (skip_name("in")) return operation = Comparison::kIn, true;
  if (current().kind == TokenKind::kName && current().text == "not" && tokens_[position_ + 1].kind == TokenKind::kName &&
      tokens_[position_ + 1].text == "in") {
    position_ += 2;
    return operation = Comparison::kNotIn, true;
  }
  return false;
}

Result<const Expression*> ExpressionParser::parse_comparison() {
  const Place place = current().place;
  QUIRE_TRY(const Expression* first, parse_sum());
  Compare node{first, {}};
  std::vector<const Expression*> children = {first};
  for (;;) {
    Comparison operation{};
    QUIRE_TRY(const bool found, parse_comparison_operator(operation));
    if (!found) break;
    QUIRE_TRY(const Expression* operand, parse_sum());
    node.rest.emplace_back(operation, operand);
    children.push_back(operand);
  }
  if (node.rest.empty()) return first;
  return make(place, std::move(node), children);
}

Result<const Expression*> ExpressionParser::parse_sum() {
  QUIRE_TRY(const Expression* left, parse_concatenation());
  while (at_operator("+") || at_operator("-")) {
    const Token token = take();
    QUIRE_TRY(const Expression* right, parse_concatenation());
    const auto operation = token.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    QUIRE_TRY(left, make(token.place, Binary{operation, left, right}, {left, right}));
  }
  return left;
}

Result<const Expression*> ExpressionParser::parse_concatenation() {
  const Place place = current().place;
  QUIRE_TRY(const Expression* first, parse_product());
  if (!at_operator("~")) return first;
  std::vector<const Expression*> parts = {first};
  while (skip_operator("~")) {
    QUIRE_TRY(const Expression* part, parse_product());
    parts.push_back(part);
  }
  return make(place, Concatenation{parts}, parts);
}

Result<const Expression*> ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOperator> kOperators[] = {{"*", BinaryOperator::kMultiply},
                                                                               {"/", BinaryOperator::kDivide},
                                                                               {"//", BinaryOperator::kFloorDivide},
                                                                               {"%", BinaryOperator::kModulo}};
  QUIRE_TRY(const Expression* left, parse_power());
  for (;;) {
    const auto* found =
        std::find_if(std::begin(kOperators), std::end(kOperators), [this](const auto& o) { return at_operator(o.first); });
    if (found == std::end(kOperators)) return left;
    const Place place = take().place;
    QUIRE_TRY(const Expression* right, parse_power());
    QUIRE_TRY(left, make(place, Binary{found->second, left, right}, {left, right}));
  }
}

Result<const Expression*> ExpressionParser::parse_power() {
  QUIRE_TRY(const Expression* left, parse_unary(true));
  while (at_operator("**")) {
    const Place place = take().place;
    QUIRE_TRY(const Expression* right, parse_unary(true));
    QUIRE_TRY(left, make(place, Binary{BinaryOperator::kPower, left, right}, {left, right}));
  }
  return left;
}

Result<const Expression*> ExpressionParser::parse_unary(bool with_filters) {
  const Expression* node = nullptr;
  if (at_operator("-") || at_operator("+")) {
    const NestingGuard guard(*this);
    QUIRE_TRY_STATUS(guard.status());
    const Token token = take();
    QUIRE_TRY(const Expression* operand, parse_unary(false));
    QUIRE_TRY(node,
              make(token.place, Unary{token.text == "-" ? UnaryOperator::kNegate : UnaryOperator::kPlus, operand}, {operand}));
  } else {
    QUIRE_TRY(node, parse_primary());
  }
  QUIRE_TRY(node, parse_postfix(node));
  if (with_filters) return parse_filters_and_tests(node);
  return node;
}

Result<const Expression*> ExpressionParser::parse_primary() {
  const Token& token = current();
  if (token.kind == TokenKind::kName) return parse_name();
  if (token.kind == TokenKind::kString) {
    const Place place = token.place;
    std::string text;
    while (current().kind == TokenKind::kString) text += take().text;
    return make(place, Literal{Value(std::make_shared<const String>(nullptr, MarkedText(std::move(text))))}, {});
  }
  if (token.kind == TokenKind::kInteger) {
    const Token number = take();
    return make(number.place, Literal{Value(number.integer)}, {});
  }
  if (token.kind == TokenKind::kFloat) {
    const Token number = take();
    return make(number.place, Literal{Value(number.number)}, {});
  }
  if (at_operator("(")) return parse_parenthesized();
  if (at_operator("[")) return parse_list();
  if (at_operator("{")) return parse_dict();
  return syntax_error(token.place, fmt::format("expected an expression, got {}", describe(token)));
}

Result<const Expression*> ExpressionParser::parse_name() {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.place, Literal{Value(true)}, {});
  if (name == "false" || name == "False") return make(token.place, Literal{Value(false)}, {});
  if (name == "none" || name == "None") return make(token.place, Literal{Value(None{})}, {});
  names_used_.caller |= name == "caller";
  names_used_.kwargs |= name == "kwargs";
  names_used_.varargs |= name == "varargs";
  return make(token.place, Name{name}, {});
}

Result<const Expression*> ExpressionParser::parse_parenthesized() {
  const Place place = take().place;
  if (skip_operator(")")) return make(place, ListDisplay{ListKind::kTuple, {}}, {});
  QUIRE_TRY(const Expression* inner, parse_tuple());
  QUIRE_TRY_STATUS(expect_operator(")"));
  return inner;
}

Result<const Expression*> ExpressionParser::parse_list() {
  const Place place = take().place;
  std::vector<const Expression*> items;
  while (!skip_operator("]")) {
    if (!items.empty()) {
      QUIRE_TRY_STATUS(expect_operator(","));
      if (skip_operator("]")) break;
    }
    QUIRE_TRY(const Expression* item, parse_expression());
    items.push_back(item);
  }
  return make(place, ListDisplay{ListKind::kList, items}, items);
}

Result<const Expression*> ExpressionParser::parse_dict() {
  const Place place = take().place;
  DictDisplay node;
  std::vector<const Expression*> children;
  while (!skip_operator("}")) {
    if (!node.items.empty()) {
      QUIRE_TRY_STATUS(expect_operator(","));
      if (skip_operator("}")) break;
    }
    QUIRE_TRY(const Expression* key, parse_expression());
    QUIRE_TRY_STATUS(expect_operator(":"));
    QUIRE_TRY(const Expression* value, parse_expression());
    node.items.emplace_back(key, value);
    children.insert(children.end(), {key, value});
  }
  return make(place, std::move(node), children);
}

Result<const Expression*> ExpressionParser::parse_postfix(const Expression* object) {
  for (;;) {
    if (at_operator(".")) {
      QUIRE_TRY(object, parse_attribute(object));
    } else if (at_operator("[")) {
      QUIRE_TRY(object, parse_subscript(object));
    } else if (at_operator("(")) {
      QUIRE_TRY(object, parse_call(object));
    } else {
      return object;
    }
  }
}

Result<const Expression*> ExpressionParser::parse_attribute(const Expression* object) {
  const Place place = take().place;
  if (current().kind == TokenKind::kInteger) {  // "items.0" is "items[0]"
    const Token number = take();
    QUIRE_TRY(const Expression* index, make(number.place, Literal{Value(number.integer)}, {}));
    return make(place, Subscript{object, index}, {object, index});
  }
  QUIRE_TRY(std::string name, expect_any_name("an attribute's name"));
  return make(place, Attribute{object, std::move(name)}, {object});
}

Result<const Expression*> ExpressionParser::parse_subscript(const Expression* object) {
  const Place place = take().place;
  const Expression* parts[3] = {nullptr, nullptr, nullptr};
  size_t colons = 0;
  while (!at_operator("]")) {
    if (colons < 2 && skip_operator(":")) {
      ++colons;
    } else if (parts[colons] == nullptr) {
      QUIRE_TRY(parts[colons], parse_tuple());
    } else {
      break;
    }
  }
  if (colons == 0 && parts[0] == nullptr) return syntax_error(current().place, "expected an index, got ']'");
  QUIRE_TRY_STATUS(expect_operator("]"));
  if (colons == 0) return make(place, Subscript{object, parts[0]}, {object, parts[0]});
  return make(place, Slice{object, parts[0], parts[1], parts[2]}, {object, parts[0], parts[1], parts[2]});
}

Result<const Expression*> ExpressionParser::parse_call(const Expression* callee) {
  const Place place = current().place;
  QUIRE_TRY(Arguments arguments, parse_arguments());
  const auto children = children_of(arguments, callee);
  return make(place, Call{callee, std::move(arguments)}, children);
}

Result<Arguments> ExpressionParser::parse_arguments() {
  Arguments arguments;
  take();
  bool first = true;
  while (!skip_operator(")")) {
    if (!std::exchange(first, false)) {
      QUIRE_TRY_STATUS(expect_operator(","));
      if (skip_operator(")")) break;
    }
    const Place place = current().place;
    const bool is_rest = at_operator("*");
    const bool is_named_rest = at_operator("**");
    const bool is_named = current().kind == TokenKind::kName && tokens_[position_ + 1].kind == TokenKind::kOperator &&
                          tokens_[position_ + 1].text == "=";
    const bool ordered = arguments.named_rest == nullptr && (is_named || is_named_rest || arguments.rest == nullptr) &&
                         (is_named || is_rest || is_named_rest || arguments.named.empty());
    if (!ordered) return syntax_error(place, "an argument without a name follows one with a name");
    std::string name;
    if (is_rest || is_named_rest) take();
    if (is_named) {
      name = take().text;
      take();
    }
    QUIRE_TRY(const Expression* value, parse_expression());
    if (is_rest) {
      arguments.rest = value;
    } else if (is_named_rest) {
      arguments.named_rest = value;
    } else if (is_named) {
      arguments.named.emplace_back(std::move(name), value);
    } else {
      arguments.positional.push_back(value);
    }
  }
  return arguments;
}

Result<const Expression*> ExpressionParser::parse_filters_and_tests(const Expression* operand) {
  for (;;) {
    if (skip_operator("|")) {
      QUIRE_TRY(operand, parse_filter(operand));
    } else if (current().kind == TokenKind::kName && current().text == "is") {
      QUIRE_TRY(operand, parse_test(operand));
    } else if (at_operator("(")) {
      QUIRE_TRY(operand, parse_call(operand));
    } else {
      return operand;
    }
  }
}

Result<const Expression*> ExpressionParser::parse_filters(const Expression* operand) {
  while (skip_operator("|")) {
    QUIRE_TRY(operand, parse_filter(operand));
  }
  return operand;
}

Result<const Expression*> ExpressionParser::parse_first_filter() {
  QUIRE_TRY(const Expression* first, parse_filter(nullptr));
  return parse_filters(first);
}

Result<const Expression*> ExpressionParser::parse_filter(const Expression* operand) {
  const Place place = current().place;
  QUIRE_TRY(std::string name, expect_any_name("a filter's name"));
  Arguments arguments;
  if (at_operator("(")) {
    QUIRE_TRY(arguments, parse_arguments());
  }
  const auto children = children_of(arguments, operand);
  return make(place, Filter{operand, std::move(name), std::move(arguments)}, children);
}

Result<const Expression*> ExpressionParser::parse_test(const Expression* operand) {
  const Place place = take().place;
  const bool negated = skip_name("not");
  QUIRE_TRY(std::string name, expect_any_name("a test's name"));
  Arguments arguments;
  const Token& next = current();
  const bool is_word =
      next.kind == TokenKind::kName && next.text != "else" && next.text != "or" && next.text != "and" && next.text != "if";
  if (is_word && next.text == "is") return syntax_error(next.place, "tests cannot be chained with 'is'");
  if (at_operator("(")) {
    QUIRE_TRY(arguments, parse_arguments());
  } else if (is_word || next.kind == TokenKind::kString || next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat ||
             at_operator("[") || at_operator("{")) {
    QUIRE_TRY(const Expression* argument, parse_primary());
    QUIRE_TRY(argument, parse_postfix(argument));
    arguments.positional.push_back(argument);
  }
  const auto children = children_of(arguments, operand);
  QUIRE_TRY(const Expression* test, make(place, Test{operand, std::move(name), std::move(arguments)}, children));
  if (!negated) return test;
  return make(place, Unary{UnaryOperator::kNot, test}, {test});
}

}  // namespace quire::chat
