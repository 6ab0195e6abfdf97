#include "make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "random_blocks.h"
#include "tests/support/gguf_writer.h"

namespace quire::make_model {
namespace {

using gguf::TensorType;
using test_support::GgufWriter;
using test_support::TensorPlan;
using test_support::TensorRole;

constexpr size_t kChunkBytes = size_t{4} << 20;

struct PlannedTensor {
  TensorPlan plan;
  TensorType type;
  uint64_t bytes;
};

TensorType type_for(const TensorPlan& plan, const Options& options) {
  const auto row = static_cast<int64_t>(plan.dims[0]);
  switch (plan.role) {
    case TensorRole::kNorm:
    case TensorRole::kRopeFactors: return TensorType::kF32;
    case TensorRole::kMatrix: return test_support::fitting_type(options.matrix_type, row);
    case TensorRole::kEmbedding: return test_support::fitting_type(options.embedding_type, row);
    case TensorRole::kOutput: return test_support::fitting_type(options.output_type, row);
  }
  return options.matrix_type;
}

std::vector<PlannedTensor> plan(const Options& options, int64_t vocabulary) {
  std::vector<PlannedTensor> tensors;
  for (TensorPlan& tensor : test_support::plan_tensors(options.shape, vocabulary)) {
    const TensorType type = type_for(tensor, options);
    auto bytes = static_cast<uint64_t>(gguf::row_bytes(type, static_cast<int64_t>(tensor.dims[0])));
    for (size_t i = 1; i < tensor.dims.size(); ++i) bytes *= tensor.dims[i];
    tensors.push_back({std::move(tensor), type, bytes});
  }
  return tensors;
}

// A file that is written beside its place and moved there when complete.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path) : path_(path), partial_(path + ".partial"), out_(partial_, std::ios::binary) {}
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    std::error_code ignored;
    if (!moved_) std::filesystem::remove(partial_, ignored);
  }

  Status write(std::span<const std::byte> bytes) {
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out_) return failure("cannot be written");
    return {};
  }

  Status move_into_place() {
    out_.close();
    if (!out_) return failure("cannot be written");
    std::error_code error;
    std::filesystem::rename(partial_, path_, error);
    if (error) return make_error(ErrorCode::kIo, fmt::format("{}: cannot be put in place: {}", path_, error.message()));
    moved_ = true;
    return {};
  }

 private:
  [[nodiscard]] Error failure(std::string_view what) const {
    return make_error(ErrorCode::kIo, fmt::format("{}: {}: {}", partial_, what, std::strerror(errno)));
  }

  std::string path_;
  std::string partial_;
  std::ofstream out_;
  bool moved_ = false;
};

Status check_space(const std::string& path, uint64_t needed) {
  std::error_code error;
  auto folder = std::filesystem::absolute(path, error).parent_path();
  const auto space = std::filesystem::space(folder, error);
  if (error)
    return make_error(ErrorCode::kIo, fmt::format("{}: {}: choose a folder that exists", folder.string(), error.message()));
  if (space.available < needed) {
    return make_error(
        ErrorCode::kLimit,
        fmt::format("{}: the model needs {}, the disk has {} free: take fewer layers or another place", path,
                    format_bytes(Bytes(static_cast<int64_t>(needed))), format_bytes(Bytes(static_cast<int64_t>(space.available)))));
  }
  return {};
}

// The values of a small tensor that is not random.
std::vector<float> given_values(const TensorPlan& plan, const Options& options) {
  if (plan.role == TensorRole::kRopeFactors) return options.shape.rope_factors;
  return std::vector<float>(plan.dims[0], 1.0f);
}

Status write_random(const PlannedTensor& tensor, uint64_t seed, PartialFile& file, const std::function<void(uint64_t)>& wrote) {
  const float deviation = 1.0f / std::sqrt(static_cast<float>(tensor.plan.dims[0]));
  RandomBlocks random(tensor.type, deviation, hash64(std::as_bytes(std::span(tensor.plan.name)), seed));
  const auto block = static_cast<uint64_t>(gguf::block_bytes(tensor.type));
  std::vector<std::byte> chunk(std::min<uint64_t>(kChunkBytes / block * block, tensor.bytes));
  for (uint64_t left = tensor.bytes; left > 0;) {
    const auto now = std::span(chunk).first(std::min<uint64_t>(chunk.size(), left));
    random.fill(now);
    QUIRE_TRY_STATUS(file.write(now));
    left -= now.size();
    wrote(now.size());
  }
  return {};
}

GgufWriter describe(const Options& options, const gguf::File& tokenizer, int64_t vocabulary,
                    const std::vector<PlannedTensor>& tensors) {
  GgufWriter writer;
  add_architecture(writer, options.shape, vocabulary, test_support::file_type_of(options.matrix_type));
  for (const gguf::Entry& entry : tokenizer.metadata()) {
    if (entry.key.starts_with("tokenizer.")) writer.add(entry);
  }
  for (const PlannedTensor& tensor : tensors) writer.declare_tensor(tensor.plan.name, tensor.type, tensor.plan.dims, tensor.bytes);
  return writer;
}

}  // namespace

Result<uint64_t> make_model(const Options& options, const gguf::File& tokenizer, const std::string& path,
                            const Progress& progress) {
  QUIRE_TRY(const gguf::Array tokens, tokenizer.get_array("tokenizer.ggml.tokens"));
  const auto vocabulary = static_cast<int64_t>(tokens.count());
  const auto tensors = plan(options, vocabulary);
  const GgufWriter writer = describe(options, tokenizer, vocabulary, tensors);
  const auto header = writer.header();
  uint64_t total = header.size();
  for (const PlannedTensor& tensor : tensors)
    total += (tensor.bytes + gguf::kDefaultAlignment - 1) & ~uint64_t{gguf::kDefaultAlignment - 1};
  QUIRE_TRY_STATUS(check_space(path, total));

  PartialFile file(path);
  uint64_t written = 0;
  const auto wrote = [&](uint64_t bytes) {
    written += bytes;
    progress(written, total);
  };
  QUIRE_TRY_STATUS(file.write(header));
  wrote(header.size());
  for (const PlannedTensor& tensor : tensors) {
    if (tensor.plan.role == TensorRole::kNorm || tensor.plan.role == TensorRole::kRopeFactors) {
      const auto values = given_values(tensor.plan, options);
      QUIRE_TRY_STATUS(file.write(std::as_bytes(std::span(values))));
      wrote(tensor.bytes);
    } else {
      QUIRE_TRY_STATUS(write_random(tensor, options.seed, file, wrote));
    }
    const std::vector<std::byte> padding((gguf::kDefaultAlignment - written % gguf::kDefaultAlignment) % gguf::kDefaultAlignment);
    QUIRE_TRY_STATUS(file.write(padding));
    wrote(padding.size());
  }
  QUIRE_TRY_STATUS(file.move_into_place());
  return total;
}

}  // namespace quire::make_model
