// Sampled tokens to the text of a reply: whole characters only, and nothing of a stop text.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "engine/stop_texts.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace quire::engine {

class ReplyText {
 public:
  // The tokenizer must outlive it. Empty stop texts are ignored.
  ReplyText(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stop)
      : detokenizer_(tokenizer, {.continues_text = true}), stop_(stop) {}

  // The text that is certain with this token, which is the tokenizer's.
  [[nodiscard]] std::string add(TokenId token);

  // What was held back, at the end of a reply that no stop text ended.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stop_.stopped(); }

 private:
  tokenizer::Detokenizer detokenizer_;
  StopTexts stop_;
};

}  // namespace quire::engine
