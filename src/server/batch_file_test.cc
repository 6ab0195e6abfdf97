#include "server/batch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <sstream>

namespace quire::server {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::vector<LineReader::Line> lines_of(const std::string& text, size_t most = 100) {
  std::istringstream input(text);
  LineReader reader(input, most);
  std::vector<LineReader::Line> lines;
  while (auto line = reader.next()) lines.push_back(*std::move(line));
  return lines;
}

std::variant<BatchRequest, BatchLineError> parse(const std::string& text, int64_t number = 2) {
  return parse_batch_line({.text = text, .number = number});
}

std::string line_error(const std::string& text) {
  const auto parsed = parse(text);
  const auto* error = std::get_if<BatchLineError>(&parsed);
  if (error == nullptr) return "none";
  EXPECT_FALSE(error->message.empty());
  return error->custom_id + " " + error->code;
}

BatchAnswers answers_in(const std::string& text) {
  std::istringstream input(text);
  return read_answers(input).value();
}

// --- Lines

TEST(LineReader, KnowsWhereLinesEnd) {
  const auto lines = lines_of("a\nbc\r\n\nd");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1].text, "bc");
  EXPECT_EQ(lines[1].number, 2);
  EXPECT_EQ(lines[1].end, 6);
  EXPECT_EQ(lines[2].text, "");
  EXPECT_TRUE(lines[2].whole);
  EXPECT_FALSE(lines[3].whole);
  EXPECT_EQ(lines[3].end, 8);
  EXPECT_TRUE(lines_of("").empty());
  EXPECT_EQ(lines_of("\n").size(), 1U);
}

TEST(LineReader, KeepsNoMoreOfALineThanItMay) {
  const auto lines = lines_of(std::string(200000, 'x') + "\nshort\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].too_long);
  EXPECT_EQ(lines[0].text.size(), 100U);
  EXPECT_EQ(lines[0].end, 200001);
  EXPECT_EQ(lines[1].text, "short");
  EXPECT_FALSE(lines[1].too_long);
  EXPECT_FALSE(lines_of(std::string(100, 'x') + "\n")[0].too_long);
}

// --- Requests

TEST(BatchFile, ALineIsARequest) {
  const auto parsed = parse(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Hi", "n": 2}})");
  const auto* request = std::get_if<BatchRequest>(&parsed);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->custom_id, "a");
  EXPECT_EQ(request->endpoint, Endpoint::kCompletions);
  ASSERT_TRUE(request->body.ok());
  EXPECT_EQ(request->body->choices, 2);
  EXPECT_EQ(std::get<std::string>(request->body->prompts[0]), "Hi");
}

TEST(BatchFile, AnErrorOfTheBodyIsTheRequests) {
  const auto parsed = parse(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Hi", "n": 0}})");
  const auto& body = std::get<BatchRequest>(parsed).body;
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error().param, "n");
}

TEST(BatchFile, ALineThatIsNoRequestSaysWhy) {
  EXPECT_EQ(line_error("{"), " invalid_json_line");
  EXPECT_EQ(line_error("[]"), " invalid_json_line");
  EXPECT_EQ(line_error("{}"), " missing_custom_id");
  EXPECT_EQ(line_error(R"({"custom_id": 7})"), " missing_custom_id");
  EXPECT_EQ(line_error(R"({"custom_id": ""})"), " missing_custom_id");
  EXPECT_EQ(line_error(R"({"custom_id": ")" + std::string(2000, 'x') + "\"}"), " invalid_custom_id");
  EXPECT_EQ(line_error(R"({"custom_id": "a"})"), "a invalid_method");
  EXPECT_EQ(line_error(R"({"custom_id": "a", "method": "GET"})"), "a invalid_method");
  EXPECT_EQ(line_error(R"({"custom_id": "a", "method": "POST"})"), "a invalid_url");
  EXPECT_EQ(line_error(R"({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {}})"), "a invalid_url");
  EXPECT_EQ(line_error(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions"})"), "a invalid_body");
  EXPECT_EQ(line_error(R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": []})"), "a invalid_body");
  const auto too_long = parse_batch_line({.text = "{", .number = 1, .too_long = true});
  EXPECT_EQ(std::get<BatchLineError>(too_long).code, "line_too_long");
}

TEST(BatchFile, AByteOrderMarkBeginsAFileOnly) {
  const std::string line = "\xEF\xBB\xBF{\"custom_id\": \"a\"}";
  EXPECT_EQ(std::get<BatchLineError>(parse(line, 1)).code, "invalid_method");
  EXPECT_EQ(std::get<BatchLineError>(parse(line, 2)).code, "invalid_json_line");
}

// --- Results

TEST(BatchFile, ResultsHaveOpenAisShape) {
  EXPECT_EQ(
      result_line(3, "a", Json{{"x", 1}}),
      R"({"id":"batch_req_3","custom_id":"a","response":{"status_code":200,"request_id":"req_3","body":{"x":1}},"error":null})"
      "\n");
  EXPECT_EQ(result_line(3, "a", ApiError{.message = "no", .code = "invalid_prompt"}),
            R"({"id":"batch_req_3","custom_id":"a","response":{"status_code":400,"request_id":"req_3","body":{"error":)"
            R"({"message":"no","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}},)"
            R"("error":{"code":"invalid_prompt","message":"no"}})"
            "\n");
  EXPECT_EQ(result_line(3, BatchLineError{.code = "invalid_url", .message = "no"}),
            R"({"id":"batch_req_3","custom_id":null,"response":null,"error":{"code":"invalid_url","message":"no","line":3}})"
            "\n");
}

TEST(BatchFile, AnswersAreKnownByIdOrByLine) {
  const std::string out = result_line(1, "a", Json{}) + result_line(2, "b", ApiError{.message = "no", .code = "x"}) +
                          result_line(3, BatchLineError{.code = "x", .message = "no"}) + result_line(4, duplicate_line("c"));
  const BatchAnswers answers = answers_in(out);
  EXPECT_EQ(answers.results, 4);
  EXPECT_EQ(answers.whole, Bytes(static_cast<int64_t>(out.size())));
  EXPECT_TRUE(answers.ids.contains("a"));
  EXPECT_TRUE(answers.ids.contains("b"));
  EXPECT_FALSE(answers.ids.contains("c")) << "only the second line of that name was told its error";
  EXPECT_TRUE(answers.lines.contains(3));
  EXPECT_TRUE(answers.lines.contains(4));
  EXPECT_FALSE(answers.lines.contains(1));
}

// Cut anywhere, a file of results has its whole lines and nothing else.
TEST(BatchFile, ALineThatWasCutOffIsNoAnswer) {
  const std::string first = result_line(1, "a", Json{{"text", "é\n"}});
  const std::string second = result_line(2, "b", Json{{"text", "x"}});
  const std::string both = first + second;
  for (size_t size = 0; size <= both.size(); ++size) {
    const BatchAnswers answers = answers_in(both.substr(0, size));
    const int64_t whole = size < first.size() ? 0 : (size < both.size() ? 1 : 2);
    EXPECT_EQ(answers.results, whole) << size;
    EXPECT_EQ(answers.ids.contains("a"), whole >= 1) << size;
    EXPECT_EQ(answers.ids.contains("b"), whole >= 2) << size;
    EXPECT_EQ(answers.whole.value, static_cast<int64_t>(whole == 0 ? 0 : (whole == 1 ? first.size() : both.size())));
  }
  // What a power failure leaves: a longer file without its last bytes.
  EXPECT_EQ(answers_in(first + std::string(500, '\0')).whole.value, static_cast<int64_t>(first.size()));
  EXPECT_EQ(answers_in(first + "half a line\n").whole.value, static_cast<int64_t>(first.size()));
}

TEST(BatchFile, AFileOfSomethingElseIsRefused) {
  std::istringstream input("to do:\n- nothing\n- more\n");
  const auto answers = read_answers(input);
  ASSERT_FALSE(answers.ok());
  EXPECT_EQ(answers.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(answers.error().message, HasSubstr("line 1 "));
  for (const char* line :
       {"[]", "{}", R"({"custom_id": "a"})", R"({"custom_id": "a", "response": null, "error": null})", R"({"response": {}})"}) {
    std::istringstream lines(std::string(line) + "\n" + result_line(1, "a", Json{}));
    EXPECT_FALSE(read_answers(lines).ok()) << line;
  }
}

TEST(BatchFile, IdsAreTold) {
  IdSet ids;
  EXPECT_TRUE(ids.insert("a"));
  EXPECT_FALSE(ids.insert("a"));
  EXPECT_TRUE(ids.insert(std::string("a\0", 2)));
  for (int i = 0; i < 20000; ++i) EXPECT_TRUE(ids.insert("request-" + std::to_string(i)));
  EXPECT_EQ(ids.size(), 20002U);
  EXPECT_FALSE(ids.contains("request-20000"));
}

RC_GTEST_PROP(BatchFileProperty, WhatIsWrittenIsReadBack, (const std::vector<std::pair<std::string, uint8_t>>& results)) {
  std::string out;
  int64_t number = 0;
  IdSet ids;
  std::set<int64_t> lines;
  for (const auto& [bytes, kind] : results) {
    ++number;
    // A custom_id comes from JSON: it is UTF-8.
    const std::string id = Json(bytes).dump(-1, ' ', true, Json::error_handler_t::replace);
    if (kind % 3 == 0) out += result_line(number, id, Json{{"text", bytes}});
    if (kind % 3 == 1) out += result_line(number, id, ApiError{.message = bytes, .code = "x"});
    if (kind % 3 == 2) out += result_line(number, BatchLineError{.custom_id = id, .code = "x", .message = bytes});
    if (kind % 3 == 2) lines.insert(number);
    if (kind % 3 != 2) ids.insert(id);
  }
  const BatchAnswers answers = answers_in(out);
  RC_ASSERT(answers.results == number);
  RC_ASSERT(answers.ids.size() == ids.size());
  RC_ASSERT(std::set<int64_t>(answers.lines.begin(), answers.lines.end()) == lines);
}

}  // namespace
}  // namespace quire::server
