// Cache: checkpoints, what is kept, and what goes when room is needed.
#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace quire::kv {

Place& KvCache::place_of(Node* node, int64_t tile, size_t group) {
  while (node->first_tile > tile) node = node->parent;
  return node->places[group][static_cast<size_t>(tile - node->first_tile)];
}

Node* KvCache::split(Node* node, int64_t tiles) {
  Node* front = tree_.split(node, tiles);
  for (const Checkpoint& checkpoint : front->checkpoints) order_.move(checkpoint.last_use, checkpoint.position, front);
  return front;
}

void KvCache::absorb_parent(Node* node) {
  for (const Checkpoint& checkpoint : node->parent->checkpoints) order_.move(checkpoint.last_use, checkpoint.position, node);
  tree_.absorb_parent(node);
}

void KvCache::add_checkpoint(Node* node, int64_t position) {
  while (node->begin() >= position) node = node->parent;
  const auto at = std::find_if(node->checkpoints.begin(), node->checkpoints.end(),
                               [&](const Checkpoint& checkpoint) { return checkpoint.position >= position; });
  if (at != node->checkpoints.end() && at->position == position) {
    touch_checkpoint({node, position - node->begin()});
    return;
  }
  const Checkpoint added{.position = position, .last_use = order_.use()};
  node->checkpoints.insert(at, added);
  order_.add(added.last_use, {node, position});
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!ledger_.windowed(group)) continue;
    for (int64_t tile = first_tile_needed(groups_[group], TokenCount(position)).value; tile < tiles_for(TokenCount(position)).value;
         ++tile) {
      ledger_.add_checkpoint(place_of(node, tile, group));
    }
  }
}

void KvCache::drop_checkpoint(Node* node, size_t index) {
  const Checkpoint dropped = node->checkpoints[index];
  node->checkpoints.erase(node->checkpoints.begin() + static_cast<ptrdiff_t>(index));
  order_.remove(dropped.last_use, dropped.position);
  const TokenCount length(dropped.position);
  for (size_t group = 0; group < groups_.size(); ++group) {
    if (!ledger_.windowed(group)) continue;
    for (int64_t tile = first_tile_needed(groups_[group], length).value; tile < tiles_for(length).value; ++tile) {
      ledger_.remove_checkpoint(place_of(node, tile, group), group);
    }
  }
}

void KvCache::touch_checkpoint(const TreePoint& point) {
  for (Checkpoint& checkpoint : point.node->checkpoints) {
    if (checkpoint.position != point.position()) continue;
    order_.remove(checkpoint.last_use, checkpoint.position);
    checkpoint.last_use = order_.use();
    order_.add(checkpoint.last_use, {point.node, checkpoint.position});
  }
}

// Nodes of a running sequence's path are in no order, so that their last use may change.
void KvCache::touch_path(Node* node) {
  for (; node->parent != nullptr; node = node->parent) {
    if (!node->evictable) node->last_use = order_.use();
  }
}

void KvCache::update_victim(Node* node) {
  const bool evictable = !has_windows_ && node->parent != nullptr && node->leaf() && !node->tail && node->readers == 0;
  if (evictable == node->evictable) return;
  node->evictable = evictable;
  if (evictable) {
    order_.add(node->last_use, {node, node->end()});
  } else {
    order_.remove(node->last_use, node->end());
  }
}

// Brings a node into order after something below it or a reader of it went: tokens behind the last checkpoint are of no use to
// anybody, nor are nodes without any.
void KvCache::settle(Node* node) {
  while (node->parent != nullptr && node->leaf()) {
    if (node->tail || node->readers > 0) return;
    int64_t end = node->end();
    if (has_windows_) end = node->checkpoints.empty() ? node->begin() : node->checkpoints.back().position;
    // What is copied from keeps its whole first tile: with less it might equal a sibling.
    if (node->pins > 0) end = std::clamp(node->begin() + kTileTokens, end, node->end());
    if (end > node->begin()) {
      if (end < node->end()) {
        cut(node, end);
      } else {
        update_victim(node);
      }
      return;
    }
    Node* parent = node->parent;
    tree_.detach(node);
    remove_detached(node);
    node = parent;
  }
  if (node->parent == nullptr) {
    tree_.remove_root_if_empty(node);
  } else if (node->children.size() == 1 && node->young.empty()) {
    Node* only = *node->children.begin();
    if (PrefixTree::can_absorb_parent(only)) absorb_parent(only);
  }
}

// A leaf nobody reads ends at `end` from now on, which is behind its beginning.
void KvCache::cut(Node* node, int64_t end) {
  if (node->evictable) order_.remove(node->last_use, node->end());
  node->evictable = false;
  tree_.detach(node);
  ledger_.free_from(node, tiles_for(TokenCount(end)).value - node->first_tile);
  removed_tokens_ += node->end() - end;
  node->tokens.resize(static_cast<size_t>(end - node->begin()));
  lower_end(node);
  if (node->pins == 0 && covered(node)) {
    Node* parent = node->parent;
    remove_detached(node);
    settle(parent);
    return;
  }
  tree_.attach(node);
  update_victim(node);
}

// The tiles of the set behind a leaf's last one are free again.
void KvCache::lower_end(Node* node) {
  const Place& last = node->places[0].back();
  if (last.set != nullptr) last.set->end = TileIndex(last.tile + 1);
}

void KvCache::remove_detached(Node* node) {
  if (node->evictable) order_.remove(node->last_use, node->end());
  removed_tokens_ += static_cast<int64_t>(node->tokens.size());
  while (!node->checkpoints.empty()) drop_checkpoint(node, node->checkpoints.size() - 1);
  ledger_.free_from(node, 0);
  tree_.remove(node);
}

bool KvCache::evict(Bytes bytes) {
  // What is copied from is the first tile of a node: what lies behind it may go.
  const auto accept = [](const Victim& candidate) {
    return candidate.node->pins == 0 || candidate.position > candidate.node->begin() + kTileTokens;
  };
  const Victim victim = order_.first(accept);
  if (victim.node == nullptr) return false;
  Node* node = victim.node;
  const Bytes before = budget_.backed(Purpose::kCached);
  const int64_t removed_before = removed_tokens_;
  if (has_windows_) {
    const auto at = std::find_if(node->checkpoints.begin(), node->checkpoints.end(),
                                 [&](const Checkpoint& checkpoint) { return checkpoint.position == victim.position; });
    order_.raise_floor(at->last_use, at->position);
    drop_checkpoint(node, static_cast<size_t>(at - node->checkpoints.begin()));
    settle(node);
  } else {
    order_.raise_floor(node->last_use, node->end());
    const int64_t tiles = std::clamp<int64_t>(ceil_div(std::min(bytes, budget_.backed()).value, tile_bytes_.value), 1, INT32_MAX);
    int64_t end = (tiles_for(TokenCount(node->end())).value - tiles) * kTileTokens;
    if (node->pins > 0) end = std::max(end, node->begin() + kTileTokens);
    if (end > node->begin()) {
      cut(node, end);
    } else {
      Node* parent = node->parent;
      tree_.detach(node);
      remove_detached(node);
      settle(parent);
    }
  }
  evicted_ += before - budget_.backed(Purpose::kCached);
  evicted_tokens_ += TokenCount(removed_tokens_ - removed_before);
  return true;
}

bool KvCache::free_some(Bytes bytes) { return pool_.shed(bytes).value > 0 || evict(bytes); }

void KvCache::set_limit(Bytes limit) { budget_.set_limit(limit); }

Bytes KvCache::enforce_limit(Bytes at_most) {
  const Bytes before = budget_.backed();
  while (budget_.available().value < 0) {
    const Bytes over = Bytes(0) - budget_.available();
    const Bytes left = at_most - (before - budget_.backed());
    if (left.value <= 0) return {};
    if (!free_some(std::min(over, left))) return over;
  }
  return {};
}

void KvCache::clear() {
  while (free_some(Bytes(INT64_MAX))) {
  }
}

}  // namespace quire::kv
