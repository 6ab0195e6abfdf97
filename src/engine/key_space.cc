#include "engine/key_space.h"

#include <cstdint>

namespace quire::engine {
namespace {

void append(std::string& key, char tag, std::string_view content) {
  if (content.empty()) return;
  key += tag;
  const auto length = static_cast<uint64_t>(content.size());
  for (int shift = 0; shift < 64; shift += 8) key += static_cast<char>((length >> shift) & 0xff);
  key += content;
}

}  // namespace

std::string key_space(const KeySpaceFields& fields) {
  std::string key;
  append(key, 's', fields.cache_salt);
  append(key, 'a', fields.adapter);
  append(key, 'p', fields.purpose);
  return key;
}

}  // namespace quire::engine
