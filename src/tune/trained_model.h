// A whole model under training: the loss of a batch, and the gradients of whatever of its parameters is
// trained. Layer by layer: the stream that enters each layer is kept, and a layer runs again before its
// backward. Knows no data and no optimiser.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tune/block.h"
#include "tune/model_parameters.h"

namespace fulmar {

// Packed sequences, each with at least one token; no state passes from one to the next. A target below 0
// counts nothing; other targets and all tokens lie in the vocabulary, and at least one target counts.
struct TuneBatch {
  std::vector<int64_t> bounds = {0};
  std::vector<int32_t> tokens, targets;
};

// Returns how many targets count.
int64_t counted_targets(const TuneBatch& batch);

template <class Number>
class TrainedModel {
 public:
  // Binds the parameters, which stay where they are. Adapters have to be added before.
  explicit TrainedModel(ModelParameters<Number>& parameters);

  // Returns the mean cross-entropy over all targets of the batch that count.
  double loss(const TuneBatch& batch);
  // Returns the loss, and adds its gradients to the parameters that are trained.
  double loss_and_gradients(const TuneBatch& batch);

 private:
  // The streams into each layer and out of the last one.
  struct Streams {
    std::vector<Matrix<Number>> layers;
    Matrix<Number> v_first;
  };

  Streams forward(const TuneBatch& batch);
  Carry<Number> first_carry(int64_t layer, int64_t sequences) const;
  void add_carry_gradient(int64_t layer, const Carry<Number>& dcarry);
  // Returns the loss; adds to `dx`, the gradient of the last stream, unless it is null.
  double read_out(const TuneBatch& batch, const Matrix<Number>& x, Matrix<Number>* dx);
  void embed_backward(const TuneBatch& batch, Matrix<Number> dx);
  Matrix<Number> rows_of_tokens(const TuneBatch& batch) const;

  ModelParameters<Number>& parameters_;
  Parameter<Number>& embedding_;
  NormParameters<Number> ln0_, ln_out_;  // ln0 may be empty
  LinearParameters<Number> head_;
  std::vector<std::unique_ptr<TrainedBlock<Number>>> blocks_;
};

}  // namespace fulmar
