// Lines of a file that may be larger than memory, each bounded.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace quire::server {

class LineReader {
 public:
  struct Line {
    std::string text = {};  // without its end ("\n" or "\r\n")
    int64_t number = 0;     // from 1
    int64_t end = 0;        // bytes of the file up to and with this line
    bool whole = true;      // false: the file ends without a line end
    bool too_long = false;  // `text` is its beginning
  };

  // Of a longer line than `max_bytes` the rest is passed over.
  LineReader(std::istream& input, size_t max_bytes) : input_(input), max_bytes_(max_bytes), buffer_(size_t{1} << 16) {}

  // Nothing: the end of the file. What the stream says of errors is the caller's to ask.
  [[nodiscard]] std::optional<Line> next();

 private:
  bool fill();

  std::istream& input_;
  size_t max_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t number_ = 0;
  int64_t offset_ = 0;
};

}  // namespace quire::server
