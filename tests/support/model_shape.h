// What a made-up model looks like: the metadata and the tensors of a llama or gemma3 model of given sizes, under the names and with
// the keys that converted models of these architectures have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/gguf_writer.h"

namespace quire::test_support {

struct ModelShape {
  std::string architecture;  // "llama" or "gemma3"
  std::string name;          // general.name
  int64_t layers = 0;
  int64_t embedding = 0;  // width of a token's vector
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t feed_forward = 0;
  int64_t context = 0;
  float rope_base = 10000.0f;
  float rms_epsilon = 1e-5f;
  bool tied_output = true;  // no output.weight: the token embedding serves for both
  // llama: frequency factors as Llama 3.1 and later have them (rope_freqs.weight, head_dim / 2 values), none when empty.
  std::vector<float> rope_factors = {};
  // Linear RoPE scaling (rope.scaling.type and .factor), none when absent.
  std::optional<float> linear_rope_factor = {};
  // gemma3: positions that five of six layers see.
  int64_t sliding_window = 0;
};

// What a tensor is for, which decides its type and its random values.
enum class TensorRole {
  kNorm,         // f32, near 1
  kRopeFactors,  // f32, given
  kMatrix,       // the layers' matrices
  kEmbedding,    // token_embd.weight
  kOutput,       // output.weight
};

struct TensorPlan {
  std::string name;
  TensorRole role;
  std::vector<uint64_t> dims;  // innermost first
};

// Shapes of real models by the names that quire-make-model takes ("llama-3-8b", "smollm2-135m", ...), all in one list.
[[nodiscard]] const std::vector<std::string>& known_shape_names();
[[nodiscard]] std::optional<ModelShape> known_shape(std::string_view name);

// The frequency factors of Llama 3.1 and later for that head width and base (as the models' configurations define them: wavelengths
// up to 8192 / 4 keep their frequency, those beyond 8192 / 1 are stretched by `factor`, those between in a smooth mix).
[[nodiscard]] std::vector<float> llama3_rope_factors(int64_t head_dim, double base, double factor);

// general.* and the architecture's keys. `file_type` is general.file_type (see file_type_of), `vocabulary` the number of tokens.
void add_architecture(GgufWriter& writer, const ModelShape& shape, int64_t vocabulary, uint32_t file_type);

// The number that general.file_type has for files that are mostly of this type.
[[nodiscard]] uint32_t file_type_of(gguf::TensorType type);

// All tensors in the order in which converters write them.
[[nodiscard]] std::vector<TensorPlan> plan_tensors(const ModelShape& shape, int64_t vocabulary);

// `wanted`, or where its blocks do not divide the rows the type that quantizers fall back to: Q4_K to Q5_0, Q5_K and Q6_K to Q8_0,
// blocks of 32 to F16.
[[nodiscard]] gguf::TensorType fitting_type(gguf::TensorType wanted, int64_t row_elements);

}  // namespace quire::test_support
