#include "base/hash.h"

#include <xxhash.h>

#include "base/check.h"

namespace quire {
namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

Hasher::Hasher(uint64_t seed) : state_(XXH3_createState()) {
  QUIRE_CHECK(state_ != nullptr);
  QUIRE_CHECK(XXH3_64bits_reset_withSeed(state_of(state_), seed) == XXH_OK);
}

Hasher::~Hasher() { XXH3_freeState(state_of(state_)); }

void Hasher::add(std::span<const std::byte> bytes) {
  QUIRE_CHECK(XXH3_64bits_update(state_of(state_), bytes.data(), bytes.size()) == XXH_OK);
}

uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_of(state_)); }

}  // namespace quire
