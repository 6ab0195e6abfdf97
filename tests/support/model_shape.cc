#include "tests/support/model_shape.h"

#include <fmt/format.h>

#include <numbers>

#include "base/check.h"
#include "base/math.h"

namespace quire::test_support {
namespace {

struct KnownShape {
  std::string_view name;
  ModelShape shape;
  double llama3_factor = 0;  // of llama3_rope_factors; 0: none
};

ModelShape llama(std::string name, int64_t layers, int64_t embedding, int64_t heads, int64_t kv_heads, int64_t head_dim,
                 int64_t feed_forward, int64_t context, float rope_base, bool tied_output) {
  return {.architecture = "llama",
          .name = std::move(name),
          .layers = layers,
          .embedding = embedding,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .feed_forward = feed_forward,
          .context = context,
          .rope_base = rope_base,
          .rms_epsilon = 1e-5f,
          .tied_output = tied_output};
}

ModelShape gemma3(std::string name, int64_t layers, int64_t embedding, int64_t feed_forward, int64_t sliding_window) {
  return {.architecture = "gemma3",
          .name = std::move(name),
          .layers = layers,
          .embedding = embedding,
          .heads = 4,
          .kv_heads = 1,
          .head_dim = 256,
          .feed_forward = feed_forward,
          .context = 32768,
          .rope_base = 1e6f,
          .rms_epsilon = 1e-6f,
          .tied_output = true,
          .sliding_window = sliding_window};
}

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> shapes = {
      {"smollm2-135m", llama("SmolLM2 135M", 30, 576, 9, 3, 64, 1536, 8192, 1e5f, true)},
      {"smollm2-360m", llama("SmolLM2 360M", 32, 960, 15, 5, 64, 2560, 8192, 1e5f, true)},
      {"smollm2-1.7b", llama("SmolLM2 1.7B", 24, 2048, 32, 32, 64, 8192, 8192, 130000.0f, true)},
      {"tinyllama-1.1b", llama("TinyLlama 1.1B", 22, 2048, 32, 4, 64, 5632, 2048, 1e4f, false)},
      {"llama-3.2-1b", llama("Llama 3.2 1B", 16, 2048, 32, 8, 64, 8192, 131072, 5e5f, true), 32},
      {"llama-3.2-3b", llama("Llama 3.2 3B", 28, 3072, 24, 8, 128, 8192, 131072, 5e5f, true), 32},
      {"llama-3-8b", llama("Llama 3 8B", 32, 4096, 32, 8, 128, 14336, 8192, 5e5f, false)},
      {"llama-3.1-8b", llama("Llama 3.1 8B", 32, 4096, 32, 8, 128, 14336, 131072, 5e5f, false), 8},
      {"llama-3-70b", llama("Llama 3 70B", 80, 8192, 64, 8, 128, 28672, 8192, 5e5f, false)},
      {"llama-3.1-70b", llama("Llama 3.1 70B", 80, 8192, 64, 8, 128, 28672, 131072, 5e5f, false), 8},
      {"yi-6b", llama("Yi 6B", 32, 4096, 32, 4, 128, 11008, 4096, 5e6f, false)},
      {"yi-34b", llama("Yi 34B", 60, 7168, 56, 8, 128, 20480, 4096, 5e6f, false)},
      {"gemma-3-270m", gemma3("Gemma 3 270M", 18, 640, 2048, 512)},
      {"gemma-3-1b", gemma3("Gemma 3 1B", 26, 1152, 6912, 512)},
  };
  return shapes;
}

void add_gemma3_keys(GgufWriter& writer, const ModelShape& shape) {
  writer.add("gemma3.attention.key_length", static_cast<uint32_t>(shape.head_dim));
  writer.add("gemma3.attention.value_length", static_cast<uint32_t>(shape.head_dim));
  writer.add("gemma3.attention.sliding_window", static_cast<uint32_t>(shape.sliding_window));
}

void add_llama_keys(GgufWriter& writer, const ModelShape& shape, int64_t vocabulary) {
  writer.add("llama.vocab_size", static_cast<uint32_t>(vocabulary));
  writer.add("llama.rope.dimension_count", static_cast<uint32_t>(shape.head_dim));
  if (shape.head_dim * shape.heads != shape.embedding) {
    writer.add("llama.attention.key_length", static_cast<uint32_t>(shape.head_dim));
    writer.add("llama.attention.value_length", static_cast<uint32_t>(shape.head_dim));
  }
}

void plan_layer(const ModelShape& shape, int64_t layer, std::vector<TensorPlan>& plans) {
  const auto embedding = static_cast<uint64_t>(shape.embedding);
  const auto queries = static_cast<uint64_t>(shape.heads * shape.head_dim);
  const auto keys = static_cast<uint64_t>(shape.kv_heads * shape.head_dim);
  const auto feed_forward = static_cast<uint64_t>(shape.feed_forward);
  const auto head = static_cast<uint64_t>(shape.head_dim);
  const bool gemma = shape.architecture == "gemma3";
  const auto plan = [&](std::string_view part, TensorRole role, std::vector<uint64_t> dims) {
    plans.push_back({fmt::format("blk.{}.{}.weight", layer, part), role, std::move(dims)});
  };
  plan("attn_norm", TensorRole::kNorm, {embedding});
  plan("attn_q", TensorRole::kMatrix, {embedding, queries});
  plan("attn_k", TensorRole::kMatrix, {embedding, keys});
  plan("attn_v", TensorRole::kMatrix, {embedding, keys});
  plan("attn_output", TensorRole::kMatrix, {queries, embedding});
  if (gemma) {
    plan("attn_q_norm", TensorRole::kNorm, {head});
    plan("attn_k_norm", TensorRole::kNorm, {head});
    plan("post_attention_norm", TensorRole::kNorm, {embedding});
  }
  plan("ffn_norm", TensorRole::kNorm, {embedding});
  plan("ffn_gate", TensorRole::kMatrix, {embedding, feed_forward});
  plan("ffn_up", TensorRole::kMatrix, {embedding, feed_forward});
  plan("ffn_down", TensorRole::kMatrix, {feed_forward, embedding});
  if (gemma) plan("post_ffw_norm", TensorRole::kNorm, {embedding});
}

}  // namespace

const std::vector<std::string>& known_shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const KnownShape& known : known_shapes()) list.emplace_back(known.name);
    return list;
  }();
  return names;
}

std::optional<ModelShape> known_shape(std::string_view name) {
  for (const KnownShape& known : known_shapes()) {
    if (known.name != name) continue;
    ModelShape shape = known.shape;
    if (known.llama3_factor != 0) {
      shape.rope_factors = llama3_rope_factors(shape.head_dim, shape.rope_base, known.llama3_factor);
    }
    return shape;
  }
  return std::nullopt;
}

std::vector<float> llama3_rope_factors(int64_t head_dim, double base, double factor) {
  constexpr double kOriginalContext = 8192;
  constexpr double kLowFrequencyFactor = 1;
  constexpr double kHighFrequencyFactor = 4;
  std::vector<float> factors;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double frequency = math::pow(base, -static_cast<double>(i) / static_cast<double>(head_dim));
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < kOriginalContext / kHighFrequencyFactor) {
      factors.push_back(1.0f);
    } else if (wavelength > kOriginalContext / kLowFrequencyFactor) {
      factors.push_back(static_cast<float>(factor));
    } else {
      const double smooth = (kOriginalContext / wavelength - kLowFrequencyFactor) / (kHighFrequencyFactor - kLowFrequencyFactor);
      factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return factors;
}

uint32_t file_type_of(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::kF32: return 0;
    case gguf::TensorType::kF16: return 1;
    case gguf::TensorType::kQ4_0: return 2;
    case gguf::TensorType::kQ4_1: return 3;
    case gguf::TensorType::kQ8_0: return 7;
    case gguf::TensorType::kQ5_0: return 8;
    case gguf::TensorType::kQ4_K: return 14;
    case gguf::TensorType::kQ5_K: return 16;
    case gguf::TensorType::kQ6_K: return 18;
    case gguf::TensorType::kBF16: return 32;
  }
  check_failed(__FILE__, __LINE__, "a TensorType holds one of its enumerators");
}

void add_architecture(GgufWriter& writer, const ModelShape& shape, int64_t vocabulary, uint32_t file_type) {
  const auto add_u32 = [&](std::string_view key, int64_t value) {
    writer.add(fmt::format("{}.{}", shape.architecture, key), static_cast<uint32_t>(value));
  };
  const auto add_f32 = [&](std::string_view key, float value) { writer.add(fmt::format("{}.{}", shape.architecture, key), value); };
  writer.add("general.architecture", shape.architecture);
  writer.add("general.type", "model");
  writer.add("general.name", shape.name);
  writer.add("general.file_type", file_type);
  writer.add("general.quantization_version", uint32_t{2});
  add_u32("block_count", shape.layers);
  add_u32("context_length", shape.context);
  add_u32("embedding_length", shape.embedding);
  add_u32("feed_forward_length", shape.feed_forward);
  add_u32("attention.head_count", shape.heads);
  add_u32("attention.head_count_kv", shape.kv_heads);
  add_f32("attention.layer_norm_rms_epsilon", shape.rms_epsilon);
  add_f32("rope.freq_base", shape.rope_base);
  if (shape.linear_rope_factor) {
    writer.add(fmt::format("{}.rope.scaling.type", shape.architecture), "linear");
    add_f32("rope.scaling.factor", *shape.linear_rope_factor);
  }
  if (shape.architecture == "gemma3") {
    add_gemma3_keys(writer, shape);
  } else {
    add_llama_keys(writer, shape, vocabulary);
  }
}

std::vector<TensorPlan> plan_tensors(const ModelShape& shape, int64_t vocabulary) {
  const auto embedding = static_cast<uint64_t>(shape.embedding);
  const auto tokens = static_cast<uint64_t>(vocabulary);
  std::vector<TensorPlan> plans;
  plans.push_back({"token_embd.weight", TensorRole::kEmbedding, {embedding, tokens}});
  if (!shape.rope_factors.empty()) {
    plans.push_back({"rope_freqs.weight", TensorRole::kRopeFactors, {uint64_t{shape.rope_factors.size()}}});
  }
  for (int64_t layer = 0; layer < shape.layers; ++layer) plan_layer(shape, layer, plans);
  plans.push_back({"output_norm.weight", TensorRole::kNorm, {embedding}});
  if (!shape.tied_output) plans.push_back({"output.weight", TensorRole::kOutput, {embedding, tokens}});
  return plans;
}

gguf::TensorType fitting_type(gguf::TensorType wanted, int64_t row_elements) {
  using gguf::TensorType;
  const auto fits = [row_elements](TensorType type) { return row_elements % gguf::block_elements(type) == 0; };
  if (fits(wanted)) return wanted;
  const TensorType smaller_block = wanted == TensorType::kQ4_K ? TensorType::kQ5_0 : TensorType::kQ8_0;
  return fits(smaller_block) ? smaller_block : TensorType::kF16;
}

}  // namespace quire::test_support
