#include "model/forward.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/kv_layout.h"

namespace quire::model {
namespace {

using kernels::Activations;
using kernels::PackedMatrix;
using kernels::Store;
using port::TeamMember;

constexpr int64_t kRowAlignment = 16;  // floats: rows begin on cache lines
constexpr int kQuantizedBlock = 32;    // inputs that are quantized together

// Rows of logits: enough that many decoding sequences read the output matrix once, and bounded where vocabularies are large.
constexpr int64_t kLogitBytes = int64_t{64} << 20;
constexpr int64_t kMaxLogitRows = 256;

int logit_rows(int max_rows, int vocabulary) {
  const int64_t fit = kLogitBytes / (int64_t{vocabulary} * int64_t{sizeof(float)}) / kernels::kRowTile * kernels::kRowTile;
  return static_cast<int>(std::min<int64_t>(max_rows, std::clamp<int64_t>(fit, kernels::kRowTile, kMaxLogitRows)));
}

// The part [begin, end) of `count` items that a member does.
struct Share {
  int begin;
  int end;
};

Share share(int64_t count, const TeamMember& me) {
  return {.begin = static_cast<int>(count * me.index / me.count), .end = static_cast<int>(count * (me.index + 1) / me.count)};
}

// A product of a step: out[row][output] = weights * input row.
struct Product {
  const PackedMatrix& weights;
  float* out;
  int64_t out_stride;
  Store store = Store::kSet;
};

}  // namespace

// One walk of one member through the layers.
class Pass {
 public:
  Pass(Forward& forward, TeamMember& me) : f_(forward), c_(forward.config_), k_(forward.kernels_), me_(me) {}

  void run() {
    embed();
    for (size_t layer = 0; layer < c_.layers.size(); ++layer) {
      attention_block(layer);
      feed_forward_block(f_.weights_.layers[layer]);
    }
  }

  // Logits of some rows: the final norm and the output product.
  void logits(std::span<const int> rows) {
    const Activations input = prepare(static_cast<int>(rows.size()), c_.embedding, [&](int i, float* out) {
      const float* row = f_.residual_.row(rows[static_cast<size_t>(i)]);
      k_.elementwise.rms_norm(row, f_.weights_.output_norm.data(), c_.embedding, c_.rms_epsilon, out);
    });
    multiply(input, {{f_.weights_.output, f_.logits_.data, f_.logits_.stride}});
  }

 private:
  // Token embeddings into the residual stream, and the angles of all positions.
  void embed() {
    const Share mine = share(f_.rows_, me_);
    int row = 0;
    for (const SequenceChunk& chunk : f_.chunks_) {
      for (size_t i = 0; i < chunk.tokens.size(); ++i, ++row) {
        if (row < mine.begin || row >= mine.end) continue;
        kernels::unpack_row(f_.weights_.embedding, chunk.tokens[i], f_.residual_.row(row));
        if (c_.embedding_scale != 1) k_.elementwise.scale(f_.residual_.row(row), c_.embedding_scale, c_.embedding);
        const TokenPos position = chunk.first_position + TokenPos(static_cast<int64_t>(i));
        for (size_t r = 0; r < f_.ropes_.size(); ++r) f_.ropes_[r].angles(position, f_.cos_[r].row(row), f_.sin_[r].row(row));
      }
    }
    me_.barrier();
  }

  void attention_block(size_t layer) {
    const LayerWeights& w = f_.weights_.layers[layer];
    const Activations input = prepare_normed(w.attention_norm);
    multiply(input, {{w.q, f_.q_.data, f_.q_.stride}, {w.k, f_.k_.data, f_.k_.stride}, {w.v, f_.v_.data, f_.v_.stride}});
    me_.barrier();
    rotate_and_store(layer);
    me_.barrier();
    kernels::attend(k_, f_.plans_[f_.plan_of_layer_[layer]], f_.attention_, layer, f_.attention_scratch_, me_);
    const Activations attended = prepare_rows(f_.attended_, c_.heads * c_.head_dim);
    add_to_residual(attended, w.attention_output, w.post_attention_norm);
  }

  void feed_forward_block(const LayerWeights& w) {
    const Activations input = prepare_normed(w.feed_forward_norm);
    multiply(input, {{w.gate, f_.gate_.data, f_.gate_.stride}, {w.up, f_.up_.data, f_.up_.stride}});
    me_.barrier();
    const Activations hidden = prepare(f_.rows_, c_.feed_forward, [&](int row, float* out) {
      k_.elementwise.gated(c_.gate, f_.gate_.row(row), f_.up_.row(row), c_.feed_forward, out);
    });
    add_to_residual(hidden, w.down, w.post_feed_forward_norm);
  }

  // residual += weights * input, through the block's post norm where the model has one. Ends with a barrier.
  void add_to_residual(const Activations& input, const PackedMatrix& weights, Vector post_norm) {
    if (!c_.post_norms) {
      multiply(input, {{weights, f_.residual_.data, f_.residual_.stride, Store::kAdd}});
      me_.barrier();
      return;
    }
    multiply(input, {{weights, f_.block_output_.data, f_.block_output_.stride}});
    me_.barrier();
    const Share mine = share(f_.rows_, me_);
    for (int row = mine.begin; row < mine.end; ++row) {
      float* output = f_.block_output_.row(row);
      k_.elementwise.rms_norm(output, post_norm.data(), c_.embedding, c_.rms_epsilon, output);
      k_.elementwise.add(f_.residual_.row(row), output, c_.embedding, f_.residual_.row(row));
    }
    me_.barrier();
  }

  // Norms of query and key heads where the model has them, RoPE, and the keys and values into their tile records.
  void rotate_and_store(size_t layer) {
    const Share mine = share(static_cast<int64_t>(f_.blocks_.size()) * c_.kv_heads, me_);
    for (int item = mine.begin; item < mine.end; ++item) {
      const Forward::RowBlock& block = f_.blocks_[static_cast<size_t>(item / c_.kv_heads)];
      const int kv_head = item % c_.kv_heads;
      for (int row = block.first_row; row < block.first_row + block.rows; ++row) rotate_row(layer, row, kv_head);
      const int64_t offset = int64_t{kv_head} * c_.head_dim;
      k_.attention.store_kv(f_.shapes_[layer], record_of(layer, block), kv_head,
                            static_cast<int>(block.position.value % kTileTokens), block.rows, f_.k_.row(block.first_row) + offset,
                            f_.v_.row(block.first_row) + offset, f_.k_.stride);
    }
  }

  void rotate_row(size_t layer, int row, int kv_head) {
    const LayerWeights& w = f_.weights_.layers[layer];
    const int group = c_.heads / c_.kv_heads;
    float* queries = f_.q_.row(row) + int64_t{kv_head} * group * c_.head_dim;
    for (int head = 0; head < group; ++head) rotate_head(layer, row, queries + int64_t{head} * c_.head_dim, w.q_norm);
    rotate_head(layer, row, f_.k_.row(row) + int64_t{kv_head} * c_.head_dim, w.k_norm);
  }

  void rotate_head(size_t layer, int row, float* head, Vector norm) {
    if (c_.qk_norm) k_.elementwise.rms_norm(head, norm.data(), c_.head_dim, c_.rms_epsilon, head);
    const size_t rope = f_.rope_of_layer_[layer];
    k_.elementwise.rope(head, f_.cos_[rope].row(row), f_.sin_[rope].row(row), c_.rope_dims / 2, c_.rope_pairs);
  }

  std::byte* record_of(size_t layer, const Forward::RowBlock& block) const {
    const int64_t tile = block.position.value / kTileTokens;
    for (const kernels::KvPiece& piece : f_.chunks_[block.chunk].layers[layer]) {
      if (tile < piece.first_tile + piece.tiles) return piece.base + (tile - piece.first_tile) * piece.tile_stride;
    }
    QUIRE_CHECK(false, "the pieces of a chunk reach its last token");
    return nullptr;
  }

  Activations prepare_normed(Vector norm) {
    return prepare(f_.rows_, c_.embedding, [&](int row, float* out) {
      k_.elementwise.rms_norm(f_.residual_.row(row), norm.data(), c_.embedding, c_.rms_epsilon, out);
    });
  }

  // Makes the input of a product row by row and quantizes it. Few rows are made by every member for itself, which is cheaper than
  // waiting for each other; many are made together, by row tiles.
  template <typename MakeRow>
  Activations prepare(int rows, int inputs, const MakeRow& make_row) {
    const Preparation p = preparation(rows);
    const int last = std::min(rows, p.tiles.end * kernels::kRowTile);
    for (int row = p.tiles.begin * kernels::kRowTile; row < last; ++row) make_row(row, p.place.values + int64_t{row} * inputs);
    return quantize(p, {.values = p.place.values, .stride = inputs, .rows = rows, .inputs = inputs});
  }

  // The same for rows that are there already.
  Activations prepare_rows(const Forward::Rows& source, int inputs) {
    return quantize(preparation(f_.rows_), {.values = source.data, .stride = source.stride, .rows = f_.rows_, .inputs = inputs});
  }

  struct Preparation {
    const Forward::Prepared& place;
    Share tiles;
    bool together;
  };

  [[nodiscard]] Preparation preparation(int rows) const {
    const int tiles = static_cast<int>(ceil_div(rows, kernels::kRowTile));
    if (tiles > 1) return {.place = f_.shared_input_, .tiles = share(tiles, me_), .together = true};
    return {.place = f_.own_input_[static_cast<size_t>(me_.index)], .tiles = {.begin = 0, .end = 1}, .together = false};
  }

  Activations quantize(const Preparation& p, Activations rows) {
    // Widths that are no whole blocks occur with float weights alone.
    if (rows.inputs % kQuantizedBlock == 0) {
      k_.products.quantize(rows.values, rows.stride, rows.rows, rows.inputs, p.tiles.begin, p.tiles.end, p.place.quantized);
      rows.quantized = p.place.quantized;
    }
    if (p.together) me_.barrier();
    return rows;
  }

  // This member's share of several products with the same input, cut by the bytes that each reads.
  void multiply(const Activations& input, std::initializer_list<Product> products) {
    int64_t total = 0;
    for (const Product& p : products) total += int64_t{p.weights.groups()} * group_bytes(p.weights);
    const int64_t begin = total * me_.index / me_.count;
    const int64_t end = total * (me_.index + 1) / me_.count;
    int64_t start = 0;
    for (const Product& p : products) {
      const int64_t unit = group_bytes(p.weights);
      const int64_t groups = p.weights.groups();
      const int first = static_cast<int>(std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, begin - start), unit), 0, groups));
      const int last = static_cast<int>(std::clamp<int64_t>(ceil_div(std::max<int64_t>(0, end - start), unit), 0, groups));
      if (first < last) k_.products.multiply(p.weights, input, first, last, p.store, p.out, p.out_stride);
      start += groups * unit;
    }
  }

  static int64_t group_bytes(const PackedMatrix& matrix) {
    return static_cast<int64_t>(kernels::packed_bytes(matrix.format, kernels::kGroupOutputs, matrix.inputs));
  }

  Forward& f_;
  const ModelConfig& c_;
  const kernels::KernelSet& k_;
  TeamMember& me_;
};

Forward::Forward(const ModelConfig& config, const Weights& weights, const kernels::KernelSet& kernels, kernels::KvFormat kv_format,
                 int max_rows, port::ThreadTeam& team)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      team_(team),
      kv_format_(kv_format),
      max_rows_(max_rows),
      max_logit_rows_(logit_rows(max_rows, config.vocabulary)) {
  std::vector<RopeConfig> distinct;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    shapes_.push_back(attention_shape(config, i, kv_format));
    const auto alike = std::find_if(first_alike_.begin(), first_alike_.end(),
                                    [&](size_t first) { return config.layers[first].window == config.layers[i].window; });
    plan_of_layer_.push_back(static_cast<size_t>(alike - first_alike_.begin()));
    if (alike == first_alike_.end()) first_alike_.push_back(i);
    const RopeConfig& rope = config.layers[i].rope;
    const auto known = std::find(distinct.begin(), distinct.end(), rope);
    rope_of_layer_.push_back(static_cast<size_t>(known - distinct.begin()));
    if (known != distinct.end()) continue;
    distinct.push_back(rope);
    ropes_.emplace_back(rope, config.rope_dims, weights.rope_factors);
  }
  plans_.resize(first_alike_.size());
}

Result<std::unique_ptr<Forward>> Forward::create(const ModelConfig& config, const Weights& weights,
                                                 const kernels::KernelSet& kernels, kernels::KvFormat kv_format, int max_rows,
                                                 port::ThreadTeam& team) {
  QUIRE_CHECK(max_rows >= 1);
  std::unique_ptr<Forward> forward(new Forward(config, weights, kernels, kv_format, max_rows, team));
  QUIRE_TRY_STATUS(forward->allocate());
  return forward;
}

Status Forward::allocate() {
  // Two walks over the same list: the first adds up the sizes, the second hands out the places.
  int64_t used = 0;
  std::byte* base = nullptr;
  const auto bytes = [&](int64_t count) {
    std::byte* place = base == nullptr ? nullptr : base + used;
    used += round_up(count, 64);
    return place;
  };
  const auto rows = [&](int64_t count, int64_t width) {
    const int64_t stride = round_up(width, kRowAlignment);
    return Rows{.data = reinterpret_cast<float*>(bytes(count * stride * int64_t{sizeof(float)})), .stride = stride};
  };
  const int widest = std::max({config_.embedding, config_.feed_forward, config_.heads * config_.head_dim});
  const auto prepared = [&](int count) {
    return Prepared{
        .values = rows(count, widest).data,
        .quantized = bytes(static_cast<int64_t>(kernels::quantized_bytes(count, static_cast<int>(round_up(widest, 256)))))};
  };
  const auto lay_out = [&] {
    used = 0;
    residual_ = rows(max_rows_, config_.embedding);
    block_output_ = rows(max_rows_, config_.embedding);
    q_ = rows(max_rows_, int64_t{config_.heads} * config_.head_dim);
    k_ = rows(max_rows_, int64_t{config_.kv_heads} * config_.head_dim);
    v_ = rows(max_rows_, int64_t{config_.kv_heads} * config_.head_dim);
    attended_ = rows(max_rows_, int64_t{config_.heads} * config_.head_dim);
    gate_ = rows(max_rows_, config_.feed_forward);
    up_ = rows(max_rows_, config_.feed_forward);
    logits_ = rows(max_logit_rows_, config_.vocabulary);
    cos_.assign(ropes_.size(), {});
    sin_.assign(ropes_.size(), {});
    for (size_t r = 0; r < ropes_.size(); ++r) cos_[r] = rows(max_rows_, config_.rope_dims / 2);
    for (size_t r = 0; r < ropes_.size(); ++r) sin_[r] = rows(max_rows_, config_.rope_dims / 2);
    shared_input_ = prepared(max_rows_);
    own_input_.assign(static_cast<size_t>(team_.size()), {});
    for (Prepared& own : own_input_) own = prepared(kernels::kRowTile);
    const size_t scratch = kernels::attention_scratch_floats(shapes_.front(), max_rows_, team_.size());
    attention_scratch_ = rows(1, static_cast<int64_t>(scratch)).data;
  };
  lay_out();
  QUIRE_TRY(memory_, port::AnonymousMemory::allocate(Bytes(used)));
  base = memory_.bytes().data();
  lay_out();
  logits_.stride = config_.vocabulary;
  return {};
}

void Forward::plan(std::span<const SequenceChunk> chunks) {
  chunks_.assign(chunks.begin(), chunks.end());
  blocks_.clear();
  attention_.clear();
  rows_ = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    QUIRE_CHECK(!chunks[c].tokens.empty() && chunks[c].layers.size() == config_.layers.size());
    const int count = static_cast<int>(chunks[c].tokens.size());
    for (int done = 0; done < count;) {
      const TokenPos position = chunks[c].first_position + TokenPos(done);
      const int rows = std::min(count - done, kTileTokens - static_cast<int>(position.value % kTileTokens));
      blocks_.push_back({.chunk = c, .first_row = rows_ + done, .rows = rows, .position = position});
      done += rows;
    }
    rows_ += count;
  }
  QUIRE_CHECK(rows_ <= max_rows_, "a pass has more rows than the workspace");
  int row = 0;
  for (const SequenceChunk& chunk : chunks) {
    attention_.push_back({.layers = chunk.layers,
                          .first_position = chunk.first_position.value,
                          .count = static_cast<int>(chunk.tokens.size()),
                          .q = q_.row(row),
                          .q_stride = q_.stride,
                          .out = attended_.row(row),
                          .out_stride = attended_.stride});
    row += attention_.back().count;
  }
  for (size_t i = 0; i < plans_.size(); ++i) {
    plans_[i].make(shapes_[first_alike_[i]], attention_, first_alike_[i], team_.size());
  }
}

void Forward::run(std::span<const SequenceChunk> chunks) {
  plan(chunks);
  team_.run([&](TeamMember& me) { Pass(*this, me).run(); });
}

std::span<const float> Forward::logits(std::span<const int> rows) {
  QUIRE_CHECK(!rows.empty() && rows.size() <= static_cast<size_t>(max_logit_rows_));
  for (const int row : rows) QUIRE_CHECK(row >= 0 && row < rows_);
  team_.run([&](TeamMember& me) { Pass(*this, me).logits(rows); });
  return {logits_.data, rows.size() * static_cast<size_t>(config_.vocabulary)};
}

}  // namespace quire::model
