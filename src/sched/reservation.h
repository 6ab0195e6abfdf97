// How many bytes are set aside for the tokens to come, under each policy. What running jobs hold already is not part of it.
//
//   guaranteed   the sum of what everybody needs to reach prompt + max_new
//   optimistic   the sum of what everybody needs to have his known tokens (the prompt, and what he said after it) computed
//   expected     the peak over the steps to come. A job needs its known tokens at once, then grows by a token a step until its
//                predicted length, when it ends and gives back what it holds alone:
//
//                  peak over k of  sum over jobs that end at step t_k or later of (known_i + slope_i x t_k)
//                                  - sum over jobs that ended before of own_i
//
//                with slope_i the mean bytes a token up to the predicted end. Growth is a staircase of tiles; a straight line
//                through it is right on the average of many jobs, and being wrong costs a suspension, never an answer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "sched/scheduler.h"

namespace quire::sched {

class Reservation {
 public:
  struct Job {
    TokenCount held;       // in memory
    TokenCount known;      // of the prompt and the reply so far
    TokenCount end;        // prompt + max_new
    TokenCount predicted;  // when it will probably end, in (known, end]
    TokenCount own;        // from here on nobody shares what it holds
    bool holds = true;     // false: not opened yet, it gives back nothing that is held now
  };

  // `memory` must outlive it.
  Reservation(Reserve policy, const MemoryView& memory) : policy_(policy), memory_(&memory) {}

  void add(const Job& job);
  // What is set aside for all that were added, and for `candidate` besides.
  [[nodiscard]] Bytes with(const Job& candidate) const;
  [[nodiscard]] Bytes total() const;

 private:
  struct Part {
    int64_t steps = 0;  // until it ends
    double now = 0;     // bytes needed at once; all of them unless the policy is kExpected
    double slope = 0;   // bytes a step
    double gives = 0;   // back, at its end
  };
  [[nodiscard]] Part part(const Job& job) const;
  [[nodiscard]] Bytes peak(const Part* extra) const;

  Reserve policy_;
  const MemoryView* memory_;
  std::vector<Part> parts_;  // kExpected: by steps
  double sum_ = 0;           // the other policies
};

}  // namespace quire::sched
