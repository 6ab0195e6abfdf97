// The language, construct by construct. The wanted texts are what jinja2 3.1 gives with trim_blocks, lstrip_blocks, loop controls
// and the immutable sandbox (errors: its words).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/template.h"

namespace quire::chat {
namespace {

struct Case {
  std::string source;
  std::string wanted;
};

const nlohmann::ordered_json& variables() {
  static const auto json = nlohmann::ordered_json::parse(R"json({
 "s": "Hello, W\u00f6rld \ud83d\ude42!",
 "n": 7,
 "f": 2.5,
 "l": [
  3,
  1,
  2
 ],
 "d": {
  "b": 1,
  "a": [
   1,
   {
    "x": null
   }
  ],
  "items": 5,
  "Z": "q"
 },
 "e": [],
 "t": true,
 "u": "  pad\n",
 "nn": null,
 "msgs": [
  {
   "role": "system",
   "content": "S"
  },
  {
   "role": "user",
   "content": "a</think>b"
  },
  {
   "role": "assistant",
   "content": null,
   "tool_calls": [
    {
     "function": {
      "name": "f",
      "arguments": {
       "k": "v",
       "n": 1.0
      }
     }
    }
   ]
  }
 ]
})json");
  return json;
}

std::string render(const std::string& source) {
  auto compiled = Template::compile(source);
  if (!compiled.ok()) return "error: " + compiled.error().message;
  RenderOptions options;
  options.now = {2026, 1, 2, 3, 4, 5};
  auto result = compiled->render(variables(), options);
  return result.ok() ? *result : "error: " + result.error().message;
}

void expect_templates(const std::vector<Case>& cases) {
  for (const auto& [source, wanted] : cases) EXPECT_EQ(render(source), wanted) << source;
}

void expect_expressions(const std::vector<Case>& cases) {
  for (const auto& [source, wanted] : cases) EXPECT_EQ(render("{{ " + source + " }}"), wanted) << source;
}

TEST(LanguageTest, Arithmetic) {
  expect_expressions({
      {"1 + 2 * 3 - 4 // 3 % 2 ** 3", "6"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7.5 % 2", "1.5"},
      {"-7.5 // 2", "-4.0"},
      {"2 ** 10", "1024"},
      {"2 ** -1", "0.5"},
      {"10 / 4", "2.5"},
      {"4 / 2", "2.0"},
      {"- -n", "7"},
      {"+n", "7"},
      {"-n|abs", "7"},
      {"3.7|int", "3"},
      {"3.7|round", "4.0"},
      {"2.5|round", "2.0"},
      {"3.14159|round(2)", "3.14"},
      {R"(3.2|round(method="ceil"))", "4.0"},
      {"'0x1f'|int(base=16)", "31"},
      {"'x'|int(5)", "5"},
      {"'3.7'|int", "3"},
      {"'3.7'|float", "3.7"},
      {"t + 1", "2"},
      {"1_000", "1000"},
      {"0x1F", "31"},
      {"1 ~ 2 + 3", R"(error: chat template, line 1: can only concatenate str (not "int") to str)"},
      {"1 + 2 ~ 3", "error: chat template, line 1: unsupported operand type(s) for +: 'int' and 'str'"},
  });
}

TEST(LanguageTest, PrintedForms) {
  expect_expressions({
      {"1.0", "1.0"},
      {"1e16", "1e+16"},
      {"1.5e-7", "1.5e-07"},
      {"123456789012345678.0", "1.2345678901234568e+17"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"100000.0", "100000.0"},
      {"1e100", "1e+100"},
      {"true", "True"},
      {"none", "None"},
      {"()", "()"},
      {"(1,)", "(1,)"},
      {"1, 2", "(1, 2)"},
      {"[1, 'a', none, true, 1.5, [2], {'k': 'v'}]", "[1, 'a', None, True, 1.5, [2], {'k': 'v'}]"},
      {R"(['it\'s', "q\"", "a'b\"c", "é\n\t\x00\u200b🙂"])", R"(["it's", 'q"', 'a\'b"c', 'é\n\t\x00\u200b🙂'])"},
      {"{'a': 1, 'a': 2}", "{'a': 2}"},
      {"{1: 'x', 1.0: 'y', true: 'z'}", "{1: 'z'}"},
      {"'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1]", "a1NoneTrue1.5[1]"},
      {"[nope]", "[Undefined]"},
  });
}

TEST(LanguageTest, Json) {
  expect_expressions({
      {"d|tojson", R"({"b": 1, "a": [1, {"x": null}], "items": 5, "Z": "q"})"},
      {"d|tojson(indent=2)",
       "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    {\n      \"x\": null\n    }\n  ],\n  \"items\": 5,\n  \"Z\": \"q\"\n}"},
      {"d|tojson(indent=2, sort_keys=true)",
       "{\n  \"Z\": \"q\",\n  \"a\": [\n    1,\n    {\n      \"x\": null\n    }\n  ],\n  \"b\": 1,\n  \"items\": 5\n}"},
      {"d|tojson(separators=(',', ':'))", R"({"b":1,"a":[1,{"x":null}],"items":5,"Z":"q"})"},
      {"s|tojson", R"("Hello, Wörld 🙂!")"},
      {"s|tojson(ensure_ascii=true)", R"("Hello, W\u00f6rld \ud83d\ude42!")"},
      {R"("a\"b\\c\n\t\x01\x7f"|tojson)", "\"a\\\"b\\\\c\\n\\t\\u0001\177\""},
      {"[]|tojson(indent=4)", "[]"},
      {"[1, [], {}]|tojson(indent=2)", "[\n  1,\n  [],\n  {}\n]"},
      {"{1: 2, none: 3, true: 4}|tojson", R"({"1": 4, "null": 3})"},
      {"1.0|tojson", "1.0"},
      {"1e20|tojson", "1e+20"},
      {"'<script>'|tojson", R"("<script>")"},
      {"nope|tojson", "error: chat template, line 1: Object of type Undefined is not JSON serializable"},
  });
}

TEST(LanguageTest, Comparisons) {
  expect_expressions({
      {"1 < 2 < 3", "True"},
      {"1 < 3 < 2", "False"},
      {"'a' < 'b'", "True"},
      {"[1, 2] < [1, 3]", "True"},
      {"'a' < 1", "error: chat template, line 1: '<' not supported between instances of 'str' and 'int'"},
      {"none < 1", "error: chat template, line 1: '<' not supported between instances of 'NoneType' and 'int'"},
      {"1 == 1.0", "True"},
      {"1 == true", "True"},
      {"'1' == 1", "False"},
      {"[1] == (1,)", "False"},
      {"{'a': 1} == {'a': 1.0}", "True"},
      {"'l' in s", "True"},
      {"'zz' not in s", "True"},
      {"3 in l", "True"},
      {"'b' in d", "True"},
      {"1 in s", "error: chat template, line 1: 'in <string>' requires string as left operand, not int"},
      {"1 in n", "error: chat template, line 1: argument of type 'int' is not iterable"},
      {"not true == false", "True"},
      {"(not true) == false", "True"},
      {"nope == nope2", "True"},
      {"nope == none", "False"},
      {"nope in l", "False"},
      {"'x' in nope", "False"},
      {"n > 3 or nope.x", "True"},
      {"not n > 3", "False"},
  });
}

TEST(LanguageTest, Conditionals) {
  expect_expressions({
      {"'a' if n else 'b'", "a"},
      {"'a' if nope", ""},
      {"('a' if nope) is defined", "False"},
      {"1 if true else 2 if false else 3", "1"},
      {"true and none", "None"},
      {"false or 0", "0"},
      {"[] or 'empty'", "empty"},
      {"{} and 1", "{}"},
      {"'' or none or 'z'", "z"},
  });
}

TEST(LanguageTest, Strings) {
  expect_expressions({
      {"'a' 'b'", "ab"},
      {R"("a\n\t\x41\u00e9\\ \q")", "a\n\tAé\\ \\q"},
      {"s[0]", "H"},
      {"s[-1]", "!"},
      {"s[7]", "W"},
      {"s[100]", ""},
      {"s[1:5]", "ello"},
      {"s[::-1]", "!🙂 dlröW ,olleH"},
      {"s[5:1:-1]", ",oll"},
      {"s|length", "15"},
      {"s|upper", "HELLO, WÖRLD 🙂!"},
      {"s.upper().lower()", "hello, wörld 🙂!"},
      {"'hello wORLD foo-bar'|title", "Hello World Foo-Bar"},
      {R"("it's a dog's life"|title)", "It's A Dog's Life"},
      {R"("it's".title())", "It'S"},
      {"s.replace('l', 'L', 1)", "HeLlo, Wörld 🙂!"},
      {"'abc'.replace('', '-')", "-a-b-c-"},
      {"s.split(',')", "['Hello', ' Wörld 🙂!']"},
      {"'a b  c '.split()", "['a', 'b', 'c']"},
      {"'a b  c '.split(' ')", "['a', 'b', '', 'c', '']"},
      {"'a b c'.split(None, 1)", "['a', 'b c']"},
      {"'a,b,c'.rsplit(',', 1)", "['a,b', 'c']"},
      {"' a b c '.rsplit(None, 1)", "[' a b', 'c']"},
      {R"('a\nb\r\nc\n'.splitlines(true))", R"(['a\n', 'b\r\n', 'c\n'])"},
      {"u.strip()", "pad"},
      {"'xyax'.strip('yx')", "a"},
      {"'xxaxx'.lstrip('x')", "axx"},
      {"s.startswith(('x', 'H'))", "True"},
      {"s.find('W')", "7"},
      {"s.rfind('l')", "10"},
      {"s.index('zz')", "error: chat template, line 1: str.index: substring not found"},
      {"s.count('l')", "3"},
      {"'-'.join(['a', 'b'])", "a-b"},
      {"'-'.join(l)", "error: chat template, line 1: str.join: sequence item 0: expected str instance, int found"},
      {"'abc'.partition('b')", "('a', 'b', 'c')"},
      {"'abc'.rpartition('x')", "('', '', 'abc')"},
      {"'-5'.zfill(5)", "-0005"},
      {"'ab'.center(5, '*')", "**ab*"},
      {"'x.txt'.removesuffix('.txt')", "x"},
      {"'Ab'.swapcase()", "aB"},
      {"'12'.isdigit()", "True"},
      {"''.isspace()", "False"},
      {"'AB'.isupper()", "True"},
      {"s * 2", "Hello, Wörld 🙂!Hello, Wörld 🙂!"},
      {"s * -1", ""},
      {"s + 1", R"(error: chat template, line 1: can only concatenate str (not "int") to str)"},
      {"1 + s", "error: chat template, line 1: unsupported operand type(s) for +: 'int' and 'str'"},
      {"s - 1", "error: chat template, line 1: unsupported operand type(s) for -: 'str' and 'int'"},
      {R"('\u3000x\u3000'.strip())", "x"},
      {"'ÀÉ'|lower", "àé"},
      {"s|reverse", "!🙂 dlröW ,olleH"},
      {"'{} {}'.format(1, 'a')", "1 a"},
      {"'{0}{1}{0}'.format('a', 'b')", "aba"},
      {"'{x}'.format(x=3)", "3"},
      {"'%s-%d' % ('a', 3)", "a-3"},
      {"'%05.2f|%-5s|%5s|%x' % (3.14159, 'ab', 'cd', 255)", "03.14|ab   |   cd|ff"},
      {"'%(a)s' % {'a': 1}", "1"},
      {"'%s %s' % 5", "error: chat template, line 1: not enough arguments for format string"},
      {"'%s'|format('x')", "x"},
      {R"('a\nb\n\nc'|indent)", "a\n    b\n\n    c"},
      {R"('a\nb\n\nc'|indent('> ', true, true))", "> a\n> b\n> \n> c"},
      {R"('<a & "b">'|e)", "&lt;a &amp; &#34;b&#34;&gt;"},
      {"s|wordcount", "2"},
  });
}

TEST(LanguageTest, Lists) {
  expect_expressions({
      {"l[::-1]", "[2, 1, 3]"},
      {"l[1:]", "[1, 2]"},
      {"l[-2:10]", "[1, 2]"},
      {"l[10]", ""},
      {"l[10].x", "error: chat template, line 1: list object has no element 10"},
      {"l.0", "3"},
      {"l + [4]", "[3, 1, 2, 4]"},
      {"l + (1,)", R"(error: chat template, line 1: can only concatenate list (not "tuple") to list)"},
      {"[0] * 3", "[0, 0, 0]"},
      {"l|sort", "[1, 2, 3]"},
      {"l|sort(reverse=true)", "[3, 2, 1]"},
      {"['b', 'A', 'c']|sort", "['A', 'b', 'c']"},
      {"['b', 'A', 'c']|sort(case_sensitive=true)", "['A', 'b', 'c']"},
      {"l|reverse|list", "[2, 1, 3]"},
      {"l|first", "3"},
      {"e|last", ""},
      {"l|max", "3"},
      {"l|sum", "6"},
      {"l|join('-')", "3-1-2"},
      {"l|map('string')|list", "['3', '1', '2']"},
      {"['a', 'b']|map('upper')|join(',')", "A,B"},
      {"l|select('odd')|list", "[3, 1]"},
      {"l|reject('odd')|list", "[2]"},
      {"l|select('>', 1)|list", "[3, 2]"},
      {"[1, 1, 2, 'a', 'A']|unique|list", "[1, 2, 'a']"},
      {"range(2, 10, 3)|list", "[2, 5, 8]"},
      {"range(5, 0, -2)|list", "[5, 3, 1]"},
      {"l|batch(2, 'x')|list", "[[3, 1], [2, 'x']]"},
      {"l.index(1)", "1"},
      {"l.count(1)", "1"},
      {"l.append(4)", "error: chat template, line 1: access to attribute 'append' of 'list' object is unsafe."},
      {"[3, 'a']|sort", "error: chat template, line 1: '<' not supported between instances of 'str' and 'int'"},
      {"[[2], [1]]|sort", "[[1], [2]]"},
      {"[1, 2]|sum(start=10)", "13"},
  });
}

TEST(LanguageTest, Dicts) {
  expect_expressions({
      {"d['items']", "5"},
      {"d.get('q')", "None"},
      {"d.get('q', 'def')", "def"},
      {"d.keys()|list", "['b', 'a', 'items', 'Z']"},
      {"d.values()|list", "[1, [1, {'x': None}], 5, 'q']"},
      {"d|list", "['b', 'a', 'items', 'Z']"},
      {"d|length", "4"},
      {"d|dictsort", "[('a', [1, {'x': None}]), ('b', 1), ('items', 5), ('Z', 'q')]"},
      {"d|dictsort(by='key', reverse=true)", "[('Z', 'q'), ('items', 5), ('b', 1), ('a', [1, {'x': None}])]"},
      {"d|items|list", "[('b', 1), ('a', [1, {'x': None}]), ('items', 5), ('Z', 'q')]"},
      {"d.q", ""},
      {"d.q.r", "error: chat template, line 1: 'dict object' has no attribute 'q'"},
      {"d['q']", ""},
      {"d[0]", ""},
      {"d.pop('b')", "error: chat template, line 1: access to attribute 'pop' of 'dict' object is unsafe."},
      {"d.update({})", "error: chat template, line 1: access to attribute 'update' of 'dict' object is unsafe."},
      {"{[1]: 2}", "error: chat template, line 1: unhashable type: 'list'"},
      {"dict(a=1, b='x')", "{'a': 1, 'b': 'x'}"},
      {"dict({'x': 1}, y=2)", "{'x': 1, 'y': 2}"},
      {"{'x': [1, 2]}['x'][1]", "2"},
  });
}

TEST(LanguageTest, Messages) {
  expect_expressions({
      {"msgs|map(attribute='role')|list", "['system', 'user', 'assistant']"},
      {"msgs|selectattr('role', 'equalto', 'user')|list|length", "1"},
      {"msgs|selectattr('content')|list|length", "2"},
      {"msgs|rejectattr('role', 'eq', 'user')|map(attribute='role')|join(',')", "system,assistant"},
      {"msgs|map(attribute='tool_calls.0.function.name')|list",
       "error: chat template, line 1: 'dict object' has no attribute 'tool_calls'"},
      {"msgs|map(attribute='nope', default='-')|list", "['-', '-', '-']"},
      {"msgs[1].content.split('</think>')[-1]", "b"},
      {"msgs[2].tool_calls[0].function.arguments|tojson", R"({"k": "v", "n": 1.0})"},
      {"msgs[1:]|length", "2"},
      {"msgs[-1].role", "assistant"},
      {"[{'n': 2}, {'n': 1}]|sort(attribute='n')", "[{'n': 1}, {'n': 2}]"},
  });
}

TEST(LanguageTest, Undefined) {
  expect_expressions({
      {"nope", ""},
      {"nope.x", "error: chat template, line 1: 'nope' is undefined"},
      {"nope|default('d')", "d"},
      {"''|default('d', true)", "d"},
      {"nn|default('d')", "None"},
      {"nope|length", "0"},
      {"nope|list", "[]"},
      {"nope ~ 'x'", "x"},
      {"nope + 'x'", "error: chat template, line 1: 'nope' is undefined"},
      {"nope is defined", "False"},
      {"not nope", "True"},
      {"nope or 'x'", "x"},
      {"l.foo", ""},
      {"nn.foo", ""},
      {"nn[0]", ""},
      {"s.foo()", "error: chat template, line 1: 'str object' has no attribute 'foo'"},
      {"nope()", "error: chat template, line 1: 'nope' is undefined"},
      {"nope[0]", "error: chat template, line 1: 'nope' is undefined"},
      {"l[nope]", ""},
      {"nope|string", ""},
      {"e|first + 1", "error: chat template, line 1: No first item, sequence was empty."},
      {"nope < 1", "error: chat template, line 1: 'nope' is undefined"},
  });
}

TEST(LanguageTest, Tests) {
  expect_expressions({
      {"1 is number", "True"},        {"n is integer", "True"},       {"f is float", "True"},
      {"t is number", "True"},        {"t is integer", "False"},      {"s is string", "True"},
      {"l is sequence", "True"},      {"d is mapping", "True"},       {"s is iterable", "True"},
      {"n is iterable", "False"},     {"d is sequence", "True"},      {"nn is none", "True"},
      {"nn is not none", "False"},    {"n is divisibleby 7", "True"}, {"n is odd", "True"},
      {"n is eq 7", "True"},          {"n is in [1, 7]", "True"},     {"'b' is in d", "True"},
      {"'ABC' is upper", "True"},     {"t is sameas true", "True"},   {"1 is sameas true", "False"},
      {"t is true", "True"},          {"n is true", "False"},         {"range is callable", "True"},
      {"s is callable", "False"},     {"n is gt 3", "True"},          {"'x' is string and 'y' is string", "True"},
      {"not 'x' is string", "False"}, {"d.items is defined", "True"}, {"d.items is mapping", "False"},
  });
}

TEST(LanguageTest, Functions) {
  expect_expressions({
      {"namespace(a=1).a", "1"},
      {"namespace({'q': 3}).q", "3"},
      {"strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %j %y %I %p %-d %% %F %T')",
       "2026-01-02 03:04:05 January Jan Friday Fri 002 26 03 AM 2 % 2026-01-02 03:04:05"},
      {"cycler('a', 'b').next()", "a"},
      {"joiner('; ')()", ""},
      {"'x'|nosuch", "error: chat template, line 1: No filter named 'nosuch'."},
      {"n is nosuch", "error: chat template, line 1: No test named 'nosuch'."},
  });
}

TEST(LanguageTest, Whitespace) {
  expect_templates({
      {"  {% if true %}\n  yes\n  {% endif %}\nend", "  yes\nend"},
      {"  {%- if true -%}\n  yes\n  {%- endif -%}\nend", "yesend"},
      {"{% if true +%}\n\nx\n{% endif %}", "\n\nx\n"},
      {"{# comment #}\na {#- c -#} b\n {# x #}\nc", "ab\nc"},
      {"{% raw %}{{ x }} {% if %}{% endraw %} y", "{{ x }} {% if %} y"},
      {"  {%- raw -%}  {{ x }}  {%- endraw -%}  y", "{{ x }}y"},
      {"line {{ n }}\n{{ f }}\n", "line 7\n2.5"},
      {"{%- if tools %}T{% endif -%}\n{#- multi\nline -#}\nx", "x"},
      {"a\n{%- if true %}\n\nb\n{%- endif %}\nc", "a\nbc"},
      {"\t{% if true %}\ttab{% endif %}\t", "\ttab\t"},
      {"{% raw %}\n a\n{% endraw %}\nb", "\n a\nb"},
  });
}

TEST(LanguageTest, Loops) {
  expect_templates({
      {"{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "3, 1, 2"},
      {"{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = x + 5 %}{{ x }};{% endfor %}{{ x }}", "16;16;1"},
      {"{% set ns = namespace(c=0) %}{% for i in range(4) %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}", "6"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=[1, {'x': None}];items=5;Z=q;"},
      {"{% for (a, (b, c)) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
      {"{% for a, b in [(1,2,3)] %}{% endfor %}", "error: chat template, line 1: too many values to unpack (expected 2)"},
      {"{% for x in [] %}a{% else %}empty{% endfor %}", "empty"},
      {"{% for x in nn %}a{% endfor %}", "error: chat template, line 1: 'NoneType' object is not iterable"},
      {"{% for x in n %}a{% endfor %}", "error: chat template, line 1: 'int' object is not iterable"},
      {"{% for x in nope %}a{% else %}e{% endfor %}", "e"},
      {"{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "1/2:3 2/2:2 "},
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ "
       "loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.changed(x > 1) }}{{ loop.depth }}\n{% "
       "endfor %}",
       "1032TrueFalse31aTrue1\n2121FalseFalse332bTrue1\n3210FalseTrue31aTrue1\n"},
      {"{% for x in l recursive %}{{ x }}{{ loop.depth }}{% if x == 3 %}{{ loop([7,8]) }}{% endif %}{% endfor %}", "3172821121"},
      {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
       "0134"},
      {"{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "1231;1232;1233;"},
      {"{% for c in 'aé🙂' %}{{ c }}.{% endfor %}", "a.é.🙂."},
      {"{% for k in d %}{{ k }} {% endfor %}", "b a items Z "},
      {"{%- for m in msgs %}\n{{ m.role }}: {{ m.content }}\n{%- endfor %}\n", "system: Suser: a</think>bassistant: None"},
      {"{% for x in l -%}\n   {{ x }}\n{%- endfor %}\ntail\n", "312tail"},
      {"{% for x in l %}{% set ns = namespace(v=x) %}{% endfor %}{{ ns is defined }}", "False"},
      {"{% set loop_messages = msgs[1:] if msgs[0].role == 'system' else msgs %}{% for m in loop_messages %}{{ m['role'] }}{% "
       "endfor %}",
       "userassistant"},
      {"{%- set x = namespace(found=false) -%}\n{%- for i in l -%}{%- if i == 1 -%}{%- set x.found = true -%}{%- endif -%}{%- "
       "endfor -%}\n{{ x.found }}",
       "True"},
      {R"({% for a in l %}{{ a }}{{ "," if not loop.last else "." }}{% endfor %})", "3,1,2."},
      {"{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "3|1|2"},
      {"{% set x = d.items() %}{{ x|length }}{% for k, v in x %}{{ k }}{% endfor %}", "4baitemsZ"},
      {"{% for x in l %}{% if loop.index0 % 2 == 0 %}e{% else %}o{% endif %}{% endfor %}", "eoe"},
      {"{% for x in (1,2,3) %}{{ loop.nextitem is defined }}{{ loop.previtem is not defined }} {% endfor %}",
       "TrueTrue TrueFalse FalseFalse "},
      {"{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}", ""},
  });
}

TEST(LanguageTest, Macros) {
  expect_templates({
      {"{% macro m(a, b=2, c='x') %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(b=3, a=1) }}{{ m() }}",
       "[1|2|x][1|2|5][1|3|x][|2|x]"},
      {"{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,x=4) }}", "1(2, 3){'x': 4}"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1,2) }}", "error: chat template, line 1: macro 'm' takes not more than 1 argument(s)"},
      {"{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", "error: chat template, line 1: macro 'm' takes no keyword argument 'z'"},
      {"{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "3210"},
      {"{% macro m(x) %}<{{ caller() }}>{% endmacro %}{% call m(1) %}body{% endcall %}", "<body>"},
      {"{% macro m(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b) m(1) %}{{ a }}-{{ b }}{% endcall %}", "<1-2>"},
      {"{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "False"},
      {"{% set y = 3 %}{% macro m() %}{{ y }}{% endmacro %}{% set y = 4 %}{{ m() }}", "4"},
      {"{% macro m() %}{{ x }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}", ""},
      {"{% macro m() %}{{ later }}{% endmacro %}{% set later = 9 %}{{ m() }}", "9"},
      {"{% macro m(a,b,c) %}{{a}}{{b}}{{c}}{% endmacro %}{{ m(*[1,2], **{'c':3}) }}{{ m(*l) }}", "123312"},
      {"{% macro outer() %}{% macro inner(x) %}({{ x }}){% endmacro %}{{ inner(1) }}{{ inner(2) }}{% endmacro %}{{ outer() }}",
       "(1)(2)"},
      {"{% for i in [1,2] %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}", "12"},
      {"{% macro a() %}{% for i in [1,2] %}{{ i }}{% endfor %}{% endmacro %}{{ a()|length }}{{ a() ~ 'z' }}\n", "212z"},
  });
}

TEST(LanguageTest, Assignments) {
  expect_templates({
      {"{% set x %}a{{ n }}b{% endset %}{{ x|length }}{{ x }}", "3a7b"},
      {"{% set x | upper | replace('A','z') %}abc{% endset %}{{ x }}", "zBC"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
      {"{% set a = 1, 2 %}{{ a }}", "(1, 2)"},
      {"{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "12"},
      {"{% if true %}{% set zz = 1 %}{% endif %}{{ zz }}", "1"},
      {"{% set d.x = 1 %}", "error: chat template, line 1: cannot assign attribute on non-namespace object"},
      {"{% set nope.x = 1 %}", "error: chat template, line 1: cannot assign attribute on non-namespace object"},
      {"x\n{% set a = 1 %}\ny\n   {% set b = 2 %}   \nz", "x\ny\n   \nz"},
      {"{% set ns = namespace() %}{% set ns.f = ns %}{{ ns.f.f is defined }}", "True"},
      {"{% set c = cycler(1,2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}", "1212"},
      {"{% set x = 'a' if true else 'b' %}{{x}}{% set y = ['a'] + ['b'] if true else [] %}{{y}}", "a['a', 'b']"},
      {"{% set content %}  {{ 'x' }}  {% endset %}[{{ content|trim }}]", "[x]"},
      {"{%  set  a  =  1  %}{%set b=2%}{{a+b}}", "3"},
  });
}

TEST(LanguageTest, Blocks) {
  expect_templates({
      {"a  {%+ if true %} b {%+ endif %} c", "a   b  c"},
      {"{% filter upper %}abc{{ s }}{% endfilter %}", "ABCHELLO, WÖRLD 🙂!"},
      {"{% filter replace('a','b')|upper %}aaa{% endfilter %}", "BBB"},
      {"{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "12"},
      {"{% if n == 1 %}a{% elif n == 7 %}b{% else %}c{% endif %}", "b"},
      {"{{ 'a' -}}   b   {{- 'c' }}", "abc"},
      {"{{ {'a': {'b': 1}}['a']['b'] }} }}", "1 }}"},
      {"{% if x is defined and x %}a{% endif %}{% if not x is defined %}b{% endif %}", "b"},
      {"{{ m(*[1], **{'a':2}) }}", "error: chat template, line 1: 'm' is undefined"},
      {"{{ messages is defined }}{{ (messages or [])|length }}", "False0"},
      {"{% if (1, 2) %}t{% endif %}{% if {} %}f{% endif %}{% if '' %}f{% endif %}{% if 0.0 %}f{% endif %}", "t"},
      {"{{ d.items()|map('first')|list }}{{ d.items()|map(attribute=0)|list }}",
       "['b', 'a', 'items', 'Z']['b', 'a', 'items', 'Z']"},
      {R"({{ "{{" }}{{ '}}' }}{{ "%}" }})", "{{}}%}"},
      {R"({{ '\'' }}{{ "\"" }})", R"('")"},
      {"{%if true%}a{%endif%}{{1}}{{-1}}{{ -1 }}", "a11-1"},
      {"{{ [1,2,3,][1] }}{{ {'a':1,}['a'] }}{{ (1,2,)[0] }}", "211"},
  });
}

}  // namespace
}  // namespace quire::chat
