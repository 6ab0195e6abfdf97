// JSON that users hand to commands.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quire::app {

// A JSON list of token ids, each below `vocabulary`. Errors name the element.
[[nodiscard]] Result<std::vector<TokenId>> parse_token_ids(std::string_view json, size_t vocabulary);

}  // namespace quire::app
