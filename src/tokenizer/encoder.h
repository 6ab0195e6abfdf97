// From text without special tokens to ids: the part that differs between tokenizer models.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quire::tokenizer {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of any bytes (fewer than 2^30). Safe to call from many threads.
  [[nodiscard]] virtual Status encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
};

}  // namespace quire::tokenizer
