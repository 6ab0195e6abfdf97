// Complete tiny models in GGUF, random but the same on every machine: for tests of everything that runs or serves a model.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "gguf/tensor_type.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/model_shape.h"

namespace quire::test_support {

struct TinyModelOptions {
  ModelShape shape;
  // Types of the tensors by role; where a block does not divide a row see fitting_type. Norms are always f32.
  gguf::TensorType matrix_type = gguf::TensorType::kF32;
  gguf::TensorType embedding_type = gguf::TensorType::kF32;
  gguf::TensorType output_type = gguf::TensorType::kF32;
  // Each tensor's values depend on this and the tensor's name alone.
  uint64_t seed = 1;
  // Called when all metadata and tensors are added: can add and remove keys, for tests of models that must be refused.
  std::function<void(GgufWriter&)> change = {};
};

// 2 layers, width 128, 2 heads of 64 over 1 KV head, feed-forward 256, context 512, tied output, all f32.
[[nodiscard]] TinyModelOptions tiny_llama_options();
// 6 layers (five with a window of 48, one full), width 128, 2 heads of 64 over 1 KV head, feed-forward 256, context 512, all f32.
[[nodiscard]] TinyModelOptions tiny_gemma3_options();

// The bytes of a whole file: matrices with variance 1 / row length, norms within 0.1 of 1, and a tokenizer:
// llama: byte-level BPE (model gpt2, pre smollm): <|endoftext|> <|im_start|> <|im_end|>, the 256 bytes, some merges, a chat
// template.
[[nodiscard]] std::vector<std::byte> tiny_llama_model(const TinyModelOptions& options = tiny_llama_options());
// gemma3: SentencePiece-style (model llama): <pad> <eos> <bos> <unk>, <start_of_turn> <end_of_turn>, 256 byte tokens, pieces; adds
// bos, no chat template.
[[nodiscard]] std::vector<std::byte> tiny_gemma3_model(const TinyModelOptions& options = tiny_gemma3_options());

// The tokenizers' metadata alone; the number of tokens.
int64_t add_tiny_bpe_tokenizer(GgufWriter& writer);
int64_t add_tiny_spm_tokenizer(GgufWriter& writer);

}  // namespace quire::test_support
