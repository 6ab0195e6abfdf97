// Any vocabulary: an error or a tokenizer that works, never a crash.
//
// The first byte chooses the tiny vocabulary that the lines after it add to: a merge ("+left right"), flags and ids ("#..."), one
// type too few ("-"), or a token (its type as a digit, its score as a byte, its text).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace quire::tokenizer {
namespace {

void read_flags(std::string_view line, Vocabulary& v) {
  const auto flag = [&](size_t at) { return at < line.size() ? std::optional<bool>(line[at] & 1) : std::nullopt; };
  const auto id = [&](size_t at) -> std::optional<int64_t> {
    if (at >= line.size()) return std::nullopt;
    return line[at] == '-' ? int64_t{-1} : static_cast<int64_t>(v.tokens.size()) - 16 + static_cast<unsigned char>(line[at]) % 32;
  };
  v.add_bos = flag(0);
  v.add_eos = flag(1);
  v.add_space_prefix = flag(2);
  v.bos = id(3);
  v.eos = id(4);
  v.end_of_turn = id(5);
  v.unknown = id(6);
}

void read_line(std::string_view line, Vocabulary& v) {
  if (line.starts_with('+')) {
    v.merges.emplace_back(line.substr(1));
  } else if (line.starts_with('#')) {
    read_flags(line.substr(1), v);
  } else if (line.starts_with('-')) {
    if (!v.types.empty()) v.types.pop_back();
  } else if (line.size() >= 2) {
    add_token(v, line.substr(2), static_cast<TokenType>(line[0] - '0'), static_cast<float>(static_cast<signed char>(line[1])));
  }
}

void check(Vocabulary vocabulary, std::string_view text) {
  const Result<Tokenizer> tokenizer = Tokenizer::create(std::move(vocabulary));
  if (!tokenizer.ok()) return;
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer->encode(text, {.parse_special = parse_special});
    QUIRE_CHECK(ids.ok());
    for (const TokenId id : *ids) QUIRE_CHECK(tokenizer->contains(id) && (parse_special || !tokenizer->is_control(id)));
    QUIRE_CHECK(tokenizer->decode(*ids, {.include_special = true}).value() == text, "the text did not come back");
    QUIRE_CHECK(tokenizer->encode(text, {.parse_special = parse_special, .add_special = true}).ok());
  }
}

}  // namespace
}  // namespace quire::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::tokenizer;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Vocabulary vocabulary = data[0] & 1 ? tiny_sentence_piece_vocabulary() : tiny_byte_level_vocabulary();
  for (std::string_view rest = input; !rest.empty();) {
    const size_t end = rest.find('\n');
    read_line(rest.substr(0, end), vocabulary);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  check(std::move(vocabulary), input);
  return 0;
}
