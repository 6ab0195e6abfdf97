// The syntax tree of a chat template.
//
// Nodes are owned by the Program and point at each other; their height is bounded by the parser, so that walking them may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/value.h"

namespace quire::chat {

// A place in the template's text, both from 1; the column counts bytes.
struct Place {
  int line = 1;
  int column = 1;
};

struct Expression;
struct Statement;
using Block = std::vector<const Statement*>;

// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<const Expression*> positional;
  std::vector<std::pair<std::string, const Expression*>> named;
  const Expression* rest = nullptr;        // *rest
  const Expression* named_rest = nullptr;  // **named_rest
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  ListKind kind;
  std::vector<const Expression*> items;
};
struct DictDisplay {
  std::vector<std::pair<const Expression*, const Expression*>> items;
};
struct Attribute {  // object.name
  const Expression* object;
  std::string name;
};
struct Subscript {  // object[index]
  const Expression* object;
  const Expression* index;
};
struct Slice {  // object[start:stop:step], each may be missing (nullptr)
  const Expression* object;
  const Expression* start;
  const Expression* stop;
  const Expression* step;
};
struct Call {
  const Expression* callee;
  Arguments arguments;
};
struct Filter {
  const Expression* operand;  // nullptr in filter blocks: the block's text
  std::string name;
  Arguments arguments;
};
struct Test {
  const Expression* operand;
  std::string name;
  Arguments arguments;
};

enum class UnaryOperator { kNot, kNegate, kPlus };
struct Unary {
  UnaryOperator operation;
  const Expression* operand;
};

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOperator operation;
  const Expression* left;
  const Expression* right;
};

struct Logical {  // and, or: gives one of its operands
  bool is_and;
  const Expression* left;
  const Expression* right;
};

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
struct Compare {  // a < b <= c ...
  const Expression* first;
  std::vector<std::pair<Comparison, const Expression*>> rest;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<const Expression*> parts;
};
struct Conditional {  // value if condition else otherwise (nullptr: undefined)
  const Expression* value;
  const Expression* condition;
  const Expression* otherwise;
};

struct Expression {
  Place place;
  int height;
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Subscript, Slice, Call, Filter, Test, Unary, Binary, Logical,
               Compare, Concatenation, Conditional>
      node;
};

// What `for` and `set` assign to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;      // empty: the name itself
  std::vector<Target> items;  // not empty: a tuple
  bool is_tuple = false;
};

struct TextOutput {
  Value text;
};
struct ExpressionOutput {
  const Expression* value;
};
struct If {
  std::vector<std::pair<const Expression*, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  const Expression* iterable;
  const Expression* condition;  // nullptr: none
  bool recursive;
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  const Expression* value;
};
struct SetBlock {
  Target target;
  const Expression* filter;  // a chain of filters whose innermost operand is nullptr, or nullptr
  Block body;
};
struct Parameter {
  std::string name;
  const Expression* default_value;  // nullptr: none
};
// The parameters and body of a macro or of a call block.
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false;  // whether the body names `caller`, `kwargs`, `varargs`
  bool uses_kwargs = false;
  bool uses_varargs = false;
};
struct CallBlock {
  const Expression* call;
  MacroDefinition caller;
};
struct FilterBlock {
  const Expression* filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, const Expression*>> assignments;
  Block body;
};
struct PlainBlock {  // {% generation %}: marks what the model wrote; its text is kept as it is
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  Place place;
  std::variant<TextOutput, ExpressionOutput, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With, PlainBlock,
               Break, Continue>
      node;
};

struct Program {
  Block body;
  std::vector<std::unique_ptr<Expression>> expressions;
  std::vector<std::unique_ptr<Statement>> statements;
};

}  // namespace quire::chat
