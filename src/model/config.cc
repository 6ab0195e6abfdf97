#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/architecture.h"

namespace quire::model {
namespace {

constexpr int64_t kMaxDimension = 1 << 20;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 24;

// Reads "<architecture>.<name>" keys.
class Keys {
 public:
  Keys(const gguf::File& file, std::string_view architecture) : file_(file), prefix_(std::string(architecture) + ".") {}

  [[nodiscard]] std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  [[nodiscard]] bool has(std::string_view name) const { return file_.find(full(name)) != nullptr; }

  [[nodiscard]] Result<int64_t> integer(std::string_view name, int64_t low, int64_t high) const {
    QUIRE_TRY(const int64_t value, file_.get_i64(full(name)));
    if (value < low || value > high) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} is {}; Quire runs {} to {}", full(name), value, low, high));
    }
    return value;
  }

  [[nodiscard]] Result<int64_t> integer_or(std::string_view name, int64_t low, int64_t high, int64_t fallback) const {
    if (!has(name)) return fallback;
    return integer(name, low, high);
  }

  [[nodiscard]] Result<double> positive(std::string_view name) const {
    QUIRE_TRY(const double value, file_.get_f64(full(name)));
    if (!(value > 0) || !std::isfinite(value)) {
      return make_error(ErrorCode::kUnsupported, fmt::format("{} is {}; expected a positive number", full(name), value));
    }
    return value;
  }

  [[nodiscard]] Result<double> positive_or(std::string_view name, double fallback) const {
    if (!has(name)) return fallback;
    return positive(name);
  }

  // A count that may be given for each layer; Quire runs models in which all layers have the same.
  [[nodiscard]] Result<int64_t> same_for_all_layers(std::string_view name, int64_t low, int64_t high) const {
    const gguf::Value* value = file_.find(full(name));
    if (value == nullptr || value->type() != gguf::ValueType::kArray) return integer(name, low, high);
    QUIRE_TRY(const std::vector<int64_t> list, file_.get_integers(full(name)));
    const bool same = !list.empty() && std::all_of(list.begin(), list.end(), [&](int64_t n) { return n == list[0]; });
    if (!same || list[0] < low || list[0] > high) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("{} differs between layers; Quire runs models where it is one number from "
                                    "{} to {}",
                                    full(name), low, high));
    }
    return list[0];
  }

 private:
  const gguf::File& file_;
  std::string prefix_;
};

bool is_off(const gguf::Value& value) {
  switch (value.type()) {
    case gguf::ValueType::kArray: return value.array().value().count() == 0;
    case gguf::ValueType::kString: return value.string().value().empty();
    case gguf::ValueType::kBool: return !value.boolean().value();
    case gguf::ValueType::kFloat32:
    case gguf::ValueType::kFloat64: return value.f64().value() == 0;
    default: {
      const Result<int64_t> number = value.i64();
      return number.ok() && *number == 0;
    }
  }
}

// Refuses every key of the architecture that its table does not cover.
Status check_keys(const gguf::File& file, const Architecture& architecture) {
  const std::string prefix = std::string(architecture.name) + ".";
  for (const gguf::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string_view name = entry.key.substr(prefix.size());
    const KeyRule* rule = architecture.rule_for(name);
    if (rule == nullptr) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("the key '{}' is not one that Quire knows for {} models, and running the "
                                    "model without it could give wrong answers",
                                    entry.key, architecture.name));
    }
    if (rule->use == KeyUse::kMustBeOff && !is_off(entry.value)) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("the key '{}' asks for something that Quire does not compute yet", entry.key));
    }
  }
  return {};
}

Result<std::string> read_name(const gguf::File& file) {
  QUIRE_TRY(const std::string_view name, file.get_string_or("general.name", ""));
  QUIRE_TRY(const std::string_view type, file.get_string_or("general.type", "model"));
  if (type != "model") {
    return make_error(ErrorCode::kUnsupported, fmt::format("general.type is '{}'; Quire runs files of type 'model'", type));
  }
  return std::string(name);
}

// Linear scaling: positions are divided by a factor. Other kinds are refused.
Result<double> read_position_divisor(const gguf::File& file, const Keys& keys) {
  QUIRE_TRY(const std::string_view type, file.get_string_or(keys.full("rope.scaling.type"), "linear"));
  if (type == "none") return 1.0;
  if (type != "linear") {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("{} is '{}'; Quire runs none and linear (and the frequency factors of Llama 3, "
                                  "which are a tensor)",
                                  keys.full("rope.scaling.type"), type));
  }
  QUIRE_TRY(const double old_name, keys.positive_or("rope.scale_linear", 1));
  return keys.positive_or("rope.scaling.factor", old_name);
}

Status read_widths(const Keys& keys, ModelConfig& config) {
  QUIRE_TRY(const int64_t embedding, keys.integer("embedding_length", 1, kMaxDimension));
  QUIRE_TRY(const int64_t feed_forward, keys.same_for_all_layers("feed_forward_length", 1, kMaxDimension));
  QUIRE_TRY(const int64_t heads, keys.same_for_all_layers("attention.head_count", 1, 4096));
  int64_t kv_heads = heads;
  if (keys.has("attention.head_count_kv")) {
    QUIRE_TRY(kv_heads, keys.same_for_all_layers("attention.head_count_kv", 1, heads));
  }
  QUIRE_TRY(const int64_t key_length, keys.integer_or("attention.key_length", 1, kMaxDimension, embedding / heads));
  QUIRE_TRY(const int64_t value_length, keys.integer_or("attention.value_length", 1, kMaxDimension, key_length));
  if (heads % kv_heads != 0) {
    return make_error(ErrorCode::kUnsupported, fmt::format("{} query heads do not divide among {} KV heads", heads, kv_heads));
  }
  if (key_length != value_length || key_length < 16 || key_length % 16 != 0 || key_length > 256) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("heads have keys of {} and values of {} numbers; Quire runs equal widths that are "
                                  "a multiple of 16, at most 256",
                                  key_length, value_length));
  }
  QUIRE_TRY(const int64_t rope_dims, keys.integer_or("rope.dimension_count", 2, key_length, key_length));
  if (rope_dims % 2 != 0)
    return make_error(ErrorCode::kUnsupported, keys.full("rope.dimension_count") + " is odd; pairs are rotated");
  config.embedding = static_cast<int>(embedding);
  config.feed_forward = static_cast<int>(feed_forward);
  config.heads = static_cast<int>(heads);
  config.kv_heads = static_cast<int>(kv_heads);
  config.head_dim = static_cast<int>(key_length);
  config.rope_dims = static_cast<int>(rope_dims);
  return {};
}

Status read_vocabulary(const gguf::File& file, const Keys& keys, ModelConfig& config) {
  QUIRE_TRY(const gguf::TensorInfo embedding, file.get_tensor("token_embd.weight"));
  QUIRE_TRY(const int64_t declared, keys.integer_or("vocab_size", 1, INT32_MAX, embedding.dims[1]));
  if (embedding.dims[1] > INT32_MAX || declared != embedding.dims[1]) {
    return make_error(ErrorCode::kCorrupt, fmt::format("{} is {}, but token_embd.weight has {} rows", keys.full("vocab_size"),
                                                       declared, embedding.dims[1]));
  }
  config.vocabulary = static_cast<int>(declared);
  config.tied_output = file.find_tensor("output.weight") == nullptr;
  return {};
}

}  // namespace

Result<ModelConfig> read_config(const gguf::File& file) {
  QUIRE_TRY(const std::string_view architecture_name, file.get_string("general.architecture"));
  QUIRE_TRY(const Architecture* architecture, find_architecture(architecture_name));
  QUIRE_TRY_STATUS(check_keys(file, *architecture));
  const Keys keys(file, architecture->name);

  ModelConfig config;
  config.architecture = architecture->name;
  QUIRE_TRY(config.name, read_name(file));
  QUIRE_TRY(const int64_t layers, keys.integer("block_count", 1, kMaxLayers));
  QUIRE_TRY(config.context_length, keys.integer("context_length", 1, kMaxContext));
  QUIRE_TRY_STATUS(read_widths(keys, config));
  QUIRE_TRY(const double epsilon, keys.positive("attention.layer_norm_rms_epsilon"));
  QUIRE_TRY(const double base, keys.positive_or("rope.freq_base", architecture->default_rope_base));
  QUIRE_TRY(const double divisor, read_position_divisor(file, keys));
  QUIRE_TRY_STATUS(read_vocabulary(file, keys, config));

  config.rms_epsilon = static_cast<float>(epsilon);
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.rope_pairs = architecture->rope_pairs;
  config.gate = architecture->gate;
  config.qk_norm = architecture->qk_norm;
  config.post_norms = architecture->post_norms;
  config.rope_factors = architecture->frequency_factors && file.find_tensor("rope_freqs.weight") != nullptr;
  config.layers.assign(static_cast<size_t>(layers), LayerConfig{.window = 0, .rope = {.base = base, .position_divisor = divisor}});
  QUIRE_TRY_STATUS(architecture->specialize(file, config));
  return config;
}

}  // namespace quire::model
