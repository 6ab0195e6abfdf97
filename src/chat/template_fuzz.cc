// Any template with any conversation ends, with a text or with an error, within its bounds.
//
// Input: a template; after the first byte 0 the conversation's JSON, if there is one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chat/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::chat::Template;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto compiled = Template::compile(input.substr(0, end));
  if (!compiled.ok()) return 0;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  if (end != std::string_view::npos) {
    auto parsed = nlohmann::ordered_json::parse(input.substr(end + 1), nullptr, false);
    if (parsed.is_object()) variables = std::move(parsed);
  }
  quire::chat::RenderOptions options;
  options.limits.work = 200'000;
  options.limits.memory_bytes = int64_t{8} << 20;
  options.limits.output_bytes = int64_t{1} << 20;
  const auto result = compiled->render(variables, options);
  if (result.ok() && result->size() > size_t{1} << 20) std::abort();
  return 0;
}
