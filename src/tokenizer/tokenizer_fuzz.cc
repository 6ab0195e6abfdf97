// Any text through both tiny vocabularies: it must come back to the byte, never become a control token unasked, and stream to the
// same characters however it is cut into tokens.
//
// The first byte chooses: bit 0 the model, bit 1 special tokens are parsed; bit 2 smollm instead of gpt-2.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace quire::tokenizer {
namespace {

std::string stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, DecodeOptions options) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.push(id).value();
    std::string valid;
    QUIRE_CHECK(append_valid_utf8(part, valid) == 0 && valid == part, "a part of a character was streamed");
    text += part;
  }
  return text + detokenizer.finish();
}

void check(const Tokenizer& tokenizer, TokenId first_byte_token, bool parse_special, std::string_view text) {
  const std::vector<TokenId> ids = tokenizer.encode(text, {.parse_special = parse_special}).value();
  const DecodeOptions shown{.include_special = parse_special};
  QUIRE_CHECK(tokenizer.decode(ids, shown).value() == text, "the text did not come back");
  if (!parse_special) {
    for (const TokenId id : ids) QUIRE_CHECK(!tokenizer.is_control(id), "text became a control token");
  }
  std::vector<TokenId> bytes;
  for (const char c : text) bytes.push_back(first_byte_token + static_cast<unsigned char>(c));
  const std::string streamed = stream(tokenizer, ids, shown);
  // Byte tokens carry no added space.
  QUIRE_CHECK(streamed == stream(tokenizer, bytes, {.continues_text = true}), "the stream depends on the tokens");
}

}  // namespace
}  // namespace quire::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::tokenizer;
  static const Tokenizer gpt2 = Tokenizer::create(tiny_byte_level_vocabulary("gpt-2")).value();
  static const Tokenizer smollm = Tokenizer::create(tiny_byte_level_vocabulary("smollm")).value();
  static const Tokenizer sentence_piece = Tokenizer::create(tiny_sentence_piece_vocabulary()).value();
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool parse_special = data[0] & 2;
  if (data[0] & 1) {
    check(sentence_piece, 3, parse_special, text);
  } else {
    check(data[0] & 4 ? smollm : gpt2, 0, parse_special, text);
  }
  return 0;
}
