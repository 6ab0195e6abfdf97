// One reply: tokens sampled after a sequence, as text, until something ends it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "sampling/sampler.h"

namespace quire::engine {

struct ReplyOptions {
  sampling::SamplingParameters sampling = {};
  TokenCount max_tokens{0};            // 0: until the reply ends or the context is full
  std::vector<std::string> stop = {};  // texts that end the reply; they are not part of it
  bool ignore_end = false;             // go on after the model's end of text (for measuring)
};

enum class ReplyEnd {
  kEndOfText,    // the model ended it
  kStop,         // a stop text came
  kMaxTokens,    // max_tokens
  kContextFull,  // the context has no room for another token
  kOutOfMemory,  // the KV cache could not grow
  kInterrupted,  // the listener said so
};
// "end of text", "stop text", ...
[[nodiscard]] std::string_view to_string(ReplyEnd end);

struct Reply {
  std::string text;
  TokenCount tokens;  // sampled ones, the end of text not counted
  ReplyEnd end = ReplyEnd::kEndOfText;
};

// What generate() and score() answer when logits are not finite (kCorrupt).
[[nodiscard]] Error no_numbers(int64_t position);

// Hears each piece of text as it is certain (never half a character, never a part of a stop text); returns whether to go on.
using ReplyListener = std::function<bool(std::string_view piece)>;

// Samples after `sequence`, whose last token must have been computed. The sequence then holds the reply's tokens, but for the last
// one sampled, whose keys and values are not computed yet.
[[nodiscard]] Result<Reply> generate(Engine& engine, Sequence& sequence, const ReplyOptions& options,
                                     const ReplyListener& listener);

}  // namespace quire::engine
