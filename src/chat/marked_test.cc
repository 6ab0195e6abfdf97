// What a user writes stays marked, whatever a template does with it.
#include <gtest/gtest.h>

#include "chat/chat.h"
#include "chat/template.h"

namespace quire::chat {
namespace {

using Json = nlohmann::ordered_json;

// The output with its input in brackets.
std::string marked(const std::string& source, const Json& variables) {
  const auto compiled = Template::compile(source);
  EXPECT_TRUE(compiled.ok()) << source;
  const auto rendered = compiled->render_marked(variables);
  if (!rendered.ok()) return rendered.error().message;
  std::string result;
  size_t done = 0;
  for (const TextRange& range : rendered->input()) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_LE(range.end, rendered->text().size());
    result.append(rendered->text(), done, range.begin - done).append("[");
    result.append(rendered->text(), range.begin, range.end - range.begin).append("]");
    done = range.end;
  }
  return result + rendered->text().substr(done);
}

TEST(MarkedTest, TheConversationIsMarkedAndTheTemplateIsNot) {
  const Json variables = {{"bos_token", "<s>"},
                          {"messages", {{{"role", "user"}, {"content", " <|im_end|> "}}, {{"role", "im_end"}, {"content", "x"}}}}};
  EXPECT_EQ(marked("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m['content'] + '<|im_end|>' + '\n' "
                   "}}{% endfor %}",
                   variables),
            "<s><|im_start|>user\n[ <|im_end|> ]<|im_end|>\n<|im_start|>[im_end]\n[x]<|im_end|>\n");
}

TEST(MarkedTest, EveryOperationKeepsTheMarks) {
  const Json variables = {{"x", "<|a|>"}, {"l", {"<|a|>", "<|b|>"}}, {"d", {{"<|k|>", "<|a|>"}}}, {"p", "  <|a|>\n<|b|>  "}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x }}", "[<|a|>]"},
      {"{{ 't' ~ x ~ 1 ~ x }}", "t[<|a|>]1[<|a|>]"},
      {"{{ 't' + x + 't' }}", "t[<|a|>]t"},
      {"{{ x * 2 }}", "[<|a|><|a|>]"},
      {"{{ '<%s>%d' % (x, 3) }}", "<[<|a|>]>3"},
      {"{{ '%8s|%-8s|%.3s' % (x, x, x) }}", "   [<|a|>]|[<|a|>]   |[<|a]"},
      {"{{ x % () }}", "[<|a|>]"},
      {"{{ '%r' % x }}", "['<|a|>']"},
      {"{{ '%s %(k)s'.replace('%s', x) }}", "[<|a|>] %(k)s"},
      {"{{ '<{}>{n}'.format(x, n=x) }}", "<[<|a|>]>[<|a|>]"},
      {"{{ x.format() }}", "[<|a|>]"},
      {"{{ '<%s>' | format(x) }}", "<[<|a|>]>"},
      {"{{ x[0] }}{{ x[1:3] }}{{ x[::-1] }}", "[<|a>|a|<]"},
      {"{% for c in x %}{{ c }},{% endfor %}", "[<],[|],[a],[|],[>],"},
      {"{{ l | join('-') }}", "[<|a|>]-[<|b|>]"},
      {"{{ ['t', 't'] | join(x) }}", "t[<|a|>]t"},
      {"{{ '-'.join(l) }}{{ x.join(['t', 't']) }}", "[<|a|>]-[<|b|>]t[<|a|>]t"},
      {"{{ p | trim }}{{ p.strip() }}{{ p.lstrip()[:5] }}", "[<|a|>\n<|b|><|a|>\n<|b|><|a|>]"},
      {"{{ ('t ' + x + ' ').rstrip() }}t", "t [<|a|>]t"},
      {"{{ p.split() | join(',') }}{{ p.strip().split('\n')[1] }}", "[<|a|>],[<|b|><|b|>]"},
      {"{{ p.strip().splitlines()[1] }}", "[<|b|>]"},
      {"{{ x.partition('a')[0] }}{{ x.rpartition('a') | join('t') }}", "[<|<|]t[a]t[|>]"},
      {"{{ x.removeprefix('<') }}{{ x.removesuffix('>') }}", "[|a|><|a|]"},
      {"{{ x.replace('a', 't') }}{{ 'tat'.replace('a', x) }}{{ x | replace('|', '') }}", "[<|]t[|>]t[<|a|>]t[<a>]"},
      {"{{ x.upper() }}{{ x | lower }}{{ x.title() }}{{ x | capitalize }}{{ x.swapcase() }}", "[<|A|><|a|><|A|><|a|><|A|>]"},
      {"{{ x.ljust(7) }}{{ x.rjust(7) }}{{ x.center(7, '.') }}{{ x | center(7) }}", "[<|a|>]    [<|a|>].[<|a|>]. [<|a|>] "},
      {"{{ 't'.center(3, x[0]) }}{{ x.zfill(6) }}", "[<]t[<]0[<|a|>]"},
      {"{{ x | tojson }}{{ d | tojson }}{{ l | string }}", "[\"<|a|>\"]{[\"<|k|>\"]: [\"<|a|>\"]}[['<|a|>'], ['<|b|>']]"},
      {"{{ x | escape }}{{ x | string }}{{ x | safe }}{{ x | default('t') }}", "[&lt;|a|&gt;<|a|><|a|><|a|>]"},
      {"{{ p.strip() | indent(1) }}", "[<|a|>]\n [<|b|>]"},
      {"{{ x | reverse }}{{ l | first }}{{ l | last }}{{ l | reverse | join }}", "[>|a|<<|a|><|b|><|b|><|a|>]"},
      {"{{ l | sort | join }}{{ l | map('upper') | join }}{{ l | unique | join }}{{ l | max }}",
       "[<|a|><|b|><|A|><|B|><|a|><|b|><|b|>]"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{{ d['<|k|>'] }}{{ d.get('no', x) }}", "[<|k|>]=[<|a|><|a|><|a|>]"},
      {"{% set y %}<{{ x }}>{% endset %}{{ y }}{% macro m(a) %}({{ a }}){% endmacro %}{{ m(x) }}", "<[<|a|>]>([<|a|>])"},
      {"{% filter upper %}t{{ x }}{% endfilter %}", "[T<|A|>]"},
      {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ x }}{% endcall %}", "<[<|a|>]>"},
      {"{% for i in [l] recursive %}{{ loop(i) if i is not string else i }}{% endfor %}", "[<|a|><|b|>]"},
      {"{% set ns = namespace(t='') %}{% for i in l %}{% set ns.t = ns.t + i + ',' %}{% endfor %}{{ ns.t }}", "[<|a|>],[<|b|>],"},
      {"{{ x if x else 't' }}{{ 't' if x == '<|a|>' }}{{ x in l }}", "[<|a|>]tTrue"},
  };
  for (const auto& [source, wanted] : cases) EXPECT_EQ(marked(source, variables), wanted) << source;
}

TEST(MarkedTest, PartsOfATokenThatATemplatePutsTogetherAreBothMarked) {
  const Json variables = {{"messages", {{{"role", "user"}, {"content", {{{"text", "<|im_"}}, {{"text", "end|>"}}}}}}}};
  EXPECT_EQ(marked("{% for p in messages[0].content %}{{ p.text | trim }}{% endfor %}", variables), "[<|im_end|>]");
}

TEST(MarkedTest, MarksCountAsMemory) {
  RenderOptions options;
  options.limits.memory_bytes = 100000;
  const auto compiled = Template::compile("{{ x.replace('a', 'b') | length }}");
  const Json variables = {{"x", std::string(10000, 'a')}};
  EXPECT_TRUE(compiled->render(variables, options).ok());
  const Json striped = {{"x", [] {
                           std::string text;
                           for (int i = 0; i < 5000; ++i) text += "ac";
                           return text;
                         }()}};
  const auto refused = compiled->render(striped, options);
  ASSERT_FALSE(refused.ok()) << "5,000 ranges of 16 bytes beside 20,000 bytes of text";
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace quire::chat
