// The KV memory of all sequences: a prefix tree over tokens whose nodes view tiles of virtually contiguous segments, inside a
// budget.
//
// For whom: an engine that computes steps for many sequences. The cache knows tokens and bytes, never tensors.
//
//   asking        match(): how much of a prompt is there already. Changes nothing, not even recency.
//   a sequence    open() -> [ plan() -> BackingPlan::back() -> commit() -> the step writes -> append() ]* -> close()
//   views         runs(): where the tiles of a sequence are, for kernels
//
// Rules:
// * Whole tiles are shared. The tokens of a partly matching tile are copied by open(), so that a hit is exact to the token.
// * Every token that append() took is in the tree and can be matched at once; a whole tile never changes any more (K4). Of two
//   sequences that come to hold the same tile the first keeps it and the other drops its own.
// * A windowed layer group holds what running sequences see and what checkpoints keep. A hit ends at a checkpoint; without windowed
//   groups every position is one. Checkpoints are kept one before a prompt's end (the last token of a prompt is always computed),
//   at the end of a closed sequence, where prompts part, and where want_checkpoint() asks.
// * What no running sequence reads is cache: evicted from the ends of branches, cheapest loss first, when plan() needs room.
//
// Only the owner thread calls any of this, between steps. BackingPlan::back() alone may run on another thread, while a step
// computes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kv/budget.h"
#include "kv/eviction_order.h"
#include "kv/layer_group.h"
#include "kv/prefix_tree.h"
#include "kv/segment_pool.h"
#include "kv/tile_ledger.h"
#include "port/vm.h"

namespace quire::kv {

using SequenceId = Quantity<struct SequenceIdTag>;

struct KvCacheOptions {
  Bytes limit;
  bool share = true;  // false: nothing is matched, nothing is kept after close()
  SegmentPoolOptions segments = {};
};

// How much of a prompt a new sequence would find.
struct Match {
  TokenCount reusable;  // tokens whose keys and values it has at once; at most all but the last, ends at a checkpoint
  TokenCount known;     // tokens that the tree holds in groups without a window; >= reusable
  Bytes pinned;         // what opening takes: cached bytes that become live, and the tile that is copied
};

// After the step the sequence has `length` tokens.
struct Growth {
  SequenceId sequence;
  TokenCount length;
};

// A run of consecutive tiles of a sequence in one layer group: the record of tile t of the group's layer number l is at
// base + l x layer_stride + (t - first_tile) x tile_stride.
struct Run {
  std::byte* base = nullptr;
  int64_t layer_stride = 0;  // bytes
  int64_t tile_stride = 0;   // bytes
  TileIndex first_tile;
  TileCount tiles;

  friend bool operator==(const Run&, const Run&) = default;
};

// What the cache holds now.
struct Usage {
  Bytes limit;
  Bytes backed;  // all purposes
  Bytes live;    // read by one running sequence
  Bytes shared;  // by several
  Bytes cached;  // by none
  Bytes warm;    // backed, holds nothing
  Bytes page_tables;
  Bytes evictable;  // what could be given back now if all cache had to go: cached and warm
  // Since the beginning.
  Bytes evicted;              // given back although it held tokens somebody might have come back for
  TokenCount evicted_tokens;  // of nodes that went
  Bytes allocated;            // backed by the port
};

// What a step needs of the operating system. Made by KvCache::plan, taken over by KvCache::commit.
class BackingPlan {
 public:
  BackingPlan() = default;
  BackingPlan(BackingPlan&&) noexcept = default;
  BackingPlan& operator=(BackingPlan&&) noexcept = default;

  [[nodiscard]] bool empty() const { return parts_.empty(); }
  [[nodiscard]] Bytes bytes() const { return promise_ ? promise_->bytes() : Bytes(0); }

  // Asks the port for all of it. Any thread; calls nothing but the port; once.
  void back();

 private:
  friend class KvCache;
  // Consecutive tiles that a sequence gets in one segment.
  struct Part {
    SequenceId sequence;
    SegmentSet* set;
    int64_t set_first_tile;  // the sequence's tile that is tile 0 of the set
    size_t group;
    TileRun run;
    std::vector<port::VmRange> ranges;  // what the port must back
  };
  std::vector<Part> parts_;
  std::vector<SegmentSet*> new_sets_;
  std::optional<Promise> promise_;
  Status failure_;        // of the port
  bool refused_ = false;  // the port had no memory
  bool done_ = false;
};

// The answer of plan(): whether there is room, and otherwise how many bytes are missing after everything evictable went.
struct Room {
  Space space = Space::kOk;
  Bytes missing;
};

class KvCache {
 public:
  // `port` must outlive the cache. At least one group.
  KvCache(port::Vm& port, std::vector<LayerGroupSpec> groups, const KvCacheOptions& options);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  // Every sequence is closed by then.
  ~KvCache();

  // --- Asking. `key_space` tells apart what must never be shared (tenant salt, adapter, ...): equal bytes, same tree.

  [[nodiscard]] Match match(std::string_view key_space, std::span<const TokenId> tokens) const;

  // Bytes, page tables included, that a sequence needs at most to grow from `from` to `to` tokens in steps of at most `step`
  // tokens. From 0: everything that it needs alone. Opened with more max_tokens than `to` it may get a set with more page tables;
  // if others read its windows too, what it leaves behind stays.
  [[nodiscard]] Bytes growth_bytes(TokenCount from, TokenCount to, TokenCount step) const;

  [[nodiscard]] Usage usage() const;
  [[nodiscard]] const std::vector<LayerGroupSpec>& groups() const;

  // --- Sequences

  // A sequence for `tokens` (a prompt, at least one) that may reach `max_tokens`. It begins with as many of them as match() says:
  // length(). The rest is computed and handed to append(). Nothing: no room for the tile that must be copied; nothing has changed.
  // An error is the port's.
  [[nodiscard]] Result<std::optional<SequenceId>> open(std::string_view key_space, std::span<const TokenId> tokens,
                                                       TokenCount max_tokens);

  // Another sequence with the same tokens: whole tiles are shared, the last partial one is copied.
  [[nodiscard]] Result<std::optional<SequenceId>> fork(SequenceId sequence);

  // Asks for a checkpoint where the sequence, not there yet, passes `position`.
  void want_checkpoint(SequenceId sequence, TokenCount position);

  // The sequence ends. kCache: what it computed stays, for those who come, as long as there is room; kDrop: what nobody else holds
  // goes at once.
  enum class Keep { kCache, kDrop };
  void close(SequenceId sequence, Keep keep);

  [[nodiscard]] TokenCount length(SequenceId sequence) const;
  [[nodiscard]] size_t sequences() const;

  // --- A step

  // Plans that each sequence grows to its length, from counts alone; each sequence at most once. Evicts what it must and promises
  // the bytes. kNoSpace: nothing is planned (what was evicted stays so). A plan must be committed before anything else below or
  // above that changes the cache; asking and views are free.
  [[nodiscard]] Room plan(std::span<const Growth> growths, BackingPlan& plan);

  // Takes over what back() has done: all of it, or, when the port refused or failed, none. kNoSpace: the port has no memory; the
  // limit was lowered to what is backed. An error is the port's.
  [[nodiscard]] Result<Space> commit(BackingPlan&& plan);

  // plan, back and commit at once.
  [[nodiscard]] Result<Room> prepare(std::span<const Growth> growths);

  // The step has computed `tokens` after those held; memory for them was committed.
  void append(SequenceId sequence, std::span<const TokenId> tokens);

  // --- Views: valid until the next open, fork, close, commit or append of the same sequence; what they name stays until then.

  // In position order, without gaps, from the first tile that the next token sees or one before it. The last run reaches to the end
  // of its segment. Tiles beyond length() are only addresses until they are committed, and so are tiles that a window left behind.
  [[nodiscard]] std::span<const Run> runs(SequenceId sequence, size_t group) const;
  // Grows with each change of a run other than by tiles that the last one covered already: views made from runs() can be kept
  // until then.
  [[nodiscard]] int64_t runs_version(SequenceId sequence) const;

  // --- Memory

  // The ceiling; may be below what is held. Nothing is given back yet.
  void set_limit(Bytes limit);
  // Gives warm memory, then cache back until the limit holds, at most about `at_most` bytes at once (a step must not wait long).
  // Answers the bytes over the limit that only the end of running sequences could free, 0 when the limit holds or more could go.
  Bytes enforce_limit(Bytes at_most = Bytes(INT64_MAX));
  // Everything that no running sequence reads.
  void clear();

  // --- Proof

  // Empty when K1 to K9 hold, otherwise the first that does not, with values. Walks everything and asks the port about every
  // granule.
  [[nodiscard]] std::string verify() const;
  // The state in lines that can be compared.
  [[nodiscard]] std::string dump() const;

 private:
  struct Sequence {
    Node* tail = nullptr;
    TokenCount length;
    TokenCount max_tokens;
    int64_t committed_tiles = 0;         // of its path: backed
    SegmentSet* set = nullptr;           // where its next tile goes, if it has room
    int64_t set_first_tile = 0;          // the sequence's tile that is tile 0 of the set
    std::vector<int64_t> window_first;   // by group: tiles from here on count it as a reader (windowed groups)
    std::vector<int64_t> wanted;         // positions of checkpoints to come, ascending
    std::vector<std::vector<Run>> runs;  // by group
    int64_t runs_version = 0;
    bool runs_stale = false;
  };

  [[nodiscard]] Sequence& sequence(SequenceId id);
  [[nodiscard]] const Sequence& sequence(SequenceId id) const;
  [[nodiscard]] TreePoint find(std::string_view key_space, std::span<const TokenId> tokens) const;
  [[nodiscard]] TreePoint last_checkpoint(TreePoint point) const;
  [[nodiscard]] bool can_extend(const TreePoint& point) const;
  [[nodiscard]] Bytes first_tile_bytes() const;
  [[nodiscard]] Bytes cached_bytes(const Node& node, size_t group, int64_t first, const Match& match) const;

  // Opening.
  [[nodiscard]] Result<std::optional<SequenceId>> open_at(TreePoint point, TokenCount max_tokens);
  Node* tail_at(TreePoint point, Node*& copy_from);
  void extend_in_place(Node* node, Sequence& sequence);
  void count_readers(Sequence& sequence, TokenCount length);
  [[nodiscard]] Result<Room> copy_tile(SequenceId id, Node* source, int64_t tokens);

  // A step.
  [[nodiscard]] bool plan_growth(const Growth& growth, BackingPlan& plan);
  [[nodiscard]] SegmentSet* take_set(int64_t tiles);
  void undo(BackingPlan& plan);
  void commit_part(const BackingPlan::Part& part, Promise& promise);
  void rebuild_runs(Sequence& sequence);
  void publish(Sequence& sequence);
  void join_sibling(Sequence& sequence, Node* sibling);
  void leave_windows(Sequence& sequence);

  // Checkpoints.
  void add_checkpoint(Node* node, int64_t position);
  void drop_checkpoint(Node* node, size_t index);
  void touch_checkpoint(const TreePoint& point);
  [[nodiscard]] static Place& place_of(Node* node, int64_t tile, size_t group);
  Node* split(Node* node, int64_t tiles);
  void absorb_parent(Node* node);

  // Eviction.
  void touch_path(Node* node);
  void settle(Node* node);
  void update_victim(Node* node);
  [[nodiscard]] bool covered(const Node* node) const;
  void remove_detached(Node* node);
  void cut(Node* node, int64_t end);
  static void lower_end(Node* node);
  [[nodiscard]] bool evict(Bytes bytes);
  [[nodiscard]] bool free_some(Bytes bytes);

  // Proof.
  [[nodiscard]] std::string verify_tree() const;
  [[nodiscard]] std::string verify_counts() const;
  [[nodiscard]] std::string verify_sequences() const;

  port::Vm& port_;
  const std::vector<LayerGroupSpec> groups_;
  const bool share_;
  const TileCount largest_set_;
  bool has_windows_ = false;
  size_t widest_group_ = 0;  // of which sequences read most
  Bytes tile_bytes_;         // of one tile in all groups
  Budget budget_;
  SegmentPool pool_;
  PrefixTree tree_;
  TileLedger ledger_;
  EvictionOrder order_;
  std::unordered_map<int64_t, std::unique_ptr<Sequence>> sequences_;
  int64_t next_sequence_ = 0;
  bool plan_outstanding_ = false;
  Bytes evicted_;
  int64_t removed_tokens_ = 0;  // by whatever way
  TokenCount evicted_tokens_;
  Bytes allocated_;
};

}  // namespace quire::kv
