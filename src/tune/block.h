// One block of a model under training, of any version: binds its parameters by name, runs it and its
// backward. Knows no model.
#pragma once

#include <memory>

#include "ops/matrix.h"
#include "tune/model_parameters.h"

namespace fulmar {

template <class Number>
class TrainedBlock {
 public:
  virtual ~TrainedBlock() = default;

  // Returns the stream behind the block from the one before it, [rows, C], and keeps a tape. Block 0 writes
  // v_first, later ones may read it.
  virtual Matrix<Number> forward(SequenceBounds bounds, const Matrix<Number>& x, Matrix<Number>& v_first,
                                 Carry<Number>& carry) = 0;
  // Returns the gradient of the stream before the block from that of the one behind it, by the tape.
  virtual Matrix<Number> backward(SequenceBounds bounds, const Matrix<Number>& dout, Matrix<Number>& dv_first,
                                  Carry<Number>& dcarry) = 0;
  // Frees the tape.
  virtual void forget() = 0;
};

// Binds block `layer`. The parameters stay where they are.
template <class Number>
std::unique_ptr<TrainedBlock<Number>> make_trained_block(ModelParameters<Number>& parameters, int64_t layer);

// Binds X.weight with what an adapter adds to it.
template <class Number>
LinearParameters<Number> bind_linear(ModelParameters<Number>& parameters, const std::string& matrix);
template <class Number>
NormParameters<Number> bind_norm(ModelParameters<Number>& parameters, const std::string& norm);

}  // namespace fulmar
