// Where the keys and values of a sequence are, layer by layer, as kernels read it. Kept from step to step: as long as a sequence
// only grows inside its last segment nothing is rebuilt and nothing allocated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kv/kv_cache.h"

namespace quire::engine {

class SequenceViews {
 public:
  // The pieces of each of the model's `layers` layers, for model::SequenceChunk. Valid until the sequence's next commit, append or
  // close, or the next call.
  [[nodiscard]] std::span<const std::span<const kernels::KvPiece>> of(const kv::KvCache& cache, kv::SequenceId sequence,
                                                                      int layers);

  // For another sequence.
  void clear() { version_ = -1; }

 private:
  void rebuild(const kv::KvCache& cache, kv::SequenceId sequence, int layers);

  int64_t version_ = -1;  // of the runs that the pieces were made from
  std::vector<kernels::KvPiece> pieces_;
  std::vector<std::span<const kernels::KvPiece>> layers_;
};

}  // namespace quire::engine
