#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pcre2.h>

#include <array>
#include <string>
#include <utility>

#include "tokenizer/utf8.h"

namespace quire::tokenizer {
namespace {

// PCRE2's own \s has one character more (U+180E), so White_Space is written out: all separators and the controls that are space.
#define QUIRE_WHITE_SPACE "\\p{Z}\\t-\\r\\x{85}"
constexpr std::string_view kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" QUIRE_WHITE_SPACE
                                   "\\p{L}\\p{N}]+|[" QUIRE_WHITE_SPACE "]+(?![^" QUIRE_WHITE_SPACE "])|[" QUIRE_WHITE_SPACE "]+";
#undef QUIRE_WHITE_SPACE
constexpr std::string_view kEachDigit = "\\p{N}";

constexpr std::array<std::string_view, 1> kGpt2Expressions = {kGpt2};
constexpr std::array<std::string_view, 2> kSmolLmExpressions = {kEachDigit, kGpt2};

struct Named {
  std::string_view name;
  std::span<const std::string_view> expressions;
};
constexpr Named kPreTokenizers[] = {{"default", kGpt2Expressions}, {"gpt-2", kGpt2Expressions}, {"smollm", kSmolLmExpressions}};

// The expressions above take a few steps a match. A million bounds a runaway to some milliseconds.
constexpr uint32_t kMaxStepsPerMatch = 1'000'000;
constexpr uint32_t kMaxHeapKibPerMatch = 20'000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

Error match_error(int code) {
  if (code == PCRE2_ERROR_NOMEMORY) return make_error(ErrorCode::kOutOfMemory, "tokenizer: out of memory while cutting the text");
  return make_error(ErrorCode::kLimit, fmt::format("tokenizer: the pre-tokenizer gave up on this text ({})", pcre2_message(code)));
}

// A part of the text that is UTF-8 throughout, or not at all.
struct Run {
  std::string_view text;
  bool valid;
};

// The longest run at the beginning of a text that is not empty.
Run first_run(std::string_view text) {
  size_t length = 0;
  bool valid = false;
  while (length < text.size()) {
    const Utf8Step step = utf8_step(text.substr(length));
    const bool character = step.kind == Utf8Step::Kind::kCharacter;
    if (length == 0) valid = character;
    if (character != valid) break;
    length += step.length;
  }
  return {text.substr(0, length), valid};
}

// Cuts UTF-8 by one expression.
Status cut(const pcre2_code* code, pcre2_match_context* context, pcre2_match_data* match, std::string_view text,
           std::vector<std::string_view>& pieces) {
  size_t done = 0;  // what lies before it is in pieces
  size_t from = 0;
  while (from < text.size()) {
    const int result =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK, match, context);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) return match_error(result);
    const size_t begin = pcre2_get_ovector_pointer(match)[0];
    const size_t end = pcre2_get_ovector_pointer(match)[1];
    if (end <= from) {  // an empty match: try again one character further
      from += utf8_step(text.substr(from)).length;
      continue;
    }
    if (begin > done) pieces.push_back(text.substr(done, begin - done));
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    done = from = end;
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
  return {};
}

}  // namespace

struct PreTokenizer::Compiled {
  std::vector<Code> expressions;
  std::unique_ptr<pcre2_match_context, FreeContext> context;  // only read after it was made
};

PreTokenizer::PreTokenizer(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  if (name.empty()) name = "default";
  std::vector<std::string_view> known;
  for (const Named& pre : kPreTokenizers) {
    if (pre.name == name) return compile(pre.expressions);
    known.push_back(pre.name);
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("tokenizer: the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported; supported: {}", name,
                                fmt::join(known, ", ")));
}

Result<PreTokenizer> PreTokenizer::compile(std::span<const std::string_view> expressions) {
  auto compiled = std::make_unique<Compiled>();
  for (const std::string_view expression : expressions) {
    int error = 0;
    PCRE2_SIZE place = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                            &error, &place, nullptr));
    if (!code) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("tokenizer: expression {} at {}: {}", expression, place, pcre2_message(error)));
    }
    // Where machine code may not be made (a hardened system), matching interprets: slower, the same pieces.
    static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
    compiled->expressions.push_back(std::move(code));
  }
  compiled->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled->context) return make_error(ErrorCode::kOutOfMemory, "tokenizer: out of memory");
  pcre2_set_match_limit(compiled->context.get(), kMaxStepsPerMatch);
  pcre2_set_heap_limit(compiled->context.get(), kMaxHeapKibPerMatch);
  return PreTokenizer(std::move(compiled));
}

Result<std::vector<std::string_view>> PreTokenizer::split(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  if (!match) return match_error(PCRE2_ERROR_NOMEMORY);
  std::vector<std::string_view> pieces;
  std::vector<std::string_view> coarse;
  std::vector<std::string_view> fine;
  while (!text.empty()) {
    const Run run = first_run(text);
    text.remove_prefix(run.text.size());
    coarse.assign(1, run.text);
    for (size_t i = 0; run.valid && i < compiled_->expressions.size(); ++i) {
      fine.clear();
      for (const std::string_view piece : coarse) {
        QUIRE_TRY_STATUS(cut(compiled_->expressions[i].get(), compiled_->context.get(), match.get(), piece, fine));
      }
      coarse.swap(fine);
    }
    pieces.insert(pieces.end(), coarse.begin(), coarse.end());
  }
  return pieces;
}

}  // namespace quire::tokenizer
