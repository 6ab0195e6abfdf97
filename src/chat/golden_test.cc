// Templates of real models against what jinja2 makes of them. They are not ours, so they are found in QUIRE_TEST_DATA.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "chat/template.h"

namespace quire::chat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCanary = "<canary>";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The templates all of whose cases are equal: none may leave this list.
const std::set<std::string>& equal_templates() {
  static const std::set<std::string> names = {"Apertus-8B-Instruct.jinja",
                                              "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja",
                                              "GLM-4.6.jinja",
                                              "HuggingFaceTB-SmolLM3-3B.jinja",
                                              "Kimi-K2-Instruct.jinja",
                                              "LFM2-8B-A1B.jinja",
                                              "Mistral-Small-3.2-24B-Instruct-2506.jinja",
                                              "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja",
                                              "Qwen-Qwen2.5-7B-Instruct.jinja",
                                              "Qwen-Qwen3-0.6B.jinja",
                                              "Qwen3-Coder.jinja",
                                              "SmolLM2-135M-Instruct.jinja",
                                              "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
                                              "deepseek-ai-DeepSeek-V3.1.jinja",
                                              "google-gemma-2-2b-it.jinja",
                                              "google-gemma-4-31B-it.jinja",
                                              "ibm-granite-granite-3.3-2B-Instruct.jinja",
                                              "meta-llama-Llama-3.1-8B-Instruct.jinja",
                                              "meta-llama-Llama-3.2-3B-Instruct.jinja",
                                              "microsoft-Phi-3.5-mini-instruct.jinja",
                                              "mistralai-Mistral-Nemo-Instruct-2407.jinja",
                                              "openai-gpt-oss-120b.jinja",
                                              "unsloth-mistral-Devstral-Small-2507.jinja"};
  return names;
}

std::string render_case(const std::string& source, const Json& conversation) {
  auto compiled = Template::compile(source);
  if (!compiled.ok()) return "does not compile: " + compiled.error().message;
  Json variables = conversation;
  variables["bos_token"] = "<s>";
  variables["eos_token"] = "</s>";
  if (!variables.contains("tools")) variables["tools"] = nullptr;
  RenderOptions options;
  options.now = {2026, 1, 2, 3, 4, 5};
  auto result = compiled->render(variables, options);
  return result.ok() ? "output: " + *result : "error: " + result.error().message;
}

// Whether the result is the wanted one. Of an error's message Python's type and our place are no part.
bool is_as_wanted(const std::string& result, const Json& wanted) {
  if (wanted.contains("output")) return result == "output: " + wanted["output"].get<std::string>();
  std::string message = wanted["error"];
  if (message.rfind("TypeError: ", 0) == 0) message = message.substr(11);
  return result.rfind("error: ", 0) == 0 && result.size() >= message.size() &&
         result.compare(result.size() - message.size(), message.size(), message) == 0;
}

TEST(GoldenTest, TemplatesOfRealModelsGiveWhatJinja2Gives) {
  const char* data = std::getenv("QUIRE_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "QUIRE_TEST_DATA is not set: the templates of real models are not here";
  const std::string folder = std::string(data) + "/templates/";
  const Json cases = Json::parse(read_file(folder + "cases.json"));
  std::ifstream golden(folder + "golden.jsonl");
  std::map<std::string, std::pair<int, int>> equal_of_all;
  for (std::string line; std::getline(golden, line);) {
    const Json wanted = Json::parse(line);
    const std::string name = wanted["template"];
    const std::string result = render_case(read_file(folder + name), cases[wanted["case"].get<std::string>()]);
    const bool equal = is_as_wanted(result, wanted);
    equal_of_all[name].first += equal ? 1 : 0;
    ++equal_of_all[name].second;
    if (equal_templates().count(name) > 0) {
      EXPECT_TRUE(equal) << name << ", case " << wanted["case"] << "\n" << result << "\nwanted\n" << wanted;
    } else if (!equal) {
      std::fputs(fmt::format("not equal yet: {}, case {}\n", name, wanted["case"].get<std::string>()).c_str(), stdout);
    }
  }
  EXPECT_FALSE(equal_of_all.empty());
  for (const std::string& name : equal_templates()) EXPECT_EQ(equal_of_all.count(name), 1U) << name;
  for (const auto& [name, counts] : equal_of_all) {
    if (counts.first == counts.second) {
      EXPECT_EQ(equal_templates().count(name), 1U) << name << " is equal now: add it to the list";
    }
  }
}

// Every string of the conversation with something after it that no template writes.
void add_canaries(Json& json) {
  if (json.is_string()) json = json.get<std::string>() + std::string(kCanary);
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    const bool is_word = key == "role" || key == "type";
    if (!is_word) add_canaries(value);
  }
}

TEST(GoldenTest, WhatTheConversationSaysIsMarkedInTemplatesOfRealModels) {
  const char* data = std::getenv("QUIRE_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "QUIRE_TEST_DATA is not set: the templates of real models are not here";
  const std::string folder = std::string(data) + "/templates/";
  const Json cases = Json::parse(read_file(folder + "cases.json"));
  size_t found = 0;
  for (const std::string& name : equal_templates()) {
    const Template compiled = *Template::compile(read_file(folder + name));
    for (Json variables : cases) {
      for (const char* part : {"messages", "tools"}) {
        if (variables.contains(part)) add_canaries(variables[part]);
      }
      const auto rendered = compiled.render_marked(variables);
      if (!rendered.ok()) continue;
      const std::string& text = rendered->text();
      for (size_t at = text.find(kCanary); at != std::string::npos; at = text.find(kCanary, at + 1)) {
        ++found;
        const auto& input = rendered->input();
        EXPECT_TRUE(std::any_of(input.begin(), input.end(),
                                [at](const TextRange& range) { return range.begin <= at && at + kCanary.size() <= range.end; }))
            << name << ": " << text.substr(at < 40 ? 0 : at - 40, 80);
      }
    }
  }
  EXPECT_GT(found, 500U);
}

}  // namespace
}  // namespace quire::chat
