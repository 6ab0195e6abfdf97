// The KV memory of one sequence: a segment for each layer group, grown together as tokens come, trimmed behind windows.
//
//   prepare(n)   before a step after which the sequence has n tokens: everything that the step writes is backed
//   (the step writes the records of positions < n)
//   trim(n)      after it: what no later query sees goes back
//
// A windowed group keeps [n - window + 1, n), what a query at n or later sees, and while a step computes several tokens also what
// its first query sees: prepare backs ahead and never gives back. Addresses are reserved for the whole of `max_tokens` in every
// group.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/budget.h"
#include "kv/layer_group.h"
#include "kv/segment.h"
#include "port/vm.h"

namespace quire::kv {

class SequenceMemory {
 public:
  // Reserves; nothing is backed or charged. `max_tokens` > 0 bounds prepare(). `backing_quantum` >= 1: tiles are backed so many at
  // a time where the budget allows it (fewer system calls for more memory that holds no token yet). `port` and `budget` must
  // outlive the object. Every model layer is in at most one group. An error says what could not be reserved.
  [[nodiscard]] static Result<SequenceMemory> create(port::Vm& port, Budget& budget, std::span<const LayerGroupSpec> groups,
                                                     TokenCount max_tokens, TileCount backing_quantum = TileCount(1));

  // Backs every group for `next_length` <= max_tokens tokens, all groups or none: after kNoSpace or an error everything is as it
  // was.
  [[nodiscard]] Result<Space> prepare(TokenCount next_length);

  // The sequence has `length` tokens, which prepare() has backed: gives back what lies before the windows.
  void trim(TokenCount length);

  // The record of tile t (of positions [32t, 32t + 32)) of a model layer is at base + t x tile_stride. Valid for t in
  // [first_tile(layer), tiles of the last prepare).
  [[nodiscard]] Stripe stripe(int layer) const;
  // The first tile that the layer still holds.
  [[nodiscard]] TileIndex first_tile(int layer) const;

  [[nodiscard]] TokenCount max_tokens() const { return max_tokens_; }
  // Physical memory of tiles; page tables.
  [[nodiscard]] Bytes backed_bytes() const;
  [[nodiscard]] Bytes page_table_bytes() const;
  // Bytes of backed_bytes() that hold one of the first `length` tokens.
  [[nodiscard]] Bytes used_bytes(TokenCount length) const;

  // Empty when every segment and the budget keep their equations, otherwise the first that is broken.
  [[nodiscard]] std::string verify() const;
  [[nodiscard]] std::string dump() const;

 private:
  struct Place {
    int group = -1;  // -1: the layer has no KV here
    int layer_in_group = 0;
  };

  SequenceMemory(Budget& budget, std::span<const LayerGroupSpec> groups, TokenCount max_tokens, TileCount backing_quantum);

  [[nodiscard]] const Place& place_of(int layer) const;
  [[nodiscard]] Result<Space> back_group(Segment& segment, TileCount tiles) const;

  Budget* budget_;
  std::vector<LayerGroupSpec> groups_;
  TokenCount max_tokens_;
  TileCount backing_quantum_;
  std::vector<Segment> segments_;  // one for each group
  std::vector<Place> places_;      // by model layer
};

}  // namespace quire::kv
