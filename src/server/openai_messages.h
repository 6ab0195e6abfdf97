// The messages and tools of a chat, from the body's JSON to what chat templates read.
#pragma once

#include "chat/chat.h"
#include "server/api_error.h"
#include "server/json_fields.h"

namespace quire::server {

// `body` has the fields messages, tools and tool_choice. In what comes out
// * a content is a text: its parts, which must be of type text, joined by line ends; null where a message has none;
// * arguments of tool calls are objects where their text is JSON of one: that is what templates print;
// * tools are left out where tool_choice is "none". What would force the model to call one is refused: nothing can.
[[nodiscard]] ApiResult<chat::Conversation> read_conversation(const ObjectReader& body);

}  // namespace quire::server
