#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

namespace quire::model {
namespace {

using kernels::PackedMatrix;
using kernels::WeightFormat;

// Packed tensors begin on cache lines.
constexpr int64_t kAlignment = 64;

WeightFormat format_of(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::kF32: return WeightFormat::kF32;
    case gguf::TensorType::kF16: return WeightFormat::kF16;
    case gguf::TensorType::kBF16: return WeightFormat::kBF16;
    case gguf::TensorType::kQ4_0: return WeightFormat::kQ4_0;
    case gguf::TensorType::kQ4_1: return WeightFormat::kQ4_1;
    case gguf::TensorType::kQ5_0: return WeightFormat::kQ5_0;
    case gguf::TensorType::kQ8_0: return WeightFormat::kQ8_0;
    case gguf::TensorType::kQ4_K: return WeightFormat::kQ4_K;
    case gguf::TensorType::kQ5_K: return WeightFormat::kQ5_K;
    case gguf::TensorType::kQ6_K: return WeightFormat::kQ6_K;
  }
  QUIRE_CHECK(false, "a tensor type that the reader lets through");
  return WeightFormat::kF32;
}

std::string shape_of(const gguf::TensorInfo& tensor) {
  std::string text = fmt::format("{}", tensor.dims[0]);
  for (int i = 1; i < tensor.dimensions; ++i) text += fmt::format(" x {}", tensor.dims[static_cast<size_t>(i)]);
  return text;
}

}  // namespace

// Which tensor goes where: made from the file and the configuration, then carried out by pack().
class WeightPlan {
 public:
  WeightPlan(const gguf::File& file, const ModelConfig& config) : file_(file), config_(config) {}

  // Lays out all tensors of the model; the views in `weights` get their shapes, pack() gives them their memory.
  Status lay_out(Weights& weights) {
    const ModelConfig& c = config_;
    QUIRE_TRY_STATUS(matrix("token_embd.weight", c.vocabulary, c.embedding, weights.embedding));
    QUIRE_TRY_STATUS(vector("output_norm.weight", c.embedding, weights.output_norm));
    if (!c.tied_output) QUIRE_TRY_STATUS(matrix("output.weight", c.vocabulary, c.embedding, weights.output));
    if (c.rope_factors) QUIRE_TRY_STATUS(vector("rope_freqs.weight", c.rope_dims / 2, weights.rope_factors));
    weights.layers.resize(c.layers.size());
    for (size_t i = 0; i < c.layers.size(); ++i) QUIRE_TRY_STATUS(lay_out_layer(fmt::format("blk.{}.", i), weights.layers[i]));
    return refuse_unknown_tensors();
  }

  [[nodiscard]] Bytes bytes() const { return Bytes(bytes_); }

  Status pack(Weights& weights, const port::MappedFile& mapping, port::ThreadTeam& team, const LoadProgress& progress) const {
    QUIRE_TRY(weights.memory_, port::AnonymousMemory::allocate(Bytes(bytes_)));
    weights.bytes_ = Bytes(bytes_);
    Bytes total;
    for (const Piece& piece : pieces_) total += Bytes(static_cast<int64_t>(piece.tensor.data.size()));
    Bytes done;
    for (const Piece& piece : pieces_) {
      std::byte* place = weights.memory_.bytes().data() + piece.offset;
      piece.matrix != nullptr ? pack_matrix(piece, place, team) : copy_vector(piece, place);
      mapping.drop(static_cast<size_t>(piece.tensor.offset), piece.tensor.data.size());
      done += Bytes(static_cast<int64_t>(piece.tensor.data.size()));
      if (progress) progress(done, total);
    }
    if (config_.tied_output) weights.output = weights.embedding;
    return {};
  }

 private:
  // One tensor, and the view that will show its packed form.
  struct Piece {
    gguf::TensorInfo tensor;
    int64_t offset;
    PackedMatrix* matrix;  // or
    Vector* vector;
  };

  Status lay_out_layer(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = config_;
    const int q_width = c.heads * c.head_dim;
    const int kv_width = c.kv_heads * c.head_dim;
    QUIRE_TRY_STATUS(vector(prefix + "attn_norm.weight", c.embedding, layer.attention_norm));
    QUIRE_TRY_STATUS(matrix(prefix + "attn_q.weight", q_width, c.embedding, layer.q));
    QUIRE_TRY_STATUS(matrix(prefix + "attn_k.weight", kv_width, c.embedding, layer.k));
    QUIRE_TRY_STATUS(matrix(prefix + "attn_v.weight", kv_width, c.embedding, layer.v));
    QUIRE_TRY_STATUS(matrix(prefix + "attn_output.weight", c.embedding, q_width, layer.attention_output));
    if (c.qk_norm) {
      QUIRE_TRY_STATUS(vector(prefix + "attn_q_norm.weight", c.head_dim, layer.q_norm));
      QUIRE_TRY_STATUS(vector(prefix + "attn_k_norm.weight", c.head_dim, layer.k_norm));
    }
    QUIRE_TRY_STATUS(vector(prefix + "ffn_norm.weight", c.embedding, layer.feed_forward_norm));
    QUIRE_TRY_STATUS(matrix(prefix + "ffn_gate.weight", c.feed_forward, c.embedding, layer.gate));
    QUIRE_TRY_STATUS(matrix(prefix + "ffn_up.weight", c.feed_forward, c.embedding, layer.up));
    QUIRE_TRY_STATUS(matrix(prefix + "ffn_down.weight", c.embedding, c.feed_forward, layer.down));
    if (c.post_norms) {
      QUIRE_TRY_STATUS(vector(prefix + "post_attention_norm.weight", c.embedding, layer.post_attention_norm));
      QUIRE_TRY_STATUS(vector(prefix + "post_ffw_norm.weight", c.embedding, layer.post_feed_forward_norm));
    }
    return {};
  }

  Result<gguf::TensorInfo> take(const std::string& name, int rows, int row_length) {
    QUIRE_TRY(gguf::TensorInfo tensor, file_.get_tensor(name));
    if (tensor.dims[0] != row_length || tensor.rows() != rows) {
      return make_error(ErrorCode::kCorrupt, fmt::format("the tensor {} is {}; the metadata asks for {} x {}", name,
                                                         shape_of(tensor), row_length, rows));
    }
    known_.insert(tensor.name);
    return tensor;
  }

  int64_t place(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += round_up(bytes, kAlignment);
    return offset;
  }

  Status matrix(const std::string& name, int outputs, int inputs, PackedMatrix& view) {
    QUIRE_TRY(const gguf::TensorInfo tensor, take(name, outputs, inputs));
    const WeightFormat format = format_of(tensor.type);
    view = {.format = format, .outputs = outputs, .inputs = inputs, .data = nullptr};
    const auto bytes = static_cast<int64_t>(kernels::packed_bytes(format, outputs, inputs));
    pieces_.push_back({.tensor = tensor, .offset = place(bytes), .matrix = &view, .vector = nullptr});
    return {};
  }

  Status vector(const std::string& name, int length, Vector& view) {
    QUIRE_TRY(const gguf::TensorInfo tensor, take(name, 1, length));
    if (tensor.type != gguf::TensorType::kF32) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("the tensor {} is {}; Quire reads norms and factors as F32", name, to_string(tensor.type)));
    }
    pieces_.push_back({.tensor = tensor, .offset = place(int64_t{length} * 4), .matrix = nullptr, .vector = &view});
    return {};
  }

  Status refuse_unknown_tensors() const {
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
      if (known_.contains(tensor.name)) continue;
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("the tensor {} is not one that Quire knows for {} models, and running the "
                                    "model without it could give wrong answers",
                                    tensor.name, config_.architecture));
    }
    return {};
  }

  static void pack_matrix(const Piece& piece, std::byte* place, port::ThreadTeam& team) {
    PackedMatrix& view = *piece.matrix;
    view.data = place;
    team.run([&](port::TeamMember& me) {
      const int begin = static_cast<int>(int64_t{view.groups()} * me.index / me.count);
      const int end = static_cast<int>(int64_t{view.groups()} * (me.index + 1) / me.count);
      kernels::pack_groups(view.format, piece.tensor.data.data(), view.outputs, view.inputs, begin, end, place);
    });
  }

  static void copy_vector(const Piece& piece, std::byte* place) {
    std::memcpy(place, piece.tensor.data.data(), piece.tensor.data.size());
    *piece.vector = Vector(reinterpret_cast<const float*>(place), piece.tensor.data.size() / sizeof(float));
  }

  const gguf::File& file_;
  const ModelConfig& config_;
  std::vector<Piece> pieces_;
  std::unordered_set<std::string_view> known_;
  int64_t bytes_ = 0;
};

Result<std::unique_ptr<const Weights>> Weights::load(const gguf::File& file, const port::MappedFile& mapping,
                                                     const ModelConfig& config, port::ThreadTeam& team,
                                                     const LoadProgress& progress) {
  std::unique_ptr<Weights> weights(new Weights());
  WeightPlan plan(file, config);
  QUIRE_TRY_STATUS(plan.lay_out(*weights));
  QUIRE_TRY_STATUS(plan.pack(*weights, mapping, team, progress));
  return std::unique_ptr<const Weights>(std::move(weights));
}

Result<Bytes> Weights::check(const gguf::File& file, const ModelConfig& config) {
  Weights weights;
  WeightPlan plan(file, config);
  QUIRE_TRY_STATUS(plan.lay_out(weights));
  return plan.bytes();
}

}  // namespace quire::model
