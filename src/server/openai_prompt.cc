// PreparedCompletion: from a checked body to tokens.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/openai_request.h"
#include "tokenizer/utf8.h"

namespace quire::server {
namespace {

std::string text_of(const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.piece(*token)) : "";
}

ApiError bad_prompt(const std::string& param, std::string message) {
  return {.message = std::move(message), .code = "invalid_prompt", .param = param};
}

// Templates that do not know the role "developer" call it "system".
void rename_developers(const chat::Template& chat_template, nlohmann::ordered_json& messages) {
  if (chat_template.has_literal("developer")) return;
  for (nlohmann::ordered_json& message : messages) {
    if (message["role"] == "developer") message["role"] = "system";
  }
}

// Valid UTF-8, whatever the tokens are.
ApiResult<std::string> readable(const tokenizer::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  const Result<std::string> bytes = tokenizer.decode(tokens);
  if (!bytes.ok()) return bad_prompt("prompt", bytes.error().message);
  std::string text;
  if (tokenizer::append_valid_utf8(*bytes, text) > 0) text += tokenizer::kReplacementCharacter;
  return text;
}

}  // namespace

ApiResult<PreparedCompletion> PreparedCompletion::create(CompletionBody body, const ServedModel& model, uint64_t seed,
                                                         const chat::CivilTime& now) {
  PreparedCompletion prepared(std::move(body));
  if (!prepared.body_.has_seed) prepared.body_.reply.sampling.seed = seed;
  const auto vocabulary = static_cast<int64_t>(model.tokenizer->vocab_size());
  for (const auto& [token, bias] : prepared.body_.reply.sampling.logit_bias) {
    if (token < vocabulary) continue;
    return ApiError{.message = fmt::format("logit_bias.{}: the vocabulary has {} tokens, from 0", token, vocabulary),
                    .code = "invalid_value",
                    .param = fmt::format("logit_bias.{}", token)};
  }
  if (prepared.body_.endpoint == Endpoint::kChatCompletions) {
    QUIRE_TRY_STATUS(prepared.render_chat(model, now));
  } else {
    QUIRE_TRY_STATUS(prepared.encode_prompts(model));
  }
  QUIRE_TRY_STATUS(prepared.check_room(model));
  return prepared;
}

ApiStatus PreparedCompletion::render_chat(const ServedModel& model, const chat::CivilTime& now) {
  if (model.chat_template == nullptr) {
    return ApiError{.message = fmt::format(
                        "{} has no chat template: it completes texts. Use /v1/completions, or give it a template", model.name),
                    .code = "model_has_no_chat_template"};
  }
  if (!body_.conversation.tools.is_null() && !model.chat_template->mentions("tools")) {
    return ApiError{.message = fmt::format("tools: the chat template of {} has no place for tools; leave them out", model.name),
                    .code = "unsupported_parameter",
                    .param = "tools"};
  }
  rename_developers(*model.chat_template, body_.conversation.messages);
  const Result<chat::MarkedText> text = chat::render_prompt(*model.chat_template, std::move(body_.conversation),
                                                            {.add_generation_prompt = true,
                                                             .bos_token = text_of(*model.tokenizer, model.tokenizer->bos()),
                                                             .eos_token = text_of(*model.tokenizer, model.tokenizer->eos()),
                                                             .render = {.now = now, .limits = {}}});
  body_.conversation = {};
  if (!text.ok()) return bad_prompt("messages", "the chat template refuses the messages: " + text.error().message);
  Result<std::vector<TokenId>> tokens = model.tokenizer->encode(text->text(), {.parse_special = true, .plain = text->input()});
  if (!tokens.ok()) return bad_prompt("messages", tokens.error().message);
  if (tokens->empty()) return bad_prompt("messages", "the prompt is empty; write something");
  prompts_.push_back({.tokens = std::move(tokens).value()});
  return {};
}

ApiStatus PreparedCompletion::encode_prompts(const ServedModel& model) {
  const bool several = body_.prompts.size() > 1;
  for (size_t i = 0; i < body_.prompts.size(); ++i) {
    const std::string path = several ? fmt::format("prompt[{}]", i) : "prompt";
    Prompt prompt;
    if (std::string* text = std::get_if<std::string>(&body_.prompts[i])) {
      Result<std::vector<TokenId>> tokens =
          model.tokenizer->encode(*text, {.parse_special = body_.parse_special, .add_special = true});
      if (!tokens.ok()) return bad_prompt(path, tokens.error().message);
      prompt.tokens = std::move(tokens).value();
      if (body_.echo) prompt.echo = std::move(*text);
    } else {
      prompt.tokens = std::move(std::get<std::vector<TokenId>>(body_.prompts[i]));
      const auto alien = std::find_if(prompt.tokens.begin(), prompt.tokens.end(),
                                      [&](TokenId token) { return !model.tokenizer->contains(token); });
      if (alien != prompt.tokens.end()) {
        const std::string element = fmt::format("{}[{}]", path, alien - prompt.tokens.begin());
        return bad_prompt(element, fmt::format("{}: {} is no token; the vocabulary has {} tokens, from 0", element, *alien,
                                               model.tokenizer->vocab_size()));
      }
      if (body_.echo) {
        QUIRE_TRY(prompt.echo, readable(*model.tokenizer, prompt.tokens));
      }
    }
    if (prompt.tokens.empty()) return bad_prompt(path, path + ": the prompt is empty; write something");
    prompts_.push_back(std::move(prompt));
  }
  body_.prompts.clear();
  return {};
}

ApiStatus PreparedCompletion::check_room(const ServedModel& model) const {
  const std::string param = body_.endpoint == Endpoint::kChatCompletions ? "messages" : "prompt";
  const int64_t asked = body_.reply.max_tokens.value;
  for (const Prompt& prompt : prompts_) {
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    const bool default_limit = body_.endpoint == Endpoint::kCompletions && !body_.has_max_tokens;
    const int64_t needed = length + (asked == 0 || default_limit ? 1 : asked);
    if (needed <= model.context.value) continue;
    return ApiError{
        .message = fmt::format("{} takes {} tokens of prompt and reply. You asked for {}: {} of the prompt and {} of the reply. "
                               "Shorten the prompt or ask for fewer",
                               model.name, model.context.value, needed, length, needed - length),
        .code = "context_length_exceeded",
        .param = param};
  }
  return {};
}

engine::Request PreparedCompletion::request(size_t choice) const {
  return {.prompt = prompt_of(choice).tokens,
          .reply = body_.reply,
          .choice = static_cast<uint32_t>(choice % static_cast<size_t>(body_.choices)),
          .priority = body_.priority,
          .cache_salt = body_.cache_salt};
}

}  // namespace quire::server
