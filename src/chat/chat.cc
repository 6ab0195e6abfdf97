#include "chat/chat.h"

#include <utility>

namespace quire::chat {

Result<MarkedText> render_prompt(const Template& chat_template, Conversation conversation, const PromptOptions& options) {
  const nlohmann::ordered_json variables = {{"messages", std::move(conversation.messages)},
                                            {"tools", std::move(conversation.tools)},
                                            {"add_generation_prompt", options.add_generation_prompt},
                                            {"bos_token", options.bos_token},
                                            {"eos_token", options.eos_token}};
  return chat_template.render_marked(variables, options.render);
}

Result<MarkedText> render_chat(const Template& chat_template, std::span<const Message> messages, const PromptOptions& options) {
  Conversation conversation{.messages = nlohmann::ordered_json::array()};
  for (const Message& message : messages) conversation.messages.push_back({{"role", message.role}, {"content", message.content}});
  return render_prompt(chat_template, std::move(conversation), options);
}

}  // namespace quire::chat
