#include "kv/eviction_order.h"

#include "base/check.h"

namespace quire::kv {

void EvictionOrder::move(LastUse last, int64_t position, Node* node) {
  const auto found = victims_.find(key(last, position));
  QUIRE_CHECK(found != victims_.end(), "a victim that moves is in the order");
  found->second.node = node;
}

bool EvictionOrder::contains(LastUse last, const Victim& victim) const {
  const auto found = victims_.find(key(last, victim.position));
  return found != victims_.end() && found->second.node == victim.node && found->second.position == victim.position;
}

}  // namespace quire::kv
