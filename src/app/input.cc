#include "app/input.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quire::app {

Result<std::string> read_standard_input(Bytes max_bytes) {
  constexpr size_t kPiece = size_t{1} << 16;
  const auto limit = static_cast<size_t>(max_bytes.value);
  std::string content;
  for (;;) {
    const size_t before = content.size();
    content.resize(before + kPiece);
    const ssize_t got = ::read(STDIN_FILENO, content.data() + before, kPiece);
    const int error_number = errno;
    content.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got == 0) return content;
    if (got < 0 && error_number == EINTR) continue;
    if (got < 0) {
      return make_error(ErrorCode::kIo, fmt::format("stdin cannot be read: {}; pipe a text into it or redirect a file",
                                                    std::strerror(error_number)));
    }
    if (content.size() > limit) {
      return make_error(ErrorCode::kLimit, fmt::format("stdin has more than {}; hand it over in parts", format_bytes(max_bytes)));
    }
  }
}

Result<std::vector<TokenId>> parse_token_ids(std::string_view json, size_t vocabulary) {
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (const auto error = parser.parse(json.data(), json.size()).get(list); error != simdjson::SUCCESS) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("expected a JSON list of token ids, like [1, 2, 3]: {}", simdjson::error_message(error)));
  }
  constexpr size_t kShown = 40;
  std::vector<TokenId> ids;
  for (const simdjson::dom::element element : list) {
    int64_t id = 0;
    if (element.get(id) != simdjson::SUCCESS || id < 0 || static_cast<uint64_t>(id) >= vocabulary) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("element {} of the list is no token id: {}; the vocabulary has {} tokens, from 0", ids.size(),
                                    std::string(simdjson::minify(element)).substr(0, kShown), vocabulary));
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

Error not_usage(Error error) {
  if (error.code == ErrorCode::kInvalidArgument) error.code = ErrorCode::kCorrupt;
  return error;
}

}  // namespace quire::app
