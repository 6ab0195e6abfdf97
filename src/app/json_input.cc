#include "app/json_input.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace quire::app {

Result<std::vector<TokenId>> parse_token_ids(std::string_view json, size_t vocabulary) {
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (const auto error = parser.parse(json.data(), json.size()).get(list); error != simdjson::SUCCESS) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected a JSON list of token ids, like [1, 2, 3]: {}", simdjson::error_message(error)));
  }
  std::vector<TokenId> ids;
  for (const simdjson::dom::element element : list) {
    int64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id < 0 || static_cast<uint64_t>(id) >= vocabulary) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("element {} of the list is no token id: {}; the vocabulary has {} tokens, from 0", ids.size(),
                                    std::string(simdjson::minify(element)), vocabulary));
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace quire::app
