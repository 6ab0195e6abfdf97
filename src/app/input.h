// What users hand to commands besides flags: stdin, and JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quire::app {

// All of stdin, which is a pipe or a file. Errors: kIo, kLimit.
[[nodiscard]] Result<std::string> read_standard_input(Bytes max_bytes);

// A JSON list of token ids, each below `vocabulary`. kCorrupt: errors name the element.
[[nodiscard]] Result<std::vector<TokenId>> parse_token_ids(std::string_view json, size_t vocabulary);

// The same error for something that is wrong with a file or its content, which is no mistake in the command line: the exit status
// tells the two apart.
[[nodiscard]] Error not_usage(Error error);

}  // namespace quire::app
