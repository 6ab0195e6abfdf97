#include "tests/support/tiny_models.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "tests/support/quantize.h"
#include "tests/support/random.h"

namespace quire::test_support {
namespace {

// Values of tokenizer.ggml.token_type.
constexpr int32_t kNormalToken = 1;
constexpr int32_t kUnknownToken = 2;
constexpr int32_t kControlToken = 3;
constexpr int32_t kByteToken = 6;

std::string utf8(uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

// The visible stand-in of a byte in byte-level BPE vocabularies: printable Latin-1 bytes stand for themselves, the others are
// numbered from U+0100 on.
std::string byte_stand_in(int byte) {
  const auto stands_for_itself = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae; };
  if (stands_for_itself(byte)) return utf8(static_cast<uint32_t>(byte));
  uint32_t number = 0;
  for (int b = 0; b < byte; ++b) number += stands_for_itself(b) ? 0 : 1;
  return utf8(0x100 + number);
}

std::vector<float> random_weights(const TensorPlan& plan, const TinyModelOptions& options) {
  Random random(hash64(std::as_bytes(std::span(plan.name)), options.seed));
  uint64_t count = 1;
  for (const uint64_t size : plan.dims) count *= size;
  std::vector<float> weights(count);
  const float scale = 1.0f / std::sqrt(static_cast<float>(plan.dims[0]));
  for (float& weight : weights) weight = plan.role == TensorRole::kNorm ? 1.0f + 0.1f * random.uniform() : scale * random.normal();
  return weights;
}

gguf::TensorType type_for(TensorRole role, const TinyModelOptions& options) {
  switch (role) {
    case TensorRole::kNorm:
    case TensorRole::kRopeFactors: return gguf::TensorType::kF32;
    case TensorRole::kMatrix: return options.matrix_type;
    case TensorRole::kEmbedding: return options.embedding_type;
    case TensorRole::kOutput: return options.output_type;
  }
  check_failed(__FILE__, __LINE__, "a TensorRole holds one of its enumerators");
}

std::vector<std::byte> tiny_model(const TinyModelOptions& options, int64_t (*add_tokenizer)(GgufWriter&)) {
  GgufWriter writer;
  GgufWriter tokenizer;
  const int64_t vocabulary = add_tokenizer(tokenizer);
  add_architecture(writer, options.shape, vocabulary, file_type_of(options.matrix_type));
  add_tokenizer(writer);
  for (const TensorPlan& plan : plan_tensors(options.shape, vocabulary)) {
    const auto type = fitting_type(type_for(plan.role, options), static_cast<int64_t>(plan.dims[0]));
    const bool given = plan.role == TensorRole::kRopeFactors;
    writer.add_tensor(plan.name, type, plan.dims,
                      quantize(type, given ? options.shape.rope_factors : random_weights(plan, options)));
  }
  if (options.change) options.change(writer);
  return writer.bytes();
}

}  // namespace

TinyModelOptions tiny_llama_options() {
  TinyModelOptions options;
  options.shape = {.architecture = "llama",
                   .name = "Tiny llama",
                   .layers = 2,
                   .embedding = 128,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_dim = 64,
                   .feed_forward = 256,
                   .context = 512};
  return options;
}

TinyModelOptions tiny_gemma3_options() {
  TinyModelOptions options = tiny_llama_options();
  options.shape.architecture = "gemma3";
  options.shape.name = "Tiny gemma3";
  options.shape.layers = 6;
  options.shape.rope_base = 1e6f;
  options.shape.rms_epsilon = 1e-6f;
  options.shape.sliding_window = 48;
  return options;
}

std::vector<std::byte> tiny_llama_model(const TinyModelOptions& options) { return tiny_model(options, add_tiny_bpe_tokenizer); }

std::vector<std::byte> tiny_gemma3_model(const TinyModelOptions& options) { return tiny_model(options, add_tiny_spm_tokenizer); }

int64_t add_tiny_bpe_tokenizer(GgufWriter& writer) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(tokens.size(), kControlToken);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_stand_in(byte));
  const std::string space = byte_stand_in(' ');
  const std::vector<std::pair<std::string, std::string>> merges = {
      {space, "t"}, {"h", "e"},   {"i", "n"},  {space, "a"},        {"r", "e"},          {"o", "n"}, {space + "t", "he"},
      {"e", "r"},   {space, "s"}, {"n", "d"},  {space + "a", "nd"}, {"in", "g"},         {"l", "l"}, {space, space},
      {"o", "u"},   {"u", "s"},   {"e", "ll"}, {space, "w"},        {space + "w", "or"}, {"o", "r"}, {"s", "t"},
  };
  std::vector<std::string> merge_lines;
  for (const auto& [left, right] : merges) {
    tokens.push_back(left + right);
    merge_lines.push_back(left + " " + right);
  }
  types.resize(tokens.size(), kNormalToken);
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", "smollm");
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.merges", merge_lines);
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{1});
  writer.add("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.unknown_token_id", uint32_t{0});
  writer.add("tokenizer.ggml.padding_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.add_space_prefix", false);
  writer.add("tokenizer.ggml.add_bos_token", false);
  writer.add("tokenizer.chat_template",
             "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{{ turn['content'] }}<|im_end|>\n{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  return static_cast<int64_t>(tokens.size());
}

int64_t add_tiny_spm_tokenizer(GgufWriter& writer) {
  std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
  std::vector<int32_t> types(tokens.size(), kControlToken);
  types[3] = kUnknownToken;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  types.resize(tokens.size(), kByteToken);
  std::vector<float> scores(tokens.size(), -1000.0f);
  const std::string space = "\u2581";
  std::vector<std::string> pieces = {space + "t", "he", "in",        space + "a", "er", space + "the", "nd", space + "and", "ing",
                                     "ll",        "ou", space + "s", "st",        "on", space + space, "\n", space};
  for (char c = ' ' + 1; c <= '~'; ++c) pieces.emplace_back(1, c);
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    tokens.push_back(pieces[rank]);
    scores.push_back(-static_cast<float>(rank));
  }
  types.resize(tokens.size(), kNormalToken);
  writer.add("tokenizer.ggml.model", "llama");
  writer.add("tokenizer.ggml.pre", "default");
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.scores", scores);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{2});
  writer.add("tokenizer.ggml.eos_token_id", uint32_t{1});
  writer.add("tokenizer.ggml.unknown_token_id", uint32_t{3});
  writer.add("tokenizer.ggml.padding_token_id", uint32_t{0});
  writer.add("tokenizer.ggml.add_bos_token", true);
  writer.add("tokenizer.ggml.add_eos_token", false);
  writer.add("tokenizer.ggml.add_space_prefix", false);
  return static_cast<int64_t>(tokens.size());
}

}  // namespace quire::test_support
