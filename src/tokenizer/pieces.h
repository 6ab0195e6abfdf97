// The bytes that each token stands for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "tokenizer/vocabulary.h"

namespace quire::tokenizer {

// All tokens' bytes, one after the other.
class Pieces {
 public:
  // Ids ascend from 0; at most 4 GiB in all.
  void add(std::string_view bytes);

  [[nodiscard]] std::string_view operator[](TokenId id) const;
  [[nodiscard]] size_t size() const { return ends_.size(); }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

// Control, unknown and user-defined tokens stand for their text as it is in both models. Normal and unused ones:

// gpt2: the text is read in the alphabet of byte_level.h; a text outside of it stands for itself.
[[nodiscard]] Pieces byte_level_pieces(const Vocabulary& vocabulary);

// llama: U+2581 stands for a space, and a byte token <0xNN> for its byte (parse_byte_token).
[[nodiscard]] Pieces sentence_piece_pieces(const Vocabulary& vocabulary);

// The byte of "<0xNN>" (two hexadecimal digits of either case), or -1.
[[nodiscard]] int parse_byte_token(std::string_view text);

}  // namespace quire::tokenizer
