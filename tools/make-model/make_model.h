// Makes a GGUF file of random weights in the shape of a real model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tests/support/model_shape.h"

namespace quire::make_model {

struct Options {
  test_support::ModelShape shape;
  // Where a block does not divide a row, the type is that of test_support::fitting_type.
  gguf::TensorType matrix_type = gguf::TensorType::kQ4_K;
  gguf::TensorType embedding_type = gguf::TensorType::kQ4_K;
  gguf::TensorType output_type = gguf::TensorType::kQ6_K;
  uint64_t seed = 1;
};

// Bytes written so far, and in all.
using Progress = std::function<void(uint64_t written, uint64_t total)>;

// Writes the model to `path`, tensor by tensor, with every tokenizer.* key of `tokenizer` (which must have tokenizer.ggml.tokens;
// their number is the vocabulary). The data goes to "<path>.partial", which takes the path's place when it is complete; an error
// leaves neither. Returns the file's size in bytes.
[[nodiscard]] Result<uint64_t> make_model(const Options& options, const gguf::File& tokenizer, const std::string& path,
                                          const Progress& progress);

}  // namespace quire::make_model
