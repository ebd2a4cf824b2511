// The roofline of a model's steps: the fewest bytes that they move, the operations that they compute, and the
// time for these on a device of measured ceilings. Pure functions; knows no backend.
#pragma once

#include <cstdint>
#include <vector>

#include "files/model_config.h"
#include "ops/ceilings.h"
#include "ops/state.h"

namespace fulmar {

// The rows of one step: how many, of how many sequences, and how many with logits.
struct StepRows {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t wanted = 0;
};

// Matrices that a step reads once: bytes of weights, and parameters (two operations per parameter and row). A
// group is bound by one of the two, whatever bounds the others.
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
  StepWork& operator+=(const StepWork& other);  // this step followed by another
};

// Returns the work of a step. `zeros`: the fraction, in [0, 1), of the feed-forward's hidden channels that
// are zero after relu². Value rows whose inputs are zero in every row of a step need not be read: 1 -
// zeros^rows of them are. Weights count in the type that most parameters are stored in; the embedding is
// gathered and not counted. With deferred writes a step of one row per sequence counts 1 / M of the recurrent
// states' writes, and an average ring.
StepWork step_work(const ModelConfig& config, const StateLayout& layout, const StepRows& shape, double zeros,
                   const RingLayout& ring = {});

// Returns the seconds at the ceilings: for each group of matrices the longer of reading and multiplying, then
// states and logits at the copy rate (the read rate where that was not measured). 0 where ceilings are
// missing.
double roofline_seconds(const StepWork& work, const Ceilings& ceilings);

}  // namespace fulmar
