// Whatever a template does, it ends, within its bounds.
#include <gtest/gtest.h>

#include <string>

#include "chat/template.h"

namespace quire::chat {
namespace {

std::string repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// A tenth of what is allowed by default, so that reaching it is quick.
Limits small_limits() {
  Limits limits;
  limits.work /= 10;
  limits.memory_bytes /= 10;
  limits.output_bytes /= 10;
  return limits;
}

// "limit" when a bound was reached while compiling or rendering, "ok", or another error's code.
std::string outcome(const std::string& source, nlohmann::ordered_json variables = nlohmann::ordered_json::object(),
                    const Limits& limits = small_limits()) {
  auto compiled = Template::compile(source);
  if (!compiled.ok()) return std::string(to_string(compiled.error().code));
  RenderOptions options;
  options.limits = limits;
  auto result = compiled->render(variables, options);
  return result.ok() ? "ok" : std::string(to_string(result.error().code));
}

TEST(LimitsTest, NestingInTheSourceIsBounded) {
  for (const int levels : {150, 100000}) {
    const std::string wanted = levels == 150 ? "ok" : "limit";
    EXPECT_EQ(outcome("{{ " + repeat("(", levels) + "1" + repeat(")", levels) + " }}"), wanted);
    EXPECT_EQ(outcome("{% set x = " + repeat("not ", levels) + "1 %}"), wanted);
    EXPECT_EQ(outcome("{{ 0 " + repeat("- ", levels) + "1 }}"), wanted);
    EXPECT_EQ(outcome(repeat("{% if true %}", levels) + repeat("{% endif %}", levels)), wanted);
    EXPECT_EQ(outcome("{{ 1" + repeat(" if 1 else 1", levels) + " }}"), wanted);
    EXPECT_EQ(outcome("{{ 1" + repeat(" + 1", levels) + " }}"), wanted);
    EXPECT_EQ(outcome("{{ 'x'" + repeat("|upper", levels) + " }}"), wanted);
    EXPECT_EQ(outcome("{{ x is defined" + repeat(" and x", levels) + " }}"), wanted);
    EXPECT_EQ(outcome("{{ {}" + repeat(".x", levels) + " }}"), levels == 150 ? "unsupported" : "limit");
    EXPECT_EQ(outcome("{% for " + repeat("(", levels) + "a" + repeat(")", levels) + " in [1] %}{% endfor %}"), wanted);
  }
  EXPECT_EQ(outcome("{{ " + repeat("[", 90) + repeat("]", 90) + " }}"), "ok");
  EXPECT_EQ(outcome("{{ " + repeat("[", 150) + repeat("]", 150) + " }}"), "limit");  // the list's own depth
}

TEST(LimitsTest, LongButFlatSourcesAreFine) {
  EXPECT_EQ(outcome("{{ 1" + repeat(" ~ 1", 20000) + " }}"), "ok");
  EXPECT_EQ(outcome("{{ [" + repeat("1,", 20000) + "] }}"), "ok");
  EXPECT_EQ(outcome("{% if false %}" + repeat("{% elif false %}", 20000) + "{% endif %}"), "ok");
  EXPECT_EQ(outcome(repeat("{{ 1 }}", 20000)), "ok");
  EXPECT_EQ(outcome(std::string(kMaxSourceBytes + 1, 'x')), "limit");
}

TEST(LimitsTest, RecursionIsBounded) {
  EXPECT_EQ(outcome("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "limit");
  EXPECT_EQ(outcome("{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}"), "ok");
  EXPECT_EQ(outcome("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"), "limit");
  EXPECT_EQ(outcome("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{% macro m(x=m()) %}{% endmacro %}{{ m() }}"), "limit");
  EXPECT_EQ(
      outcome(
          "{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}"),
      "limit");
  EXPECT_EQ(outcome("{{ 'a'|map(*(['map'] * 5000))|list }}"), "limit");
}

TEST(LimitsTest, TimeIsBounded) {
  EXPECT_EQ(outcome("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{{ range(10 ** 9) }}"), "limit");
  EXPECT_EQ(outcome("{{ range(9223372036854775807, 0, -1) }}"), "limit");
  // Every value holds the one before it twice: 2^60 leaves in little memory.
  const std::string doubled =
      "{% set n = namespace(a=1, b=1) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}";
  EXPECT_EQ(outcome(doubled), "ok");
  EXPECT_EQ(outcome(doubled + "{{ n.a == n.b }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ n.a < n.b }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ n.a }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ n.a|tojson }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ n.a in [n.b] }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ [n.a, n.b]|unique|list }}"), "limit");
  EXPECT_EQ(outcome(doubled + "{{ [n.a, n.b]|sort }}"), "limit");
}

TEST(LimitsTest, MemoryIsBounded) {
  EXPECT_EQ(outcome("{{ 'x' * 10 ** 15 }}"), "limit");
  EXPECT_EQ(outcome("{{ [1] * 10 ** 15 }}"), "limit");
  EXPECT_EQ(outcome("{{ '' * 10 ** 15 }}{{ [] * 10 ** 15 }}{{ 'x' * -5 }}"), "ok");
  EXPECT_EQ(outcome("{{ 'x'.center(10 ** 15) }}{{ 'x'.zfill(9223372036854775807) }}"), "limit");
  EXPECT_EQ(outcome("{{ '%999999999999s' % 'x' }}"), "ok");  // the width is cut
  EXPECT_EQ(outcome("{% set s = 'x' * 100000 %}{{ s.replace('x', s) }}"), "limit");
  EXPECT_EQ(outcome("{% set s = 'x' * 100000 %}{{ s.replace('', s) }}"), "limit");
  EXPECT_EQ(outcome("{% set s = 'x' * 100000 %}{{ s.join([s] * 10000) }}"), "limit");
  EXPECT_EQ(outcome("{% set s = 'x' * 1000000 %}{{ [s] * 10000 }}"), "limit");
  EXPECT_EQ(outcome("{% set n = namespace(s='ab') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{% set n = namespace(l=[1]) %}{% for i in range(100) %}{% set n.l = n.l + n.l %}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{% set n = namespace(l=1) %}{% for i in range(1000) %}{% set n.l = [n.l] %}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + ['x' * 1000000] %}{% endfor %}"),
            "limit");
  EXPECT_EQ(outcome("{{ [1]|batch(10 ** 15, 0)|list }}"), "limit");
}

TEST(LimitsTest, MemoryThatIsGivenBackDoesNotCount) {
  Limits limits;
  limits.memory_bytes = 3000000;
  EXPECT_EQ(outcome("{% for i in range(100) %}{% set s = 'x' * 1000000 %}{% endfor %}", {{"a", 1}}, limits), "ok");
  EXPECT_EQ(outcome("{% for i in range(100) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", {{"a", 1}}, limits), "ok");
}

TEST(LimitsTest, OutputIsBounded) {
  EXPECT_EQ(outcome("{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}"), "limit");
  EXPECT_EQ(outcome("{% set s = 'x' * 1000000 %}{% set t %}{% for i in range(100) %}{{ s }}{% endfor %}{% endset %}"), "limit");
}

TEST(LimitsTest, ConversationsAreBounded) {
  nlohmann::ordered_json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = nlohmann::ordered_json::array({std::move(deep)});
  EXPECT_EQ(outcome("x", {{"messages", std::move(deep)}}), "limit");
  Limits limits;
  limits.memory_bytes = 1000;
  EXPECT_EQ(outcome("x", {{"messages", std::string(2000, 'x')}}, limits), "limit");
}

TEST(LimitsTest, ThingsThatPointAtThemselvesAreFine) {
  EXPECT_EQ(
      outcome("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n, {'n': n}] %}{{ n.n.n.l[0].l[1].n }}{{ n.l == n.l }}"),
      "ok");
  EXPECT_EQ(outcome("{% set n = namespace() %}{% macro m() %}{{ n }}{% endmacro %}{% set n.m = m %}{{ n.m() }}"), "ok");
  // A loop and a caller that outlive their blocks.
  EXPECT_EQ(
      outcome("{% set n = namespace() %}{% for x in [1, 2] %}{% set n.l = loop %}{% endfor %}{{ n.l.index }}{{ n.l.previtem }}"),
      "ok");
  EXPECT_EQ(outcome("{% set n = namespace() %}{% macro m() %}{% set n.c = caller %}{% endmacro %}"
                    "{% for x in [1] %}{% call m() %}{{ x }}{% endcall %}{% endfor %}{{ n.c() }}"),
            "ok");
}

TEST(LimitsTest, IntegersOverflowIntoErrors) {
  for (const char* expression : {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 63",
                                 "10 ** 1000000000000", "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) // -1",
                                 "(-9223372036854775807 - 1)|abs", "1 // 0", "1 % 0", "1.5 % 0"}) {
    EXPECT_EQ(outcome(std::string("{{ ") + expression + " }}"), "unsupported") << expression;
  }
  EXPECT_EQ(
      outcome("{{ (-9223372036854775807 - 1) % -1 }}{{ 1 ** 10 ** 18 }}{{ (-1) ** (10 ** 18) }}{{ 'abc'[9223372036854775807:] }}"
              "{{ [1, 2][-9223372036854775807:9223372036854775807:9223372036854775807] }}"),
      "ok");
}

}  // namespace
}  // namespace quire::chat
