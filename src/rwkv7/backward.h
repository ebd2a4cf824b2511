// A block of RWKV-7 run for training, and its exact backward. Each half of a block is a pair: the forward,
// which reads like its islands (rwkv7/islands.cpp) and leaves a tape of what the backward needs, and the
// backward, which walks the same lines from the last to the first. Knows no device; RWKV-7a is not covered.
#pragma once

#include <array>

#include "ops/matrix.h"
#include "ops/parameters.h"
#include "rwkv7/vjp.h"

namespace fulmar {

template <class Number>
struct TimeMix7Parameters {
  NormParameters<Number> ln1;
  std::array<Parameter<Number>*, 6> mix = {};  // [1, C] in the order r, w, k, v, a, g
  LinearParameters<Number> receptance, key, value, output;
  LowRankParameters<Number> w, a, v, g;  // v is empty in block 0, g has no bias
  HeadVectors7<Number> vectors;
  NormParameters<Number> ln_x;
};

template <class Number>
struct ChannelMix7Parameters {
  NormParameters<Number> ln2;
  Parameter<Number>* mix = nullptr;  // [1, C]
  LinearParameters<Number> key, value;
};

// What the forward of one half of a block leaves for its backward; every matrix has as many rows as x.
template <class Number>
struct TimeMix7Tape {
  Matrix<Number> x, z, previous;
  std::array<Matrix<Number>, 6> mixed;
  Matrix<Number> low_w, low_a, low_v, low_g;
  Matrix<Number> rate;                       // alpha before its activation
  Matrix<Number> own_value, v_first, share;  // share before its activation
  Matrix<Number> key;                        // before prepare_key7
  HostProjected7<Number> p;
  KeptStates<Number> kept;
  Matrix<Number> y, with_bonus, gated;  // of the recurrence; normed with the bonus; times the gate
};
template <class Number>
struct ChannelMix7Tape {
  Matrix<Number> x, z, previous, mixed, hidden, squares;
};

// Returns what time mixing adds to the stream x [rows, C]. In block 0, told by att.v, v_first <- v. The
// carry's att_shift and wkv go from those before the rows to those behind them.
template <class Number>
Matrix<Number> time_mix7(SequenceBounds bounds, const TimeMix7Parameters<Number>& att,
                         const Matrix<Number>& x, Matrix<Number>& v_first, Carry<Number>& carry,
                         TimeMix7Tape<Number>& tape);
// Returns the gradient of x from that of the result. `dv_first` holds what later blocks gave, [rows, C], and
// gets this block's part; `dcarry` goes from the gradient of the carry behind the rows to that of the one
// before them.
template <class Number>
Matrix<Number> time_mix7_vjp(SequenceBounds bounds, const TimeMix7Parameters<Number>& att,
                             const TimeMix7Tape<Number>& tape, const Matrix<Number>& dout,
                             Matrix<Number>& dv_first, Carry<Number>& dcarry);

// Runs channel mixing likewise, with the carry's ffn_shift.
template <class Number>
Matrix<Number> channel_mix7(SequenceBounds bounds, const ChannelMix7Parameters<Number>& ffn,
                            const Matrix<Number>& x, Carry<Number>& carry, ChannelMix7Tape<Number>& tape);
template <class Number>
Matrix<Number> channel_mix7_vjp(SequenceBounds bounds, const ChannelMix7Parameters<Number>& ffn,
                                const ChannelMix7Tape<Number>& tape, const Matrix<Number>& dout,
                                Carry<Number>& dcarry);

}  // namespace fulmar
