#include "chat/chat.h"

namespace quire::chat {

Result<std::string> render_chat(const Template& chat_template, std::span<const Message> messages, const PromptOptions& options) {
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"tools", nullptr},
                                      {"add_generation_prompt", options.add_generation_prompt},
                                      {"bos_token", options.bos_token},
                                      {"eos_token", options.eos_token}};
  for (const Message& message : messages) variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  return chat_template.render(variables, options.render);
}

}  // namespace quire::chat
