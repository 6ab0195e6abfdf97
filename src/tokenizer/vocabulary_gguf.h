// The vocabulary in a GGUF file's metadata (keys tokenizer.ggml.*).
#pragma once

#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

// Copies what Tokenizer::create() needs. Errors name the key: one that is missing (model, tokens), of a wrong type, or that asks
// for a normalization of texts which Quire does not do (remove_extra_whitespaces, precompiled_charsmap).
[[nodiscard]] Result<Vocabulary> vocabulary_from(const gguf::File& file);

}  // namespace quire::tokenizer
