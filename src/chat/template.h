// Chat templates: the Jinja programs in models' files that turn a conversation into the model's prompt.
//
// The interpreter knows what such templates use, as jinja2 runs them for transformers' apply_chat_template: trim_blocks and
// lstrip_blocks are on, break and continue are there, the sandbox makes strings, lists and dicts immutable, and raise_exception,
// strftime_now, namespace, range, dict, cycler and joiner are defined. Templates and conversations are untrusted: time, memory,
// output and recursion are bounded (Limits).
//
// Differences from jinja2, all where no chat template goes: integers have 64 bits; case mapping is by single characters; the filter
// `safe` does nothing, as nothing is escaped; tuples cannot be keys of dicts; filters that chat templates do not need (for example
// urlize and wordwrap) are not there and are errors when they are reached.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/limits.h"
#include "chat/marked_text.h"

namespace quire::chat {

struct Program;

// A date and time of day, as a person's calendar and clock show them.
struct CivilTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

struct RenderOptions {
  CivilTime now;  // what strftime_now tells: nothing here reads a clock
  Limits limits;
};

// A compiled template: immutable, may be rendered by many threads at once.
class Template {
 public:
  // Errors: kCorrupt for syntax, with line and column and what was expected; kUnsupported for a tag that chat templates do not
  // have; kLimit for a template that is too long or too deeply nested.
  [[nodiscard]] static Result<Template> compile(std::string_view source);

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, eos_token, and whatever else a template reads.
  // Errors: kInvalidArgument when the template itself refused the conversation by raise_exception: the message is the template's,
  // unchanged. kUnsupported when the template failed (with the line, in Python's words); kLimit when a bound was reached.
  [[nodiscard]] Result<std::string> render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

  // The same, with the bytes marked that came from the conversation: all strings in `variables` but the model's own words, which
  // are the top-level ones named *_token, and the known roles ("user", ...) under the key "role", of which templates make tokens.
  [[nodiscard]] Result<MarkedText> render_marked(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

  // Whether the template's text names a variable, for example "tools": what it cannot use need not be given to it.
  [[nodiscard]] bool mentions(std::string_view name) const;

  // Whether a string in the template's expressions is this text, for example "developer": it knows such a role.
  [[nodiscard]] bool has_literal(std::string_view text) const;

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace quire::chat
