#include "server/batch_file.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

#include "base/hash.h"
#include "server/json_fields.h"

namespace quire::server {
namespace {

using Json = nlohmann::ordered_json;

// Results are as long as what the models say, many times over.
constexpr size_t kMaxResultBytes = size_t{1} << 30;

Json result(int64_t line, const std::string& custom_id, Json response, Json error) {
  return {{"id", fmt::format("batch_req_{}", line)},
          {"custom_id", custom_id.empty() ? Json() : Json(custom_id)},
          {"response", std::move(response)},
          {"error", std::move(error)}};
}

Json response(int64_t line, int status, const Json& body) {
  return {{"status_code", status}, {"request_id", fmt::format("req_{}", line)}, {"body", body}};
}

BatchLineError line_error(const std::string& custom_id, std::string code, std::string message) {
  return {.custom_id = custom_id, .code = std::move(code), .message = std::move(message)};
}

// The string of a field; nothing where it is missing or something else.
std::optional<std::string> string_field(const ObjectReader& line, std::string_view name) {
  const std::optional<Field> field = line.find(name);
  if (!field || !field->element.is_string()) return std::nullopt;
  return std::string(std::string_view(field->element));
}

std::variant<BatchRequest, BatchLineError> parse_fields(const ObjectReader& line) {
  const std::optional<std::string> custom_id = string_field(line, "custom_id");
  if (!custom_id || custom_id->empty()) {
    return line_error("", "missing_custom_id", "custom_id: a text that names the request is required");
  }
  if (custom_id->size() > kMaxNameBytes) {
    return line_error("", "invalid_custom_id",
                      fmt::format("custom_id: it has {} bytes; at most {} are taken", custom_id->size(), kMaxNameBytes));
  }
  if (const auto method = string_field(line, "method"); method != "POST") {
    return line_error(*custom_id, "invalid_method", "method: it must be \"POST\"");
  }
  const std::optional<std::string> url = string_field(line, "url");
  const std::optional<Endpoint> endpoint = url ? endpoint_of(*url) : std::nullopt;
  if (!endpoint) {
    return line_error(
        *custom_id, "invalid_url",
        fmt::format("url: {} and {} are supported", path_of(Endpoint::kChatCompletions), path_of(Endpoint::kCompletions)));
  }
  const std::optional<Field> body = line.find("body");
  if (!body || !body->element.is_object()) return line_error(*custom_id, "invalid_body", "body: an object is required");
  return BatchRequest{.custom_id = *custom_id, .endpoint = *endpoint, .body = parse_completion(*endpoint, body->element)};
}

// Adds a line of results; false where it is none.
bool read_answer(std::string_view text, BatchAnswers& answers) {
  const auto document = JsonDocument::parse_object(text, kMaxResultBytes);
  if (!document.ok()) return false;
  const auto line = ObjectReader::of({document->root(), ""});
  const std::optional<Field> response = line->find("response");
  const std::optional<Field> error = line->find("error");
  if (!response && !error) return false;
  if (error && error->element.is_object()) {
    int64_t number = 0;
    if (simdjson::dom::object(error->element)["line"].get(number) == simdjson::SUCCESS) {
      answers.lines.insert(number);
      return true;
    }
  }
  const std::optional<std::string> custom_id = string_field(*line, "custom_id");
  if (!custom_id) return false;
  answers.ids.insert(*custom_id);
  return true;
}

}  // namespace

std::variant<BatchRequest, BatchLineError> parse_batch_line(const LineReader::Line& line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (line.too_long) {
    return line_error("", "line_too_long", fmt::format("the line has more than the {} bytes that are taken", kMaxBatchLineBytes));
  }
  std::string_view text = line.text;
  if (line.number == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const auto document = JsonDocument::parse_object(text, kMaxBatchLineBytes);
  if (!document.ok()) return line_error("", "invalid_json_line", document.error().message);
  return parse_fields(ObjectReader::of({document->root(), ""}).value());
}

BatchLineError duplicate_line(const std::string& custom_id) {
  return line_error(custom_id, "duplicate_custom_id", "custom_id: an earlier line has the same");
}

std::string result_line(int64_t line, const std::string& custom_id, const Json& body) {
  return to_line(result(line, custom_id, response(line, 200, body), nullptr)) + "\n";
}

std::string result_line(int64_t line, const std::string& custom_id, const ApiError& error) {
  return to_line(result(line, custom_id, response(line, error.status, to_json(error)),
                        {{"code", error.code}, {"message", error.message}})) +
         "\n";
}

std::string result_line(int64_t line, const BatchLineError& error) {
  return to_line(result(line, error.custom_id, nullptr, {{"code", error.code}, {"message", error.message}, {"line", line}})) + "\n";
}

IdSet::Key IdSet::key(std::string_view id) {
  const auto bytes = std::as_bytes(std::span(id.data(), id.size()));
  return {hash64(bytes, 0), hash64(bytes, 1)};
}

Result<BatchAnswers> read_answers(std::istream& output) {
  LineReader lines(output, kMaxResultBytes);
  BatchAnswers answers;
  std::optional<int64_t> broken;
  while (const std::optional<LineReader::Line> line = lines.next()) {
    if (broken) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("line {} is no result of a batch; name another file, or repair this one", *broken));
    }
    if (!line->whole || line->too_long || !read_answer(line->text, answers)) {
      broken = line->number;
      continue;
    }
    ++answers.results;
    answers.whole = Bytes(line->end);
  }
  return answers;
}

}  // namespace quire::server
