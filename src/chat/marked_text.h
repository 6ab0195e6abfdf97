// A text that knows which of its bytes came from the conversation ("input") and which from the template. What a user writes must
// never become a control token, wherever the template puts it; the template's own words must.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_range.h"

namespace quire::chat {

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string text) : text_(std::move(text)) {}
  // All of it is input.
  [[nodiscard]] static MarkedText of_input(std::string text);
  // What an operation made of `source` when it cannot tell which byte came from where: input, if any of the source was.
  [[nodiscard]] static MarkedText made_from(const MarkedText& source, std::string text);

  [[nodiscard]] const std::string& text() const { return text_; }
  // Ascending, not empty, with gaps between them.
  [[nodiscard]] const std::vector<TextRange>& input() const { return input_; }
  [[nodiscard]] bool has_input() const { return !input_.empty(); }
  // Memory of both.
  [[nodiscard]] size_t bytes() const { return text_.size() + input_.size() * sizeof(TextRange); }

  // Of the template.
  void append(std::string_view text) { text_.append(text); }
  void append_input(std::string_view text);
  void append(const MarkedText& other) { append_part(other, 0, other.text_.size()); }
  // The bytes [offset, offset + length) of `other`.
  void append_part(const MarkedText& other, size_t offset, size_t length);
  [[nodiscard]] MarkedText part(size_t offset, size_t length) const;

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<TextRange> input_;
};

}  // namespace quire::chat
