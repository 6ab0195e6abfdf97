#include "server/line_reader.h"

#include <algorithm>

namespace quire::server {

bool LineReader::fill() {
  if (begin_ < end_) return true;
  input_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  begin_ = 0;
  end_ = static_cast<size_t>(input_.gcount());
  return end_ > 0;
}

std::optional<LineReader::Line> LineReader::next() {
  if (!fill()) return std::nullopt;
  Line line{.number = ++number_, .whole = false};
  while (!line.whole && fill()) {
    const auto from = buffer_.begin() + static_cast<ptrdiff_t>(begin_);
    const auto to = buffer_.begin() + static_cast<ptrdiff_t>(end_);
    const auto stop = std::find(from, to, '\n');
    const auto length = static_cast<size_t>(stop - from);
    const size_t taken = std::min(length, max_bytes_ - line.text.size());
    line.text.append(from, from + static_cast<ptrdiff_t>(taken));
    line.too_long |= taken < length;
    line.whole = stop != to;
    const size_t consumed = length + (line.whole ? 1 : 0);
    begin_ += consumed;
    offset_ += static_cast<int64_t>(consumed);
  }
  line.end = offset_;
  if (line.whole && line.text.ends_with('\r')) line.text.pop_back();
  return line;
}

}  // namespace quire::server
