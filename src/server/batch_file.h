// The files of the OpenAI Batch API: JSON Lines of requests in, JSON Lines of results out, and which of them are answered.
//
//   in   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   out  {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200, "request_id": "req_1", "body": {...}}, "error":
//   null}
//
// A line whose body is refused has a response with the status and the error that the API would give, and the error beside it. A
// line that is no request has no response; its error has the line's number, because it may have no custom_id or another line's.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>

#include "base/result.h"
#include "base/units.h"
#include "server/api_error.h"
#include "server/line_reader.h"
#include "server/openai_request.h"

namespace quire::server {

// Longer lines of requests are refused.
inline constexpr size_t kMaxBatchLineBytes = kMaxBodyBytes;

struct BatchRequest {
  std::string custom_id;
  Endpoint endpoint = Endpoint::kChatCompletions;
  ApiResult<CompletionBody> body;  // an error is the body's
};

// Why a line is no request.
struct BatchLineError {
  std::string custom_id = {};  // empty: it has none
  std::string code = {};
  std::string message = {};
};

[[nodiscard]] std::variant<BatchRequest, BatchLineError> parse_batch_line(const LineReader::Line& line);
// Of a line that has the custom_id of an earlier one.
[[nodiscard]] BatchLineError duplicate_line(const std::string& custom_id);

// Lines of results, with their line ends.
[[nodiscard]] std::string result_line(int64_t line, const std::string& custom_id, const nlohmann::ordered_json& body);
[[nodiscard]] std::string result_line(int64_t line, const std::string& custom_id, const ApiError& error);
[[nodiscard]] std::string result_line(int64_t line, const BatchLineError& error);

// A set of custom_ids. It keeps 128 bits of each, so that a million take some ten megabytes whatever they are.
class IdSet {
 public:
  // Whether it was not there.
  bool insert(std::string_view id) { return ids_.insert(key(id)).second; }
  [[nodiscard]] bool contains(std::string_view id) const { return ids_.contains(key(id)); }
  [[nodiscard]] size_t size() const { return ids_.size(); }

 private:
  using Key = std::array<uint64_t, 2>;
  struct Hash {
    size_t operator()(const Key& key) const { return static_cast<size_t>(key[0]); }
  };
  [[nodiscard]] static Key key(std::string_view id);

  std::unordered_set<Key, Hash> ids_;
};

// What a file of results holds.
struct BatchAnswers {
  IdSet ids;                          // lines that were requests
  std::unordered_set<int64_t> lines;  // those that were none, by number
  int64_t results = 0;
  Bytes whole;  // up to the end of the last whole result; what follows is a line that was cut off while it was written

  [[nodiscard]] bool has(int64_t line, const BatchLineError&) const { return lines.contains(line); }
  [[nodiscard]] bool has(const BatchRequest& request) const { return ids.contains(request.custom_id); }
};

// kCorrupt: a line that is no result, and is not the last one. The message begins with its number.
[[nodiscard]] Result<BatchAnswers> read_answers(std::istream& output);

}  // namespace quire::server
