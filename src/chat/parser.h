// From tokens to the syntax tree.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "chat/syntax.h"

namespace quire::chat {

// Errors name line and column and what was expected there (kCorrupt), a tag that chat templates do not have (kUnsupported), or the
// bound on size or nesting that was reached (kLimit).
[[nodiscard]] Result<std::unique_ptr<Program>> parse(std::string_view source);

}  // namespace quire::chat
