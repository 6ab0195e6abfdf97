// Finds stop texts in a reply that arrives in pieces, also across the borders of tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::engine {

// Text goes in by append(); what can no longer become part of a stop text comes out. Once a stop text has come, nothing comes out
// any more.
class StopTexts {
 public:
  // Empty texts are ignored.
  explicit StopTexts(std::vector<std::string> texts);

  // The text that is certain after `piece`.
  [[nodiscard]] std::string append(std::string_view piece);

  // The text that was held back, at the end of the reply.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  // Bytes at the end of held_ that a stop text may begin with.
  [[nodiscard]] size_t possible_beginning() const;

  std::vector<std::string> texts_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace quire::engine
