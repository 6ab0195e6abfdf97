#include "chat/marked_text.h"

#include <algorithm>
#include <utility>

namespace quire::chat {

MarkedText MarkedText::of_input(std::string text) {
  MarkedText result(std::move(text));
  result.mark(0, result.text_.size());
  return result;
}

MarkedText MarkedText::made_from(const MarkedText& source, std::string text) {
  return source.has_input() ? of_input(std::move(text)) : MarkedText(std::move(text));
}

void MarkedText::append_input(std::string_view text) {
  const size_t begin = text_.size();
  text_.append(text);
  mark(begin, text_.size());
}

void MarkedText::append_part(const MarkedText& other, size_t offset, size_t length) {
  const size_t begin = text_.size();
  const size_t end = offset + length;
  text_.append(other.text_, offset, length);
  auto range = std::partition_point(other.input_.begin(), other.input_.end(),
                                    [offset](const TextRange& candidate) { return candidate.end <= offset; });
  for (; range != other.input_.end() && range->begin < end; ++range) {
    mark(begin + std::max(range->begin, offset) - offset, begin + std::min(range->end, end) - offset);
  }
}

MarkedText MarkedText::part(size_t offset, size_t length) const {
  MarkedText result;
  result.append_part(*this, offset, length);
  return result;
}

// The newest range; one that begins where the last one ends goes on with it.
void MarkedText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!input_.empty() && input_.back().end == begin) {
    input_.back().end = end;
  } else {
    input_.push_back({begin, end});
  }
}

}  // namespace quire::chat
