#include "engine/stop_texts.h"

#include <algorithm>
#include <utility>

namespace quire::engine {

StopTexts::StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {
  std::erase_if(texts_, [](const std::string& text) { return text.empty(); });
}

std::string StopTexts::append(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& text : texts_) first = std::min(first, held_.find(text));
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  const size_t certain = held_.size() - possible_beginning();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

size_t StopTexts::possible_beginning() const {
  size_t longest = 0;
  for (const std::string& text : texts_) {
    for (size_t n = std::min(text.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(text).substr(0, n)) longest = n;
    }
  }
  return longest;
}

}  // namespace quire::engine
