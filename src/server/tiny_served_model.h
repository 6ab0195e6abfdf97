// A model to serve in tests and fuzz targets: a tokenizer of bytes and a template, without weights.
#pragma once

#include "chat/template.h"
#include "server/openai_request.h"
#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace quire::server {

inline constexpr const char* kTinyTemplate =
    "{% if tools %}<|begin|>tools {{ tools | tojson }}<|end|>{% endif %}"
    "{% for message in messages %}<|begin|>{{ message.role + '\\n' + (message.content or '') }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor %}"
    "<|end|>\n{% endfor %}{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}";

class TinyServedModel {
 public:
  explicit TinyServedModel(const char* chat_template = kTinyTemplate, TokenCount context = TokenCount(4096))
      : tokenizer_(tokenizer::Tokenizer::create(tokenizer::tiny_byte_level_vocabulary()).value()),
        template_(chat::Template::compile(chat_template).value()),
        context_(context) {}

  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] ServedModel served() const {
    return {.name = "tiny", .tokenizer = &tokenizer_, .chat_template = &template_, .context = context_};
  }

 private:
  tokenizer::Tokenizer tokenizer_;
  chat::Template template_;
  TokenCount context_;
};

}  // namespace quire::server
