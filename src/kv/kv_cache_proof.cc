// Proof: recounts everything from nodes and sequences alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "kv/kv_cache.h"

namespace quire::kv {
namespace {

struct Counts {
  int readers = 0;
  int checkpoints = 0;
};
using TileKey = std::tuple<const SegmentSet*, size_t, int32_t>;  // set, group, tile

// What the tree's places and the running sequences name.
struct Named {
  std::map<const SegmentSet*, std::pair<int64_t, int64_t>> places;  // all, read
  std::map<TileKey, int> tiles;
};

std::string broken(const char* id, const std::string& what, const Node& node) {
  return fmt::format("{}: {} (node at tile {}, {} tokens)", id, what, node.first_tile, node.tokens.size());
}

std::string verify_children(const Node& node) {
  const Node* previous = nullptr;
  for (const Node* child : node.children) {
    if (child->parent != &node) return broken("K6", "a child with another parent", *child);
    if (child->tokens.empty()) return broken("K6", "a child without tokens", *child);
    if (previous != nullptr && !Node::FirstTileOrder()(previous, child)) return broken("K6", "children out of order", node);
    previous = child;
  }
  for (const Node* child : node.young) {
    if (child->parent != &node || !child->tail || child->tokens.size() >= kTileTokens)
      return broken("K6", "not a young tail", *child);
  }
  return {};
}

// Every set is counted as often as it is named, and nothing in it is charged that nobody names. Sums the page tables of sets that
// no sequence reads.
std::string verify_sets(const Named& named, Bytes& cached_tables) {
  for (const auto& [set, count] : named.places) {
    if (set->places != count.first || set->places_read != count.second) {
      return fmt::format("K2: a set with {} places, {} read; counted {}, {}", set->places, set->places_read, count.first,
                         count.second);
    }
    if (count.second == 0) cached_tables += page_tables_of(*set);
    for (size_t group = 0; group < set->groups(); ++group) {
      for (int64_t tile = 0; tile < set->max_tiles().value; ++tile) {
        const std::optional<Purpose> purpose = set->segment(group).purpose(TileIndex(tile));
        if (!purpose || *purpose == Purpose::kWarm) continue;
        if (!named.tiles.contains({set, group, static_cast<int32_t>(tile)})) {
          return fmt::format("K1: group {} tile {} is charged as {} and nobody names it", group, tile, to_string(*purpose));
        }
      }
    }
  }
  return {};
}

}  // namespace

std::string KvCache::verify_tree() const {
  std::string problem;
  size_t nodes = 0;
  size_t victims = 0;
  tree_.visit([&](const Node& node) {
    if (!problem.empty()) return;
    problem = verify_children(node);
    if (!problem.empty() || node.parent == nullptr) return;
    ++nodes;
    const auto tokens = static_cast<int64_t>(node.tokens.size());
    if (node.first_tile != node.parent->first_tile + static_cast<int64_t>(node.parent->tokens.size()) / kTileTokens) {
      problem = broken("K6", "does not begin where its parent ends", node);
    } else if (!node.leaf() && tokens % kTileTokens != 0) {
      problem = broken("K5", "a partial tile inside a path", node);
    } else if (node.tail && !node.leaf()) {
      problem = broken("K4", "a tail with children", node);
    } else if (node.pins != 0) {
      problem = broken("K3", "a copy in flight between calls", node);
    }
    for (size_t group = 0; group < groups_.size() && problem.empty(); ++group) {
      const auto places = static_cast<int64_t>(node.places[group].size());
      const int64_t tiles = ceil_div(tokens, kTileTokens);
      if (node.tail ? places < tiles : places != tiles) problem = broken("K2", "places do not match tokens", node);
    }
    const bool evictable = !has_windows_ && node.leaf() && !node.tail && node.readers == 0;
    if (problem.empty() && evictable != node.evictable) problem = broken("K3", "wrongly in or out of the eviction order", node);
    if (node.evictable) ++victims;
    if (node.evictable && !order_.contains(node.last_use, {const_cast<Node*>(&node), node.end()})) {
      problem = broken("K6", "the eviction order does not know it", node);
    }
    if (has_windows_ && problem.empty() && node.leaf() && !node.tail && node.readers == 0 &&
        (node.checkpoints.empty() || node.checkpoints.back().position != node.end())) {
      problem = broken("K3", "cache that ends at no checkpoint", node);
    }
    int64_t before = node.begin();
    for (const Checkpoint& checkpoint : node.checkpoints) {
      ++victims;
      if (checkpoint.position <= before || checkpoint.position > node.end())
        problem = broken("K6", "a checkpoint out of place", node);
      before = checkpoint.position;
      if (!order_.contains(checkpoint.last_use, {const_cast<Node*>(&node), checkpoint.position})) {
        problem = broken("K6", "the eviction order does not know a checkpoint", node);
      }
    }
  });
  if (!problem.empty()) return problem;
  if (nodes != tree_.nodes()) return fmt::format("K6: {} nodes in the tree, {} counted", nodes, tree_.nodes());
  if (victims != order_.size()) return fmt::format("K6: {} victims in the tree, {} in the order", victims, order_.size());
  return {};
}

std::string KvCache::verify_sequences() const {
  std::map<const Node*, int> readers;
  for (const auto& [id, open] : sequences_) {
    const Node* tail = open->tail;
    if (!tail->tail) return fmt::format("K2: sequence {} has no tail", id);
    if (tail->end() != open->length.value)
      return fmt::format("K2: sequence {} has {} tokens, its path {}", id, open->length.value, tail->end());
    for (const Node* node = tail; node->parent != nullptr; node = node->parent) ++readers[node];
  }
  std::string problem;
  tree_.visit([&](const Node& node) {
    const auto found = readers.find(&node);
    const int counted = found == readers.end() ? 0 : found->second;
    if (node.parent != nullptr && counted != node.readers) {
      problem = broken("K2", fmt::format("{} readers, {} counted", node.readers, counted), node);
    }
  });
  return problem;
}

// K1, K2: who counts on each tile, and what it is charged for.
std::string KvCache::verify_counts() const {
  std::map<const Place*, Counts> counts;
  const auto count_path = [&](Node* node, size_t group, int64_t first, int64_t end, int Counts::*what) {
    for (int64_t tile = first; tile < end; ++tile) ++(counts[&place_of(node, tile, group)].*what);
  };
  for (const auto& [id, open] : sequences_) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (!ledger_.windowed(group)) continue;
      count_path(open->tail, group, open->window_first[group], open->committed_tiles, &Counts::readers);
    }
  }
  tree_.visit([&](const Node& node) {
    for (const Checkpoint& checkpoint : node.checkpoints) {
      const TokenCount length(checkpoint.position);
      for (size_t group = 0; group < groups_.size(); ++group) {
        if (!ledger_.windowed(group)) continue;
        count_path(const_cast<Node*>(&node), group, first_tile_needed(groups_[group], length).value, tiles_for(length).value,
                   &Counts::checkpoints);
      }
    }
  });
  Named named;
  std::string problem;
  tree_.visit([&](const Node& node) {
    for (size_t group = 0; group < groups_.size() && problem.empty(); ++group) {
      for (const Place& place : node.places[group]) {
        const Counts counted = counts[&place];
        if (place.readers != counted.readers || place.checkpoints != counted.checkpoints) {
          problem = broken("K2",
                           fmt::format("a place with {} readers and {} checkpoints, counted {} and {}", place.readers,
                                       place.checkpoints, counted.readers, counted.checkpoints),
                           node);
          return;
        }
        if (place.set == nullptr) continue;
        const int readers = ledger_.windowed(group) ? place.readers : node.readers;
        if (place.set->segment(group).purpose(TileIndex(place.tile)) != purpose_of(readers)) {
          problem = broken("K1", fmt::format("group {} tile {} of its set has a wrong purpose", group, place.tile), node);
        }
        if (++named.tiles[{place.set, group, place.tile}] > 1) problem = broken("K1", "two places name the same tile", node);
        auto& [all, read] = named.places[place.set];
        ++all;
        if (readers > 0) ++read;
      }
    }
  });
  if (!problem.empty()) return problem;
  for (const auto& [id, open] : sequences_) {
    if (open->set == nullptr) continue;
    ++named.places[open->set].first;
    ++named.places[open->set].second;
  }
  Bytes cached_tables;
  if (std::string wrong = verify_sets(named, cached_tables); !wrong.empty()) return wrong;
  if (pool_.sets() - pool_.warm_sets() != named.places.size()) {
    return fmt::format("K2: {} sets in use, {} named", pool_.sets() - pool_.warm_sets(), named.places.size());
  }
  if (cached_tables != ledger_.cached_page_tables()) {
    return fmt::format("K1: {} bytes of page tables are cached, counted {}", ledger_.cached_page_tables().value,
                       cached_tables.value);
  }
  return {};
}

std::string KvCache::verify() const {
  for (std::string problem : {verify_tree(), verify_sequences()}) {
    if (!problem.empty()) return problem + "\n" + dump();
  }
  if (!plan_outstanding_) {
    if (std::string problem = verify_counts(); !problem.empty()) return problem + "\n" + dump();
  }
  if (std::string problem = pool_.verify(); !problem.empty()) return problem;
  return budget_.verify();
}

std::string KvCache::dump() const {
  std::string text = budget_.dump();
  tree_.visit([&](const Node& node) {
    if (node.parent == nullptr) {
      text += fmt::format("root {}\n", node.key_space);
      return;
    }
    text +=
        fmt::format("  node tiles from {} tokens {} readers {}{}{} first {}", node.first_tile, node.tokens.size(), node.readers,
                    node.tail ? " tail" : "", node.evictable ? " evictable" : "", node.tokens.empty() ? -1 : node.tokens.front());
    for (const Checkpoint& checkpoint : node.checkpoints) text += fmt::format(" checkpoint {}", checkpoint.position);
    text += "\n";
  });
  std::map<int64_t, const Sequence*> ordered;
  for (const auto& [id, open] : sequences_) ordered.emplace(id, open.get());
  for (const auto& [id, open] : ordered) {
    text += fmt::format("  sequence {} tokens {} of {} tiles {}\n", id, open->length.value, open->max_tokens.value,
                        open->committed_tiles);
  }
  return text;
}

}  // namespace quire::kv
