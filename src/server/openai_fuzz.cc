// Any body at either endpoint gives prompts inside their bounds or an error that a client can read, and any reply to it valid JSON.
//
// The first byte chooses: bit 0 the endpoint; the rest is the body.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/json_fields.h"
#include "server/openai_reply.h"
#include "server/openai_request.h"
#include "server/tiny_served_model.h"

namespace quire::server {
namespace {

void check_json(const nlohmann::ordered_json& json) {
  const std::string line = to_line(json);
  QUIRE_CHECK(nlohmann::ordered_json::parse(line, nullptr, false).is_object(), "what a client gets is JSON");
  QUIRE_CHECK(line.find('\n') == std::string::npos, "one line");
}

void check_error(const ApiError& error) {
  QUIRE_CHECK((error.status == 400 || error.status == 413) && !error.code.empty() && !error.message.empty(), error.message);
  check_json(to_json(error));
}

// As if the model said the body's bytes.
void reply_to(const PreparedCompletion& prepared, const tokenizer::Tokenizer& tokenizer, std::string_view body) {
  CompletionReply reply(prepared, tokenizer);
  for (size_t choice = 0; choice < prepared.choices(); ++choice) {
    const engine::Request request = prepared.request(choice);
    QUIRE_CHECK(!request.prompt.empty() && sampling::validate(request.reply.sampling).ok(), "what passes can run");
    for (const TokenId token : request.prompt) QUIRE_CHECK(tokenizer.contains(token), "a token of the vocabulary");
    if (choice < 4) {
      tokenizer::Detokenizer detokenizer(tokenizer, {.continues_text = true});
      for (const char c : body.substr(0, 64)) {
        const TokenId token = static_cast<unsigned char>(c);
        reply.add(choice, {.text = detokenizer.push(token).value(), .tokens = {{.token = token, .logprob = -1, .top = {}}}});
      }
    }
    reply.finish(choice, {});
  }
  check_json(reply.body({.id = "1", .model = "tiny", .created = 0}).value());
}

}  // namespace
}  // namespace quire::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::server;
  static const TinyServedModel model;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto parsed = parse_completion(data[0] & 1 ? Endpoint::kCompletions : Endpoint::kChatCompletions, body);
  if (!parsed.ok()) return check_error(parsed.error()), 0;
  const auto prepared = PreparedCompletion::create(std::move(parsed).value(), model.served(), 1, {});
  if (!prepared.ok()) return check_error(prepared.error()), 0;
  reply_to(*prepared, model.tokenizer(), body);
  return 0;
}
