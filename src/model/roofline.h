// The roofline of a model's steps: the least bytes they must move, the operations they must compute, and the
// time that takes on a device of measured ceilings. Pure functions; knows no backend.
#pragma once

#include <cstdint>
#include <vector>

#include "files/model_config.h"
#include "ops/ceilings.h"
#include "ops/state.h"

namespace fulmar {

// Packed rows of one step: how many, of how many sequences, and of how many the logits are computed.
struct StepRows {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t wanted = 0;
};

// A group of matrices that a step meets once: weights read (bytes) against multiply-adds (two operations per
// parameter and row). A group is bound by one of the two, whatever binds the others.
struct MatrixWork {
  double bytes = 0;
  double flop = 0;
};

struct StepWork {
  std::vector<MatrixWork> matrices;
  double state_bytes = 0;  // states and shift vectors, read and written
  double logit_bytes = 0;  // f32, written

  double weight_bytes() const;
  double flop() const;
  StepWork& operator+=(const StepWork& other);  // one step behind another
};

// `zeros`: share of the feed-forward's hidden channels that relu² leaves at zero, in [0, 1). Value rows that
// meet zeros in every row of a step need not be read: 1 - zeros^rows of them are. Weights count in the type
// that most parameters are stored in; the embedding is gathered and not counted.
// A step of one row per sequence writes the recurrence's part of 1 / M of its states, and reads and writes of
// a ring what is held on average.
StepWork step_work(const ModelConfig& config, const StateLayout& layout, const StepRows& shape, double zeros,
                   const RingLayout& ring = {});

// Seconds at the ceilings: for each group of matrices the longer of reading and multiplying, then states and
// logits at the copy rate (the read rate where that was not measured). 0 where ceilings are missing.
double roofline_seconds(const StepWork& work, const Ceilings& ceilings);

}  // namespace fulmar
