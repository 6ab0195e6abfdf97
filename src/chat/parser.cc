#include "chat/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "chat/expression_parser.h"
#include "chat/lexer.h"
#include "chat/limits.h"

namespace quire::chat {
namespace {

using EndNames = std::vector<std::string_view>;

// Statements; what is between them is read by the ExpressionParser that both share.
class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : program_(program), in_(std::move(tokens), program) {}

  Status run() {
    QUIRE_TRY(program_.body, parse_block({}, {}));
    return {};
  }

 private:
  template <typename Node>
  const Statement* make(Place place, Node node) {
    program_.statements.push_back(std::make_unique<Statement>(Statement{place, std::move(node)}));
    return program_.statements.back().get();
  }

  // Statements up to one of the tags `ends`, whose name is the current token afterwards; without `ends`, up to the template's end.
  // `opened` is the tag that is to be closed.
  Result<Block> parse_block(const EndNames& ends, const Token& opened) {
    const NestingGuard guard(in_);
    QUIRE_TRY_STATUS(guard.status());
    Block block;
    for (;;) {
      const Token token = in_.take();
      switch (token.kind) {
        case TokenKind::kEnd: {
          if (ends.empty()) return block;
          return syntax_error(token.place, fmt::format("the '{}' of line {} has no end: expected {}", opened.text,
                                                       opened.place.line, fmt::join(ends, " or ")));
        }
        case TokenKind::kText:
          block.push_back(make(token.place, TextOutput{Value(std::make_shared<const String>(nullptr, MarkedText(token.text)))}));
          break;
        case TokenKind::kOutputBegin: {
          QUIRE_TRY(const Expression* value, in_.parse_tuple());
          QUIRE_TRY_STATUS(in_.expect(TokenKind::kOutputEnd, "'}}'"));
          block.push_back(make(token.place, ExpressionOutput{value}));
          break;
        }
        default: {
          if (in_.current().kind == TokenKind::kName && std::find(ends.begin(), ends.end(), in_.current().text) != ends.end())
            return block;
          QUIRE_TRY(const Statement* statement, parse_statement(ends));
          block.push_back(statement);
        }
      }
    }
  }

  // After "{%", through "%}".
  Result<const Statement*> parse_statement(const EndNames& ends) {
    const Token name = in_.take();
    if (name.kind != TokenKind::kName)
      return syntax_error(name.place, fmt::format("expected a tag's name, got {}", describe(name)));
    if (name.text == "if") return parse_if(name);
    if (name.text == "for") return parse_for(name);
    if (name.text == "set") return parse_set(name);
    if (name.text == "macro") return parse_macro(name);
    if (name.text == "call") return parse_call(name);
    if (name.text == "filter") return parse_filter(name);
    if (name.text == "with") return parse_with(name);
    if (name.text == "generation") return parse_generation(name);
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) return syntax_error(name.place, fmt::format("'{}' outside of a loop", name.text));
      QUIRE_TRY_STATUS(end_tag());
      return name.text == "break" ? make(name.place, Break{}) : make(name.place, Continue{});
    }
    static constexpr std::array<std::string_view, 8> kOther = {"block", "extends", "include",    "import",
                                                               "from",  "do",      "autoescape", "trans"};
    if (std::find(kOther.begin(), kOther.end(), name.text) != kOther.end()) {
      return make_error(
          ErrorCode::kUnsupported,
          syntax_error(name.place, fmt::format("the tag '{}' is not available in chat templates", name.text)).message);
    }
    return syntax_error(name.place, ends.empty()
                                        ? fmt::format("unknown tag '{}'", name.text)
                                        : fmt::format("unknown tag '{}': expected {}", name.text, fmt::join(ends, " or ")));
  }

  Status end_tag() { return in_.expect(TokenKind::kBlockEnd, "'%}'"); }

  // Statements up to and with the tag `end`.
  Result<Block> parse_body(const char* end, const Token& opened) {
    QUIRE_TRY_STATUS(end_tag());
    QUIRE_TRY(Block block, parse_block({end}, opened));
    in_.take();
    QUIRE_TRY_STATUS(end_tag());
    return block;
  }

  Result<const Statement*> parse_if(const Token& opened) {
    If node;
    for (;;) {
      QUIRE_TRY(const Expression* condition, in_.parse_expression());
      QUIRE_TRY_STATUS(end_tag());
      QUIRE_TRY(Block block, parse_block({"elif", "else", "endif"}, opened));
      node.branches.emplace_back(condition, std::move(block));
      const std::string next = in_.take().text;
      if (next == "elif") continue;
      if (next == "else") {
        QUIRE_TRY(node.otherwise, parse_body("endif", opened));
      } else {
        QUIRE_TRY_STATUS(end_tag());
      }
      return make(opened.place, std::move(node));
    }
  }

  Result<const Statement*> parse_for(const Token& opened) {
    For node{};
    QUIRE_TRY(node.target, parse_target(false));
    QUIRE_TRY_STATUS(in_.expect_name("in"));
    QUIRE_TRY(node.iterable, in_.parse_tuple(false));
    if (in_.skip_name("if")) {
      QUIRE_TRY(node.condition, in_.parse_expression());
    }
    node.recursive = in_.skip_name("recursive");
    QUIRE_TRY_STATUS(end_tag());
    ++loops_;
    QUIRE_TRY(node.body, parse_block({"else", "endfor"}, opened));
    --loops_;
    if (in_.take().text == "else") {
      QUIRE_TRY(node.otherwise, parse_body("endfor", opened));
    } else {
      QUIRE_TRY_STATUS(end_tag());
    }
    return make(opened.place, std::move(node));
  }

  Result<const Statement*> parse_set(const Token& opened) {
    QUIRE_TRY(Target target, parse_target(true));
    if (in_.skip_operator("=")) {
      QUIRE_TRY(const Expression* value, in_.parse_tuple());
      QUIRE_TRY_STATUS(end_tag());
      return make(opened.place, Set{std::move(target), value});
    }
    QUIRE_TRY(const Expression* filter, in_.parse_filters(nullptr));
    QUIRE_TRY(Block body, parse_body("endset", opened));
    return make(opened.place, SetBlock{std::move(target), filter, std::move(body)});
  }

  // One name, an attribute "namespace.name" where `attributes` allows it, a tuple in parentheses, or several with commas between.
  Result<Target> parse_target(bool attributes) {
    Target tuple;
    tuple.is_tuple = true;
    bool comma = false;
    do {
      if (!tuple.items.empty() && in_.current().kind != TokenKind::kName && !in_.at_operator("(")) break;
      QUIRE_TRY(Target item, parse_one_target(attributes));
      tuple.items.push_back(std::move(item));
    } while (in_.skip_operator(",") && (comma = true));
    if (comma) return tuple;
    return std::move(tuple.items.front());
  }

  Result<Target> parse_one_target(bool attributes) {
    const NestingGuard guard(in_);
    QUIRE_TRY_STATUS(guard.status());
    if (in_.skip_operator("(")) {
      QUIRE_TRY(Target inner, parse_target(attributes));
      QUIRE_TRY_STATUS(in_.expect_operator(")"));
      return inner;
    }
    Target target;
    QUIRE_TRY(target.name, in_.expect_any_name("a name to assign to"));
    if (attributes && in_.skip_operator(".")) {
      QUIRE_TRY(target.attribute, in_.expect_any_name("an attribute's name"));
    }
    return target;
  }

  // "(a, b=1)" where it is there.
  Status parse_parameters(MacroDefinition& macro) {
    if (!in_.skip_operator("(")) return {};
    while (!in_.skip_operator(")")) {
      if (!macro.parameters.empty()) {
        QUIRE_TRY_STATUS(in_.expect_operator(","));
        if (in_.skip_operator(")")) return {};
      }
      Parameter parameter{};
      const Place place = in_.current().place;
      QUIRE_TRY(parameter.name, in_.expect_any_name("a parameter's name or ')'"));
      if (in_.skip_operator("=")) {
        QUIRE_TRY(parameter.default_value, in_.parse_expression());
      } else if (!macro.parameters.empty() && macro.parameters.back().default_value != nullptr) {
        return syntax_error(place,
                            fmt::format("the parameter '{}' needs a default value, as the one before it has one", parameter.name));
      }
      macro.parameters.push_back(std::move(parameter));
    }
    return {};
  }

  Status parse_macro_body(MacroDefinition& macro, const char* end, const Token& opened) {
    const int outer_loops = std::exchange(loops_, 0);
    const NamesUsed outer = in_.begin_names();
    QUIRE_TRY(macro.body, parse_body(end, opened));
    const NamesUsed used = in_.end_names(outer);
    macro.uses_caller = used.caller;
    macro.uses_kwargs = used.kwargs;
    macro.uses_varargs = used.varargs;
    loops_ = outer_loops;
    return {};
  }

  Result<const Statement*> parse_macro(const Token& opened) {
    MacroDefinition macro;
    QUIRE_TRY(macro.name, in_.expect_any_name("the macro's name"));
    if (!in_.at_operator("("))
      return syntax_error(in_.current().place, fmt::format("expected '(', got {}", describe(in_.current())));
    QUIRE_TRY_STATUS(parse_parameters(macro));
    QUIRE_TRY_STATUS(parse_macro_body(macro, "endmacro", opened));
    return make(opened.place, std::move(macro));
  }

  Result<const Statement*> parse_call(const Token& opened) {
    CallBlock node;
    node.caller.name = "caller";
    QUIRE_TRY_STATUS(parse_parameters(node.caller));
    const Place place = in_.current().place;
    QUIRE_TRY(node.call, in_.parse_expression());
    if (!std::holds_alternative<Call>(node.call->node)) return syntax_error(place, "expected a call, like 'macro(arguments)'");
    QUIRE_TRY_STATUS(parse_macro_body(node.caller, "endcall", opened));
    return make(opened.place, std::move(node));
  }

  Result<const Statement*> parse_filter(const Token& opened) {
    FilterBlock node{};
    QUIRE_TRY(node.filter, in_.parse_first_filter());
    QUIRE_TRY(node.body, parse_body("endfilter", opened));
    return make(opened.place, std::move(node));
  }

  Result<const Statement*> parse_with(const Token& opened) {
    With node;
    while (in_.current().kind != TokenKind::kBlockEnd) {
      if (!node.assignments.empty()) QUIRE_TRY_STATUS(in_.expect_operator(","));
      QUIRE_TRY(Target target, parse_one_target(false));
      QUIRE_TRY_STATUS(in_.expect_operator("="));
      QUIRE_TRY(const Expression* value, in_.parse_expression());
      node.assignments.emplace_back(std::move(target), value);
    }
    QUIRE_TRY(node.body, parse_body("endwith", opened));
    return make(opened.place, std::move(node));
  }

  Result<const Statement*> parse_generation(const Token& opened) {
    PlainBlock node;
    QUIRE_TRY(node.body, parse_body("endgeneration", opened));
    return make(opened.place, std::move(node));
  }

  Program& program_;
  ExpressionParser in_;
  int loops_ = 0;
};

}  // namespace

Result<std::unique_ptr<Program>> parse(std::string_view source) {
  QUIRE_TRY(std::vector<Token> tokens, tokenize(source));
  auto program = std::make_unique<Program>();
  QUIRE_TRY_STATUS(Parser(std::move(tokens), *program).run());
  return program;
}

}  // namespace quire::chat
