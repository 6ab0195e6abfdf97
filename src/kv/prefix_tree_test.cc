// The tree against a set of strings: every text that was put into it and not cut away.
#include "kv/prefix_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kv/kv_cache_test_support.h"

namespace quire::kv {
namespace {

// The longest beginning that any of the texts has.
int64_t longest(const std::multiset<Tokens>& texts, const Tokens& tokens) {
  int64_t best = 0;
  for (const Tokens& text : texts) best = std::max(best, common_beginning(text, tokens));
  return best;
}

Tokens path_of(const Node* node) {
  Tokens tokens;
  for (; node->parent != nullptr; node = node->parent) tokens.insert(tokens.begin(), node->tokens.begin(), node->tokens.end());
  return tokens;
}

std::multiset<Tokens> leaves_of(const PrefixTree& tree) {
  std::multiset<Tokens> leaves;
  tree.visit([&](const Node& node) {
    if (node.parent != nullptr && node.leaf()) leaves.insert(path_of(&node));
  });
  return leaves;
}

std::string fault_of(const PrefixTree& tree) {
  std::string fault;
  size_t nodes = 0;
  tree.visit([&](const Node& node) {
    if (node.parent != nullptr) ++nodes;
    if (node.parent != nullptr && node.tokens.empty()) fault = "a node without tokens";
    if (node.parent != nullptr &&
        node.first_tile != node.parent->first_tile + static_cast<int64_t>(node.parent->tokens.size()) / 32)
      fault = "a node that begins elsewhere";
    if (!node.leaf() && node.tokens.size() % kTileTokens != 0) fault = "K5: a partial tile inside";
    for (const auto& places : node.places) {
      if (static_cast<int64_t>(places.size()) != ceil_div(static_cast<int64_t>(node.tokens.size()), kTileTokens)) fault = "places";
    }
    for (const Checkpoint& checkpoint : node.checkpoints) {
      if (checkpoint.position <= node.begin() || checkpoint.position > node.end()) fault = "a checkpoint elsewhere";
    }
  });
  return nodes == tree.nodes() ? fault : "nodes counted wrongly";
}

// Puts the text where it belongs, as whole tiles allow. Nothing happens when a text with the same tiles is there.
void put(PrefixTree& tree, Node* root, const Tokens& tokens, int64_t checkpoint) {
  TreePoint point = tree.find(root, tokens);
  const int64_t position = point.position() / kTileTokens * kTileTokens;
  if (position + (point.position() - position) == static_cast<int64_t>(tokens.size())) return;
  Node* parent = point.node;
  const int64_t tiles = point.offset / kTileTokens;
  if (tiles > 0 && point.offset < static_cast<int64_t>(point.node->tokens.size())) {
    parent = tree.split(point.node, tiles);
  } else if (tiles > 0 && point.offset % kTileTokens != 0) {
    parent = tree.split(point.node, tiles);
  } else if (point.offset % kTileTokens != 0) {
    parent = point.node->parent;
  }
  Node* node = tree.add_tail(parent);
  tree.detach(node);
  node->tail = false;
  node->tokens.assign(tokens.begin() + position, tokens.end());
  for (auto& places : node->places) places.resize(static_cast<size_t>(ceil_div(static_cast<int64_t>(node->tokens.size()), 32)));
  if (checkpoint > node->begin() && checkpoint <= node->end()) node->checkpoints.push_back({.position = checkpoint});
  tree.attach(node);
}

TEST(PrefixTreeModel, FindsWhatASetOfStringsFinds) {
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
    const auto any_tokens = [&] {
      Tokens tokens;
      for (int64_t i = 0, size = 1 + pick(150); i < size; ++i)
        tokens.push_back(pick(9) == 0 ? 1 + static_cast<TokenId>(pick(2)) : 0);
      return tokens;
    };
    PrefixTree tree(2);
    Node* root = tree.root("");
    std::multiset<Tokens> texts;
    for (int step = 0; step < 150 && !HasFailure(); ++step) {
      if (pick(3) != 0) {
        const Tokens tokens = any_tokens();
        put(tree, root, tokens, 1 + pick(tokens.size()));
        texts.insert(tokens);
      } else if (!texts.empty()) {
        // A leaf goes, and its parent joins the only child that is left.
        const std::multiset<Tokens> leaves = leaves_of(tree);
        auto chosen = leaves.begin();
        std::advance(chosen, pick(leaves.size()));
        Node* node = tree.find(root, *chosen).node;
        ASSERT_TRUE(node->leaf());
        Node* parent = node->parent;
        tree.detach(node);
        tree.remove(node);
        if (parent->parent != nullptr && parent->children.size() == 1) tree.absorb_parent(*parent->children.begin());
        texts = leaves_of(tree);
      }
      ASSERT_EQ(fault_of(tree), "") << "step " << step;
      for (int question = 0; question < 5; ++question) {
        const Tokens tokens = any_tokens();
        const TreePoint point = tree.find(root, tokens);
        ASSERT_EQ(point.position(), longest(texts, tokens));
        Tokens path = path_of(point.node);
        path.resize(static_cast<size_t>(point.position()));
        ASSERT_EQ(path, first(tokens, point.position())) << "a match is equal tokens, not an equal hash";
      }
    }
  }
}

TEST(PrefixTree, ATailKeepsItsIdentityWhenItsFrontIsCutOff) {
  PrefixTree tree(1);
  Node* tail = tree.add_tail(tree.root(""));
  tree.detach(tail);
  tail->tokens = text(1, 70);
  tail->places[0].resize(3);
  tail->checkpoints = {{.position = 32}, {.position = 33}};
  tree.attach(tail);
  const Node* front = tree.split(tail, 1);
  EXPECT_EQ(tail->parent, front);
  EXPECT_EQ(front->tokens, text(1, 32));
  EXPECT_EQ(tail->begin(), 32);
  EXPECT_EQ(tail->end(), 70);
  EXPECT_EQ(front->checkpoints.size(), 1);
  EXPECT_EQ(tail->checkpoints.size(), 1);
  ASSERT_TRUE(PrefixTree::can_absorb_parent(tail));
  tree.absorb_parent(tail);
  EXPECT_EQ(tail->tokens, text(1, 70));
  EXPECT_EQ(tail->checkpoints.size(), 2);
  EXPECT_EQ(tree.nodes(), 1);
}

TEST(PrefixTree, AYoungTailIsFoundAmongItsElders) {
  PrefixTree tree(1);
  Node* root = tree.root("");
  Node* young = tree.add_tail(root);
  tree.detach(young);
  young->tokens = text(1, 20);
  tree.attach(young);
  Node* empty = tree.add_tail(root);
  EXPECT_EQ(tree.find(root, text(1, 100)).node, young);
  EXPECT_EQ(tree.find(root, text(1, 100)).position(), 20);
  EXPECT_EQ(tree.find(root, text(2, 100)).node, root);
  tree.detach(empty);
  tree.remove(empty);
}

TEST(PrefixTree, RootsAreKeptApartAndGoWhenEmpty) {
  PrefixTree tree(1);
  EXPECT_EQ(tree.find_root("a"), nullptr);
  Node* a = tree.root("a");
  EXPECT_NE(a, tree.root("b"));
  EXPECT_EQ(a, tree.root("a"));
  Node* tail = tree.add_tail(a);
  tree.remove_root_if_empty(a);
  EXPECT_EQ(tree.find_root("a"), a) << "somebody hangs below it";
  tree.detach(tail);
  tree.remove(tail);
  tree.remove_root_if_empty(a);
  EXPECT_EQ(tree.find_root("a"), nullptr);
}

TEST(PrefixTreeDeath, TwoChildrenNeverHaveTheSameFirstTile) {
  PrefixTree tree(1);
  const auto add = [&] {
    Node* node = tree.add_tail(tree.root(""));
    tree.detach(node);
    node->tail = false;
    node->tokens = text(1, 40);
    node->places[0].resize(2);
    tree.attach(node);
  };
  add();
  EXPECT_DEATH(add(), "K6");
}

}  // namespace
}  // namespace quire::kv
