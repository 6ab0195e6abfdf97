#include "kv/prefix_tree.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/check.h"

namespace quire::kv {
namespace {

std::span<const TokenId> first_tile_of(std::span<const TokenId> tokens) {
  return tokens.first(std::min<size_t>(tokens.size(), kTileTokens));
}

bool less(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

template <typename T>
void move_front(std::vector<T>& from, size_t count, std::vector<T>& to) {
  to.assign(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
  from.erase(from.begin(), from.begin() + static_cast<ptrdiff_t>(count));
}

template <typename T>
void prepend(std::vector<T>& to, const std::vector<T>& front) {
  to.insert(to.begin(), front.begin(), front.end());
}

void delete_below(Node* root) {
  std::vector<Node*> nodes = {root};
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes.insert(nodes.end(), nodes[i]->children.begin(), nodes[i]->children.end());
    nodes.insert(nodes.end(), nodes[i]->young.begin(), nodes[i]->young.end());
  }
  for (size_t i = 1; i < nodes.size(); ++i) delete nodes[i];
}

}  // namespace

int64_t common_beginning(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t size = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(size), b.begin()).first - a.begin();
}

std::span<const TokenId> Node::first_tile_tokens() const { return first_tile_of(tokens); }

bool Node::FirstTileOrder::operator()(const Node* a, const Node* b) const {
  return less(a->first_tile_tokens(), b->first_tile_tokens());
}
bool Node::FirstTileOrder::operator()(const Node* a, std::span<const TokenId> b) const { return less(a->first_tile_tokens(), b); }
bool Node::FirstTileOrder::operator()(std::span<const TokenId> a, const Node* b) const { return less(a, b->first_tile_tokens()); }

PrefixTree::~PrefixTree() {
  for (const auto& [key_space, root] : roots_) delete_below(root.get());
}

std::unique_ptr<Node> PrefixTree::make_node() const {
  auto node = std::make_unique<Node>();
  node->places.resize(groups_);
  return node;
}

Node* PrefixTree::find_root(std::string_view key_space) const {
  const auto found = roots_.find(key_space);
  return found == roots_.end() ? nullptr : found->second.get();
}

Node* PrefixTree::root(std::string_view key_space) {
  if (Node* root = find_root(key_space)) return root;
  const auto added = roots_.emplace(std::string(key_space), make_node()).first;
  added->second->key_space = added->first;
  return added->second.get();
}

PrefixTree::Nearest PrefixTree::nearest(const Node* parent, std::span<const TokenId> tokens) const {
  const std::span<const TokenId> key = first_tile_of(tokens);
  Nearest best;
  const auto consider = [&](Node* node) {
    const int64_t common = common_beginning(node->first_tile_tokens(), key);
    if (common > best.common) best = {node, common};
  };
  // In lexicographic order nobody shares more with the key than its neighbours.
  const auto next = parent->children.lower_bound(key);
  if (next != parent->children.end()) consider(*next);
  if (next != parent->children.begin()) consider(*std::prev(next));
  for (Node* tail : parent->young) consider(tail);
  return best;
}

TreePoint PrefixTree::find(Node* root, std::span<const TokenId> tokens) const {
  Node* node = root;
  for (;;) {
    if (tokens.empty()) return {node, static_cast<int64_t>(node->tokens.size())};
    const Nearest child = nearest(node, tokens);
    if (child.common == 0) return {node, static_cast<int64_t>(node->tokens.size())};
    const int64_t common = child.common < kTileTokens ? child.common : common_beginning(child.node->tokens, tokens);
    if (common < static_cast<int64_t>(child.node->tokens.size()) || common % kTileTokens != 0) return {child.node, common};
    node = child.node;
    tokens = tokens.subspan(static_cast<size_t>(common));
  }
}

Node* PrefixTree::add_tail(Node* parent) {
  Node* node = make_node().release();
  node->parent = parent;
  node->first_tile = parent->first_tile + static_cast<int64_t>(parent->tokens.size()) / kTileTokens;
  node->tail = true;
  ++nodes_;
  attach(node);
  return node;
}

void PrefixTree::attach(Node* node) {
  QUIRE_DCHECK(static_cast<int64_t>(node->parent->tokens.size()) % kTileTokens == 0);
  if (node->tail && node->tokens.size() < kTileTokens) {
    node->parent->young.push_back(node);
    return;
  }
  const bool inserted = node->parent->children.insert(node).second;
  QUIRE_CHECK(inserted, "K6: two children with the same first tile");
}

void PrefixTree::detach(Node* node) {
  std::vector<Node*>& young = node->parent->young;
  if (const auto found = std::find(young.begin(), young.end(), node); found != young.end()) {
    *found = young.back();
    young.pop_back();
    return;
  }
  const size_t erased = node->parent->children.erase(node);
  QUIRE_CHECK(erased == 1, "a node hangs below its parent");
}

Node* PrefixTree::split(Node* node, int64_t tiles) {
  const int64_t tokens = tiles * kTileTokens;
  QUIRE_CHECK(tiles > 0 && tokens <= static_cast<int64_t>(node->tokens.size()) && node->parent != nullptr);
  QUIRE_CHECK(node->tail || tokens < static_cast<int64_t>(node->tokens.size()));
  detach(node);
  Node* front = make_node().release();
  ++nodes_;
  front->parent = node->parent;
  front->first_tile = node->first_tile;
  front->readers = node->readers;
  front->last_use = node->last_use;
  move_front(node->tokens, static_cast<size_t>(tokens), front->tokens);
  for (size_t group = 0; group < groups_; ++group)
    move_front(node->places[group], static_cast<size_t>(tiles), front->places[group]);
  const auto behind = std::find_if(node->checkpoints.begin(), node->checkpoints.end(),
                                   [&](const Checkpoint& checkpoint) { return checkpoint.position > front->end(); });
  move_front(node->checkpoints, static_cast<size_t>(behind - node->checkpoints.begin()), front->checkpoints);
  node->first_tile += tiles;
  node->parent = front;
  attach(front);
  attach(node);
  return front;
}

bool PrefixTree::can_absorb_parent(const Node* node) {
  const Node* parent = node->parent;
  return parent != nullptr && parent->parent != nullptr && parent->children.size() + parent->young.size() == 1 && parent->pins == 0;
}

void PrefixTree::absorb_parent(Node* node) {
  QUIRE_CHECK(can_absorb_parent(node));
  Node* parent = node->parent;
  detach(node);
  detach(parent);
  node->parent = parent->parent;
  node->first_tile = parent->first_tile;
  prepend(node->tokens, parent->tokens);
  for (size_t group = 0; group < groups_; ++group) prepend(node->places[group], parent->places[group]);
  prepend(node->checkpoints, parent->checkpoints);
  attach(node);
  --nodes_;
  delete parent;
}

void PrefixTree::remove(Node* node) {
  QUIRE_CHECK(node->leaf() && node->pins == 0 && node->readers == 0);
  --nodes_;
  delete node;
}

void PrefixTree::remove_root_if_empty(const Node* root) {
  if (root->leaf()) roots_.erase(roots_.find(root->key_space));
}

void PrefixTree::visit(const std::function<void(const Node&)>& visitor) const {
  std::map<std::string_view, const Node*> roots;
  for (const auto& [key_space, root] : roots_) roots.emplace(key_space, root.get());
  std::vector<const Node*> stack;
  for (const auto& [key_space, root] : roots) {
    stack.push_back(root);
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      visitor(*node);
      stack.insert(stack.end(), node->young.rbegin(), node->young.rend());
      stack.insert(stack.end(), node->children.rbegin(), node->children.rend());
    }
  }
}

}  // namespace quire::kv
