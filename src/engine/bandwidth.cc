#include "engine/bandwidth.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "port/clock.h"

namespace quire::engine {
namespace {

constexpr int64_t kBufferBytes = int64_t{256} << 20;

// Reads every byte of the range; the sum keeps the compiler from leaving the reading out. Sixteen chains hide the addition's
// latency.
uint64_t read_all(std::span<const std::byte> range) {
  const auto* words = reinterpret_cast<const uint64_t*>(range.data());
  const size_t count = range.size() / sizeof(uint64_t);
  uint64_t sum[16] = {};
  for (size_t i = 0; i + 16 <= count; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) sum[lane] += words[i + lane];
  }
  uint64_t total = 0;
  for (const uint64_t s : sum) total += s;
  return total;
}

}  // namespace

Result<BandwidthProbe> BandwidthProbe::create(port::ThreadTeam& team) {
  QUIRE_TRY(port::AnonymousMemory buffer, port::AnonymousMemory::allocate(Bytes(kBufferBytes)));
  std::memset(buffer.bytes().data(), 1, buffer.bytes().size());
  return BandwidthProbe(team, std::move(buffer));
}

BandwidthProbe::BandwidthProbe(port::ThreadTeam& team, port::AnonymousMemory buffer) : team_(&team), buffer_(std::move(buffer)) {}

double BandwidthProbe::measure() {
  const std::span<const std::byte> bytes = buffer_.bytes();
  std::vector<uint64_t> sums(static_cast<size_t>(team_->size()));
  const int64_t start = port::monotonic_ns();
  team_->run([&](port::TeamMember& me) {
    const size_t share = bytes.size() / static_cast<size_t>(me.count) / 128 * 128;
    sums[static_cast<size_t>(me.index)] = read_all(bytes.subspan(share * static_cast<size_t>(me.index), share));
  });
  const int64_t elapsed = port::monotonic_ns() - start;
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  QUIRE_CHECK(total != 0, "the buffer holds ones");
  return static_cast<double>(bytes.size()) * 1e9 / static_cast<double>(elapsed);
}

}  // namespace quire::engine
