#include "model/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace quire::model {
namespace {

using enum KeyUse;

constexpr std::array kCommonKeys = std::to_array<KeyRule>({
    {"block_count", kRead},
    {"context_length", kRead},
    {"embedding_length", kRead},
    {"feed_forward_length", kRead},
    {"attention.head_count", kRead},
    {"attention.head_count_kv", kRead},
    {"attention.key_length", kRead},
    {"attention.value_length", kRead},
    {"attention.layer_norm_rms_epsilon", kRead},
    {"rope.freq_base", kRead},
    {"rope.dimension_count", kRead},
    {"rope.scaling.type", kRead},
    {"rope.scaling.factor", kRead},
    {"rope.scaling.original_context_length", kHarmless},
    {"rope.scaling.finetuned", kHarmless},
    {"vocab_size", kRead},
});

constexpr std::array kLlamaKeys = std::to_array<KeyRule>({
    {"rope.scale_linear", kRead},
    {"expert_count", kMustBeOff},
    {"expert_used_count", kMustBeOff},
    {"attention.sliding_window", kMustBeOff},
});

constexpr std::array kGemma3Keys = std::to_array<KeyRule>({
    {"attention.sliding_window", kRead},
    {"attention.sliding_window_pattern", kRead},
    {"rope.freq_base_swa", kRead},
    {"rope.local.freq_base", kRead},
    {"attn_logit_softcapping", kMustBeOff},
    {"final_logit_softcapping", kMustBeOff},
});

Status specialize_llama(const gguf::File&, ModelConfig&) { return {}; }

// Five layers with a sliding window and local RoPE, then one that sees everything (Gemma 3 technical report, 2025, section 2).
constexpr uint64_t kGemma3Pattern = 6;
constexpr double kGemma3LocalBase = 10000;
// The 27B model scales queries by embedding / heads instead of the head's width; its file is told apart by its layers.
constexpr size_t kGemma3LayersOf27B = 62;

Result<double> gemma3_local_base(const gguf::File& file) {
  QUIRE_TRY(const double older_name, file.get_f64_or("gemma3.rope.local.freq_base", kGemma3LocalBase));
  QUIRE_TRY(const double base, file.get_f64_or("gemma3.rope.freq_base_swa", older_name));
  if (!(base > 0) || !std::isfinite(base)) {
    return make_error(ErrorCode::kUnsupported, fmt::format("gemma3.rope.freq_base_swa is {}; expected a positive number", base));
  }
  return base;
}

Status specialize_gemma3(const gguf::File& file, ModelConfig& config) {
  QUIRE_TRY(const uint64_t window, file.get_u64("gemma3.attention.sliding_window"));
  if (window == 0 || window > (uint64_t{1} << 31)) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("gemma3.attention.sliding_window is {}; Quire runs windows of 1 position and more", window));
  }
  QUIRE_TRY(const uint64_t pattern, file.get_u64_or("gemma3.attention.sliding_window_pattern", kGemma3Pattern));
  if (pattern == 0)
    return make_error(ErrorCode::kUnsupported,
                      "gemma3.attention.sliding_window_pattern is 0; expected every how many layers one sees everything");
  QUIRE_TRY(const double local_base, gemma3_local_base(file));
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding));
  if (config.layers.size() == kGemma3LayersOf27B) {
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.embedding) / static_cast<float>(config.heads));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if ((i + 1) % pattern == 0) continue;
    config.layers[i].window = static_cast<int64_t>(window);
    config.layers[i].rope = {.base = local_base, .position_divisor = 1};
  }
  return {};
}

constexpr std::array kArchitectures = std::to_array<Architecture>({
    {.name = "llama",
     .keys = kLlamaKeys,
     .rope_pairs = kernels::RopePairs::kAdjacent,
     .gate = kernels::Gate::kSilu,
     .qk_norm = false,
     .post_norms = false,
     .frequency_factors = true,
     .default_rope_base = 10000,
     .specialize = specialize_llama},
    {.name = "gemma3",
     .keys = kGemma3Keys,
     .rope_pairs = kernels::RopePairs::kHalves,
     .gate = kernels::Gate::kGeluTanh,
     .qk_norm = true,
     .post_norms = true,
     .frequency_factors = false,
     .default_rope_base = 1000000,
     .specialize = specialize_gemma3},
});

const KeyRule* find_rule(std::span<const KeyRule> rules, std::string_view key) {
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const KeyRule& r) { return r.name == key; });
  return rule == rules.end() ? nullptr : &*rule;
}

}  // namespace

const KeyRule* Architecture::rule_for(std::string_view key) const {
  const KeyRule* common = find_rule(kCommonKeys, key);
  return common != nullptr ? common : find_rule(keys, key);
}

Result<const Architecture*> find_architecture(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Architecture& known : kArchitectures) {
    if (known.name == name) return &known;
    names.push_back(known.name);
  }
  return make_error(ErrorCode::kUnsupported,
                    fmt::format("general.architecture is '{}'; Quire runs {}", name, fmt::join(names, " and ")));
}

}  // namespace quire::model
