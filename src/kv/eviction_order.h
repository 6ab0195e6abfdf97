// In which order cache goes: cheapest loss first, in recency on a logical clock.
//
// GreedyDual (Young, "The k-server dual and loose competitiveness for paging", 1994; Cao and Irani, 1997): what is used gets the
// rank floor + loss, what goes is the smallest rank, and the floor rises to the rank of what went. With equal losses that is LRU; a
// larger loss counts like a more recent use.
#pragma once

#include <cstdint>
#include <map>

#include "base/units.h"

namespace quire::kv {

struct Node;

// When something was last used: the floor at that time, and the tick that tells it from everything else.
struct LastUse {
  double floor = 0;
  int64_t tick = 0;
};

// Of one token more, relative to the first: computing a token costs a part that is the same everywhere and attention over all
// tokens before. At this distance both are about equal in small models; the figure only decides between otherwise equal losses.
inline constexpr double kAttentionDoublesCost = 16384;

// A place at which the tree can be cut: the end of a leaf, or a checkpoint at a position.
struct Victim {
  Node* node = nullptr;
  int64_t position = 0;
};

class EvictionOrder {
 public:
  [[nodiscard]] LastUse use() { return {floor_, ++tick_}; }

  // `last` and `position` are the key by which the victim is found again.
  void add(LastUse last, Victim victim) { victims_[key(last, victim.position)] = victim; }
  void remove(LastUse last, int64_t position) { victims_.erase(key(last, position)); }
  // The victim's tokens belong to another node now.
  void move(LastUse last, int64_t position, Node* node);

  // Smallest rank first; `accept` may refuse those that cannot go now. Null node: none.
  template <typename Accept>
  [[nodiscard]] Victim first(const Accept& accept) const {
    for (const auto& [rank, victim] : victims_) {
      if (accept(victim)) return victim;
    }
    return {};
  }
  // What had this key is gone: everything used from now on outranks it.
  void raise_floor(LastUse last, int64_t position) { floor_ = key(last, position).rank; }

  [[nodiscard]] bool contains(LastUse last, const Victim& victim) const;
  [[nodiscard]] size_t size() const { return victims_.size(); }

 private:
  struct Key {
    double rank;
    int64_t tick;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  [[nodiscard]] static Key key(LastUse last, int64_t position) {
    return {last.floor + 1 + static_cast<double>(position) / kAttentionDoublesCost, last.tick};
  }

  double floor_ = 0;
  int64_t tick_ = 0;
  std::map<Key, Victim> victims_;
};

}  // namespace quire::kv
