#include "chat/template.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "chat/chat.h"

namespace quire::chat {
namespace {

constexpr const char* kPlainTemplate =
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' and not loop.first %}"
    "{{ raise_exception('the system message comes first') }}{% endif %}"
    "<|{{ message.role }}|>{{ message.content | trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

Template compiled(const std::string& source) {
  auto result = Template::compile(source);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return *result;
}

PromptOptions options() {
  PromptOptions result;
  result.bos_token = "<s>";
  result.eos_token = "</s>";
  return result;
}

TEST(TemplateTest, ARenderedChatIsThePrompt) {
  const std::vector<Message> messages = {{"system", "Be brief."}, {"user", " Hi \n"}, {"assistant", "Yes?"}, {"user", "é🙂"}};
  const auto prompt = render_chat(compiled(kPlainTemplate), messages, options());
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(prompt->text(), "<s><|system|>Be brief.</s>\n<|user|>Hi</s>\n<|assistant|>Yes?</s>\n<|user|>é🙂</s>\n<|assistant|>");
  auto without = options();
  without.add_generation_prompt = false;
  EXPECT_EQ(render_chat(compiled(kPlainTemplate), std::span(messages).first(1), without)->text(), "<s><|system|>Be brief.</s>\n");
}

TEST(TemplateTest, RefusalsOfTheTemplateKeepTheirWords) {
  const std::vector<Message> messages = {{"user", "a"}, {"system", "b"}};
  const auto prompt = render_chat(compiled(kPlainTemplate), messages, options());
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prompt.error().message, "the system message comes first");
}

TEST(TemplateTest, FailuresNameTheLine) {
  const auto result =
      compiled("a\n{% if true %}\n  {{ messages[0].content + 1 }}\n{% endif %}").render({{"messages", {{{"content", "x"}}}}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(result.error().message, "chat template, line 3: can only concatenate str (not \"int\") to str");
}

TEST(TemplateTest, SyntaxErrorsNameThePlaceAndWhatWasExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 1 + }}", "chat template, line 1 column 8: expected an expression, got '}}'"},
      {"x\n  {{ a b }}", "chat template, line 2 column 8: expected '}}', got name 'b'"},
      {"{{ 'abc }}", "chat template, line 1 column 4: this string has no end: ' is missing"},
      {"{{ (1 }}", "chat template, line 1 column 7: unexpected '}', expected ')'"},
      {"{{ 1", "chat template, line 1 column 1: this tag has no end: '}}' is missing"},
      {"{# x", "chat template, line 1 column 1: this comment has no end: '#}' is missing"},
      {"{% raw %}x", "chat template, line 1 column 1: this raw block has no end: '{% endraw %}' is missing"},
      {"{% for x l %}", "chat template, line 1 column 10: expected 'in', got name 'l'"},
      {"{% for x in l %}\n{% if x %}",
       "chat template, line 2 column 11: the 'if' of line 2 has no end: expected elif or else or endif"},
      {"{% if x %}{% endfor %}", "chat template, line 1 column 14: unknown tag 'endfor': expected elif or else or endif"},
      {"{% foo %}", "chat template, line 1 column 4: unknown tag 'foo'"},
      {"{% set 1 = 2 %}", "chat template, line 1 column 8: expected a name to assign to, got '1'"},
      {"{% macro m(a=1, b) %}{% endmacro %}",
       "chat template, line 1 column 17: the parameter 'b' needs a default value, as the one before it has one"},
      {"{{ f(a=1, 2) }}", "chat template, line 1 column 11: an argument without a name follows one with a name"},
      {"{% break %}", "chat template, line 1 column 4: 'break' outside of a loop"},
      {"{{ 99999999999999999999 }}", "chat template, line 1 column 4: 99999999999999999999 is no integer of 64 bits"},
      {"{{ a ! b }}", "chat template, line 1 column 6: unexpected character \"!\""},
      {"{{ 'a\\ud800' }}", "chat template, line 1 column 12: this escape sequence is not complete"},
  };
  for (const auto& [source, message] : cases) {
    const auto result = Template::compile(source);
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt) << source;
    EXPECT_EQ(result.error().message, message) << source;
  }
  const auto other = Template::compile("{% include 'x' %}");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
}

TEST(TemplateTest, WhatIsNotReachedNeedNotBeThere) {
  EXPECT_EQ(*compiled("{% if false %}{{ x|nosuch }}{{ y is nosuch }}{{ z.w.v() }}{% endif %}ok").render({{"a", 1}}), "ok");
}

TEST(TemplateTest, AnythingBesideAnObjectIsRefused) {
  const auto result = compiled("x").render(nlohmann::ordered_json::array());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

TEST(TemplateTest, BrokenUtf8GoesThroughUnchanged) {
  const std::string broken = "a\xff\xc3z\xe2\x82";
  EXPECT_EQ(*compiled("{{ x }}|{{ x|trim|upper }}|{{ x|length }}|{{ x[1] }}").render({{"x", broken}}),
            broken + "|A\xff\xc3Z\xe2\x82|6|\xff");
  EXPECT_EQ(*compiled(broken).render({{"x", 1}}), broken);
}

TEST(TemplateTest, VariablesThatATemplateMentions) {
  const Template with_tools = compiled("{% if tools %}{{ tools|tojson }}{% endif %}");
  EXPECT_TRUE(with_tools.mentions("tools"));
  EXPECT_FALSE(with_tools.mentions("messages"));
  EXPECT_FALSE(compiled("tools {{ 'tools' }} {{ x.tools }}").mentions("tools"));
}

TEST(TemplateTest, LiteralsThatATemplateHas) {
  const Template both = compiled("system {% if message.role in ['tool', \"developer\"] %}{{ x['user'] }}{% endif %}");
  EXPECT_TRUE(both.has_literal("developer"));
  EXPECT_TRUE(both.has_literal("tool"));
  EXPECT_TRUE(both.has_literal("user"));
  EXPECT_FALSE(both.has_literal("system"));
}

TEST(TemplateTest, ThreadsShareATemplate) {
  const Template shared = compiled(
      "{% set ns = namespace(n=0) %}{% for x in range(1000) %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}{{ 'a' ~ 'b' }}");
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&shared, &result] { result = *shared.render({{"a", 1}}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "499500ab");
}

}  // namespace
}  // namespace quire::chat
