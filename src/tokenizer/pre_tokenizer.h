// Cuts a text into pieces (about words) before byte-level BPE; no merge crosses a piece's end.
//
// A pre-tokenizer is a list of expressions. Each cuts every piece that the one before it made: its matches and what lies between
// them become the new pieces, and looking ahead ends at the piece's end. So no byte is lost, whatever the expressions say.
//
// Bytes that are not UTF-8 match no expression: each run of them is a piece of its own, and the text around it ends there.
//
//   gpt-2, default   GPT-2's expression (openai/gpt-2, src/encoder.py), with Unicode's White_Space for \s:
//                    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   smollm           \p{N} (each digit alone), then the same
//
// Expressions run in PCRE2, compiled to machine code where the system permits it, without recursion and with a bound on the steps
// of a match: one that runs away is an error of kind kLimit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::tokenizer {

class PreTokenizer {
 public:
  // By the name in tokenizer.ggml.pre; an empty one is "default". An unknown name is an error that lists the known ones.
  [[nodiscard]] static Result<PreTokenizer> create(std::string_view name);

  // From expressions in PCRE2's syntax (with UTF).
  [[nodiscard]] static Result<PreTokenizer> compile(std::span<const std::string_view> expressions);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The pieces, in order, as views of the text; together they are the whole text, none is empty. Safe to call from many threads.
  [[nodiscard]] Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Compiled;
  explicit PreTokenizer(std::unique_ptr<const Compiled> compiled);

  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace quire::tokenizer
