// A block of RWKV-6 run for training, and its exact backward. How both are written: rwkv7/backward.h. Knows
// no device.
#pragma once

#include <array>

#include "ops/matrix.h"
#include "ops/parameters.h"
#include "rwkv6/vjp.h"

namespace fulmar {

template <class Number>
struct TimeMix6Parameters {
  NormParameters<Number> ln1;
  Parameter<Number>* mix_x = nullptr;          // [1, C]
  std::array<Parameter<Number>*, 5> mix = {};  // [1, C] in the order w, k, v, r, g
  Parameter<Number>* mix_w1 = nullptr;         // [C, 5 * Rm]
  Parameter<Number>* mix_w2 = nullptr;         // [5 * Rm, C], in the same order
  LinearParameters<Number> receptance, key, value, gate, output;
  LowRankParameters<Number> w;
  HeadVectors6<Number> vectors;
  NormParameters<Number> ln_x;
};

template <class Number>
struct ChannelMix6Parameters {
  NormParameters<Number> ln2;
  Parameter<Number>*mix_k = nullptr, *mix_r = nullptr;  // [1, C]
  LinearParameters<Number> key, value, receptance;
};

// What the forward of one half of a block leaves for its backward; every matrix has as many rows as x.
template <class Number>
struct TimeMix6Tape {
  Matrix<Number> x, z, previous;
  Matrix<Number> middle, low_mix;            // z mixed by mix_x; its low-rank path before the activation
  std::array<Matrix<Number>, 5> mix, mixed;  // mix vectors with what the data add; z mixed by them
  Matrix<Number> low_w, gate;                // gate before its activation
  HostProjected6<Number> p;
  KeptStates<Number> kept;
  Matrix<Number> y, normed, gated;
};
template <class Number>
struct ChannelMix6Tape {
  Matrix<Number> x, z, previous, mixed_k, mixed_r;
  Matrix<Number> hidden, squares, out, gate;  // out before the gate, gate before its activation
};

// Returns what time mixing adds to the stream x [rows, C]. The carry's att_shift and wkv go from those before
// the rows to those behind them.
template <class Number>
Matrix<Number> time_mix6(SequenceBounds bounds, const TimeMix6Parameters<Number>& att,
                         const Matrix<Number>& x, Carry<Number>& carry, TimeMix6Tape<Number>& tape);
// Returns the gradient of x from that of the result; `dcarry` goes from the gradient of the carry behind the
// rows to that of the one before them.
template <class Number>
Matrix<Number> time_mix6_vjp(SequenceBounds bounds, const TimeMix6Parameters<Number>& att,
                             const TimeMix6Tape<Number>& tape, const Matrix<Number>& dout,
                             Carry<Number>& dcarry);

// Runs channel mixing likewise, with the carry's ffn_shift.
template <class Number>
Matrix<Number> channel_mix6(SequenceBounds bounds, const ChannelMix6Parameters<Number>& ffn,
                            const Matrix<Number>& x, Carry<Number>& carry, ChannelMix6Tape<Number>& tape);
template <class Number>
Matrix<Number> channel_mix6_vjp(SequenceBounds bounds, const ChannelMix6Parameters<Number>& ffn,
                                const ChannelMix6Tape<Number>& tape, const Matrix<Number>& dout,
                                Carry<Number>& dcarry);

}  // namespace fulmar
