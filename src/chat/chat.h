// From messages to a prompt.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "chat/template.h"

namespace quire::chat {

struct Message {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

struct PromptOptions {
  bool add_generation_prompt = true;  // ends where the assistant's reply begins
  std::string bos_token;              // texts of the model's special tokens, empty where it has none
  std::string eos_token;
  RenderOptions render;
};

// A conversation as the OpenAI API has it, which is what templates read: `messages` a list of objects, `tools` a list or null.
struct Conversation {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools = nullptr;
};

// The prompt, with the parts marked that the conversation brought (for tokenizer::EncodeOptions::plain). Special tokens are in it
// as text; a bos token is where the template writes it. Errors: as Template::render.
[[nodiscard]] Result<MarkedText> render_prompt(const Template& chat_template, Conversation conversation,
                                               const PromptOptions& options);

// The same of plain messages.
[[nodiscard]] Result<MarkedText> render_chat(const Template& chat_template, std::span<const Message> messages,
                                             const PromptOptions& options);

}  // namespace quire::chat
