// The roof of decoding: how fast this machine reads memory now.
#pragma once

#include "base/result.h"
#include "port/memory.h"
#include "port/threads.h"

namespace quire::engine {

// Measures the read bandwidth of a team. Holds a buffer larger than the last-level caches.
class BandwidthProbe {
 public:
  [[nodiscard]] static Result<BandwidthProbe> create(port::ThreadTeam& team);

  // Bytes a second over one reading of the buffer, by all members at once.
  [[nodiscard]] double measure();

 private:
  BandwidthProbe(port::ThreadTeam& team, port::AnonymousMemory buffer);

  port::ThreadTeam* team_;
  port::AnonymousMemory buffer_;
};

}  // namespace quire::engine
