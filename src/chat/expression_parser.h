// Expressions: the part of the parser between the delimiters. The grammar and its precedences are Jinja's:
//   conditional > or > and > not > comparison > + - > ~ > * / // % > ** > unary > postfix, filters and tests
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/lexer.h"
#include "chat/limits.h"
#include "chat/syntax.h"

namespace quire::chat {

// Which of the names that a macro is given only where it uses them were seen.
struct NamesUsed {
  bool caller = false;
  bool kwargs = false;
  bool varargs = false;
};

class ExpressionParser {
 public:
  // The tokens end with kEnd.
  ExpressionParser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}

  [[nodiscard]] const Token& current() const { return tokens_[position_]; }
  Token take();
  [[nodiscard]] bool at_operator(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view name);
  Status expect(TokenKind kind, std::string_view what);
  Status expect_operator(std::string_view text);
  Status expect_name(std::string_view name);
  Result<std::string> expect_any_name(std::string_view what);

  // One expression; without `conditional`, none of the form "a if b else c" (in a for tag the `if` is the tag's).
  Result<const Expression*> parse_expression(bool conditional = true);
  // One expression, or several with commas between: a tuple.
  Result<const Expression*> parse_tuple(bool conditional = true);
  // Filters "|name(arguments)" on an operand; the operand itself where none follows.
  Result<const Expression*> parse_filters(const Expression* operand);
  // "name(arguments)|..." of a filter block.
  Result<const Expression*> parse_first_filter();

  // Around a macro's body: the names used in it, which count for the macros around it too.
  NamesUsed begin_names() { return std::exchange(names_used_, {}); }
  NamesUsed end_names(NamesUsed outer);

 private:
  friend class NestingGuard;
  using Parsed = Result<const Expression*>;

  template <typename Node>
  Parsed make(Place place, Node node, const std::vector<const Expression*>& children);
  Parsed parse_or();
  Parsed parse_and();
  Parsed parse_not();
  Parsed parse_comparison();
  Parsed parse_sum();
  Parsed parse_concatenation();
  Parsed parse_product();
  Parsed parse_power();
  Parsed parse_unary(bool with_filters);
  Parsed parse_primary();
  Parsed parse_name();
  Parsed parse_parenthesized();
  Parsed parse_list();
  Parsed parse_dict();
  Parsed parse_postfix(const Expression* object);
  Parsed parse_attribute(const Expression* object);
  Parsed parse_subscript(const Expression* object);
  Parsed parse_call(const Expression* callee);
  Parsed parse_filters_and_tests(const Expression* operand);
  Parsed parse_filter(const Expression* operand);
  Parsed parse_test(const Expression* operand);
  Result<Arguments> parse_arguments();
  Result<bool> parse_comparison_operator(Comparison& operation);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  Program& program_;
  int nesting_ = 0;
  NamesUsed names_used_;
};

// Counts one level of nesting as long as it lives; its status is an error when there are too many.
class NestingGuard {
 public:
  explicit NestingGuard(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
  ~NestingGuard() { --parser_.nesting_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;
  [[nodiscard]] Status status() const;

 private:
  ExpressionParser& parser_;
};

}  // namespace quire::chat
