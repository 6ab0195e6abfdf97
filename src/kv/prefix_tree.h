// The prefix tree: a radix tree over tokens, cut at tiles. Structure alone: what its tiles are charged for is the ledger's affair
// (tile_ledger.h), what happens to them the cache's (kv_cache.h).
//
//   root -- [tiles 0..45: "You are ..."] --+-- [tiles 46..60: ...]
//                                          +-- [tiles 46..47: ...]
//
// * A node views a run of tiles: its tokens begin at position 32 x first_tile. Only the end of a path is partial (K5): whoever has
//   children ends with a whole tile.
// * Children are ordered by the tokens of their first tile, which differ (K6); so the child that shares most with some tokens is
//   found among neighbours, and tokens are compared, never hashes.
// * A tail is the node that a running sequence extends; it has no children. While it has less than a whole tile it is young: it may
//   still become equal to a sibling, and is kept beside the ordered ones.
// * Tails keep their identity when nodes are cut or joined; others may be replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "kv/eviction_order.h"
#include "kv/segment_pool.h"

namespace quire::kv {

// Where a tile of a node is, in one layer group. In windowed groups a tile is held only as long as somebody counts it here.
struct Place {
  SegmentSet* set = nullptr;  // null: not held (windowed groups alone)
  int32_t tile = 0;           // in the set
  int32_t readers = 0;        // windowed groups: running sequences whose window covers it
  int32_t checkpoints = 0;    // windowed groups: checkpoints that need it
};

// A position at which every layer group holds what the next token needs.
struct Checkpoint {
  int64_t position = 0;
  LastUse last_use = {};
};

struct Node {
  // Less by the tokens of the first tile; a beginning before what it begins.
  struct FirstTileOrder {
    using is_transparent = void;
    bool operator()(const Node* a, const Node* b) const;
    bool operator()(const Node* a, std::span<const TokenId> b) const;
    bool operator()(std::span<const TokenId> a, const Node* b) const;
  };

  Node* parent = nullptr;           // null: a root
  std::string_view key_space = {};  // of a root
  int64_t first_tile = 0;
  std::vector<TokenId> tokens;
  std::vector<std::vector<Place>> places;  // [group][tile - first_tile]; a tail's may reach beyond its tokens
  std::set<Node*, FirstTileOrder> children;
  std::vector<Node*> young;             // tails below it with less than a whole tile
  bool tail = false;                    // a running sequence extends it
  int readers = 0;                      // running sequences whose path leads through it
  int pins = 0;                         // copies in flight
  std::vector<Checkpoint> checkpoints;  // ascending; only where there are windowed groups
  LastUse last_use = {};
  bool evictable = false;  // its end is in the eviction order

  [[nodiscard]] int64_t begin() const { return first_tile * kTileTokens; }
  [[nodiscard]] int64_t end() const { return begin() + static_cast<int64_t>(tokens.size()); }
  [[nodiscard]] bool leaf() const { return children.empty() && young.empty(); }
  [[nodiscard]] std::span<const TokenId> first_tile_tokens() const;
};

// The first `offset` tokens of a node, and all before it.
struct TreePoint {
  Node* node = nullptr;
  int64_t offset = 0;

  [[nodiscard]] int64_t position() const { return node->begin() + offset; }
};

class PrefixTree {
 public:
  explicit PrefixTree(size_t groups) : groups_(groups) {}
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  ~PrefixTree();

  // Null when nothing is there.
  [[nodiscard]] Node* find_root(std::string_view key_space) const;
  [[nodiscard]] Node* root(std::string_view key_space);

  // How far the tokens lead.
  [[nodiscard]] TreePoint find(Node* root, std::span<const TokenId> tokens) const;

  // The child or young tail that shares most with `tokens`, not empty, and how much of its first tile.
  struct Nearest {
    Node* node = nullptr;
    int64_t common = 0;
  };
  [[nodiscard]] Nearest nearest(const Node* parent, std::span<const TokenId> tokens) const;

  // A new tail below `parent`.
  Node* add_tail(Node* parent);

  // Hangs a node below its parent where it belongs, and takes it away.
  void attach(Node* node);
  void detach(Node* node);

  // Cuts a node after `tiles` whole tiles: answers the new node in front, whose child is `node`. Only a tail may be left empty.
  Node* split(Node* node, int64_t tiles);

  // Whether a node's parent has no other child and can become a part of it.
  [[nodiscard]] static bool can_absorb_parent(const Node* node);
  void absorb_parent(Node* node);

  // Removes a leaf that is detached and views nothing any more.
  void remove(Node* node);
  // Removes a root when nothing is below it.
  void remove_root_if_empty(const Node* root);

  [[nodiscard]] size_t nodes() const { return nodes_; }

  // Parents before their children, roots by key space.
  void visit(const std::function<void(const Node&)>& visitor) const;

 private:
  struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unique_ptr<Node> make_node() const;

  size_t groups_;
  size_t nodes_ = 0;  // without roots
  std::unordered_map<std::string, std::unique_ptr<Node>, StringHash, std::equal_to<>> roots_;
};

// Tokens that both begin with.
[[nodiscard]] int64_t common_beginning(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace quire::kv
