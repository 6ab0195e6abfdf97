// The forward pass against the formulas in plain double precision, for the variants that the architectures' tables allow: what the
// kernels' own tests cannot see is how their results are wired together.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "gguf/dequantize.h"
#include "model/forward.h"
#include "model/kv_layout.h"
#include "tests/support/tiny_models.h"

namespace quire::model {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// A model file of f32 tensors, computed token by token as its papers say.
class NaiveModel {
 public:
  NaiveModel(const gguf::File& file, const ModelConfig& config) : file_(file), c_(config) {}

  // Logits of every position.
  Rows logits(std::span<const TokenId> tokens) {
    Rows x;
    for (const TokenId token : tokens) {
      x.push_back(weights("token_embd")[static_cast<size_t>(token)]);
      if (gemma())
        for (double& v : x.back()) v *= std::sqrt(static_cast<double>(c_.embedding));
    }
    for (size_t layer = 0; layer < c_.layers.size(); ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      add(x, normed_if(gemma(), attention(each_normed(x, "attn_norm"), layer), "post_attention_norm"));
      add(x, normed_if(gemma(), feed_forward(each_normed(x, "ffn_norm")), "post_ffw_norm"));
    }
    prefix_.clear();
    return product(each_normed(x, "output_norm"), c_.tied_output ? "token_embd" : "output");
  }

 private:
  [[nodiscard]] bool gemma() const { return c_.architecture == "gemma3"; }

  Rows weights(const std::string& name) const {
    const gguf::TensorInfo tensor = file_.get_tensor(prefix_ + name + ".weight").value();
    Rows rows;
    std::vector<float> row(static_cast<size_t>(tensor.dims[0]));
    for (int64_t i = 0; i < tensor.rows(); ++i) {
      gguf::dequantize_row(tensor.type, tensor.row(i), row);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  }

  Rows product(const Rows& x, const std::string& name) const {
    const Rows w = weights(name);
    Rows out;
    for (const Row& row : x) {
      out.emplace_back();
      for (const Row& output : w) {
        double sum = 0;
        for (size_t k = 0; k < row.size(); ++k) sum += row[k] * output[k];
        out.back().push_back(sum);
      }
    }
    return out;
  }

  Row normed(const Row& x, const Row& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Row out;
    for (size_t i = 0; i < x.size(); ++i) {
      out.push_back(x[i] / std::sqrt(squares / static_cast<double>(x.size()) + c_.rms_epsilon) * weight[i]);
    }
    return out;
  }

  Rows each_normed(const Rows& x, const std::string& name) const {
    const Row weight = weights(name)[0];
    Rows out;
    for (const Row& row : x) out.push_back(normed(row, weight));
    return out;
  }
  Rows normed_if(bool condition, const Rows& x, const std::string& name) const { return condition ? each_normed(x, name) : x; }

  static void add(Rows& x, const Rows& y) {
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
  }

  // Rotates the heads of one row for its position.
  void rotate(Row& row, size_t position, size_t layer) const {
    const RopeConfig& rope = c_.layers[layer].rope;
    const auto dim = static_cast<size_t>(c_.head_dim);
    const auto dims = static_cast<size_t>(c_.rope_dims);
    const gguf::TensorInfo* factors = file_.find_tensor("rope_freqs.weight");
    for (size_t head = 0; head < row.size() / dim; ++head) {
      for (size_t i = 0; i < dims / 2; ++i) {
        float factor = 1;
        if (factors != nullptr) std::memcpy(&factor, factors->data.data() + 4 * i, 4);
        const double angle = static_cast<double>(position) / rope.position_divisor / static_cast<double>(factor) *
                             std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
        double& a = row[head * dim + (gemma() ? i : 2 * i)];
        double& b = row[head * dim + (gemma() ? i + dims / 2 : 2 * i + 1)];
        const double rotated = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = rotated;
      }
    }
  }

  Rows heads_of(const Rows& x, const std::string& name, const std::string& norm, size_t layer) const {
    Rows rows = product(x, name);
    const auto dim = static_cast<std::ptrdiff_t>(c_.head_dim);
    for (size_t position = 0; position < rows.size(); ++position) {
      Row& row = rows[position];
      for (auto head = row.begin(); gemma() && head != row.end(); head += dim) {
        const Row out = normed(Row(head, head + dim), weights(norm)[0]);
        std::copy(out.begin(), out.end(), head);
      }
      rotate(row, position, layer);
    }
    return rows;
  }

  Rows attention(const Rows& x, size_t layer) const {
    const Rows q = heads_of(x, "attn_q", "attn_q_norm", layer);
    const Rows k = heads_of(x, "attn_k", "attn_k_norm", layer);
    const Rows v = product(x, "attn_v");
    const auto dim = static_cast<size_t>(c_.head_dim);
    const auto window = static_cast<size_t>(c_.layers[layer].window);
    Rows out(x.size());
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t head = 0; head < static_cast<size_t>(c_.heads); ++head) {
        const size_t kv = head * static_cast<size_t>(c_.kv_heads) / static_cast<size_t>(c_.heads) * dim;
        Row sums(dim, 0.0);
        double total = 0;
        for (size_t s = window != 0 && t + 1 > window ? t + 1 - window : 0; s <= t; ++s) {
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += q[t][head * dim + d] * k[s][kv + d];
          const double weight = std::exp(score * static_cast<double>(c_.attention_scale));
          total += weight;
          for (size_t d = 0; d < dim; ++d) sums[d] += weight * v[s][kv + d];
        }
        for (const double sum : sums) out[t].push_back(sum / total);
      }
    }
    return product(out, "attn_output");
  }

  Rows feed_forward(const Rows& x) const {
    Rows gate = product(x, "ffn_gate");
    const Rows up = product(x, "ffn_up");
    for (size_t i = 0; i < gate.size(); ++i) {
      for (size_t j = 0; j < gate[i].size(); ++j) {
        const double g = gate[i][j];
        const double gelu = 0.5 * g * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)));
        gate[i][j] = (gemma() ? gelu : g / (1 + std::exp(-g))) * up[i][j];
      }
    }
    return product(gate, "ffn_down");
  }

  const gguf::File& file_;
  const ModelConfig& c_;
  std::string prefix_;
};

// The logits of all positions by the reference kernels, f32 records, in two passes.
std::vector<float> computed_logits(const ModelConfig& config, const Weights& weights, std::span<const TokenId> tokens) {
  port::ThreadTeam team(2);
  const auto forward = Forward::create(config, weights, *kernels::kernel_set(kernels::Isa::kReference), kernels::KvFormat::kF32,
                                       static_cast<int>(tokens.size()), team)
                           .value();
  const size_t record = kernels::tile_record_bytes(attention_shape(config, 0, kernels::KvFormat::kF32));
  const auto tiles = static_cast<size_t>(tiles_for(TokenCount(static_cast<int64_t>(tokens.size()))).value);
  auto memory = port::AnonymousMemory::allocate(Bytes(static_cast<int64_t>(record * tiles * config.layers.size()))).value();
  std::vector<kernels::KvPiece> pieces;
  std::vector<std::span<const kernels::KvPiece>> layers;
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    pieces.push_back({.base = memory.bytes().data() + layer * tiles * record,
                      .tile_stride = static_cast<int64_t>(record),
                      .first_tile = 0,
                      .tiles = static_cast<int64_t>(tiles)});
  }
  for (const kernels::KvPiece& piece : pieces) layers.emplace_back(&piece, 1);
  std::vector<float> all;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 40}, {40, tokens.size()}}) {
    const SequenceChunk chunk{
        .tokens = tokens.subspan(begin, end - begin), .first_position = TokenPos(static_cast<int64_t>(begin)), .layers = layers};
    forward->run(std::span(&chunk, 1));
    for (int row = 0; row < static_cast<int>(end - begin); ++row) {
      const std::span<const float> logits = forward->logits(std::span(&row, 1));
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }
  return all;
}

void expect_as_the_formulas(const std::vector<std::byte>& bytes) {
  const std::string path = testing::TempDir() + "naive_model_" + std::to_string(getpid()) + ".gguf";
  ASSERT_TRUE(port::write_file_atomically(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).ok());
  const port::MappedFile mapping = port::MappedFile::open(path).value();
  const gguf::File file = gguf::File::parse(mapping.bytes()).value();
  const Result<ModelConfig> config = read_config(file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  port::ThreadTeam team(1);
  const auto weights = Weights::load(file, mapping, *config, team, {}).value();
  std::vector<TokenId> tokens;
  for (int i = 0; i < 75; ++i) tokens.push_back((i * 31 + i * i) % config->vocabulary);

  const Rows exact = NaiveModel(file, *config).logits(tokens);
  const std::vector<float> computed = computed_logits(*config, *weights, tokens);
  double largest = 0;
  double error = 0;
  for (size_t t = 0; t < exact.size(); ++t) {
    for (size_t i = 0; i < exact[t].size(); ++i) {
      largest = std::max(largest, std::abs(exact[t][i]));
      error = std::max(error, std::abs(exact[t][i] - static_cast<double>(computed[t * exact[t].size() + i])));
    }
  }
  EXPECT_LT(error, 2e-5 * largest);
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

TEST(NaiveForward, LlamaWithFrequencyFactorsAndAnOutputMatrixOfItsOwn) {
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.shape.rope_factors = test_support::llama3_rope_factors(options.shape.head_dim, options.shape.rope_base, 8);
  options.shape.tied_output = false;
  expect_as_the_formulas(test_support::tiny_llama_model(options));
}

TEST(NaiveForward, LlamaThatRotatesHalfOfEachHeadAndScalesPositions) {
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.shape.linear_rope_factor = 4.0f;
  options.change = [](test_support::GgufWriter& writer) {
    writer.remove("llama.rope.dimension_count");
    writer.add("llama.rope.dimension_count", uint32_t{32});
  };
  expect_as_the_formulas(test_support::tiny_llama_model(options));
}

TEST(NaiveForward, LlamaOfWidthsThatFillNoVector) {
  test_support::TinyModelOptions options = test_support::tiny_llama_options();
  options.shape.embedding = 75;
  options.shape.feed_forward = 50;
  options.shape.heads = 3;
  options.shape.head_dim = 48;
  expect_as_the_formulas(test_support::tiny_llama_model(options));
}

TEST(NaiveForward, GemmaWithWindowsAndScaledPositions) {
  test_support::TinyModelOptions options = test_support::tiny_gemma3_options();
  options.shape.linear_rope_factor = 8.0f;
  expect_as_the_formulas(test_support::tiny_gemma3_model(options));
}

}  // namespace
}  // namespace quire::model
