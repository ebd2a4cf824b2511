// The blocks of a model between its embedding and its head, as calls that can be made for a part of the
// layers: embed, layers [first, last), head. One step is all three; a stage of a pipeline is some of them.
#pragma once

#include <functional>
#include <memory>

#include "model/bind.h"
#include "model/buffers.h"

namespace fulmar {

// The weights of one block.
template <class TimeMix, class ChannelMix>
struct Layer {
  TimeMix att;
  ChannelMix ffn;
};

// What crosses from one layer to the next; [rows, C] each.
struct Stream {
  Tensor x;             // the residual stream, in the residual type
  Tensor pending;       // what is still to be added to x; empty: nothing
  Tensor v_first;       // RWKV-7: the values of block 0, which the first layer fills
  Tensor v_first_wide;  // f32 [1, C]: the same of a lone row, where a backend keeps more of it
};

class Stack {
 public:
  // Declares the activations for steps of at most max_rows rows in `buffers`, and binds the weights of the
  // version that the binder's config names; `loaded(l)` is called after each of the l blocks. Fails as the
  // binder or the backend does.
  static Result<std::unique_ptr<Stack>> bind(Binder& binder, Buffers& buffers, int64_t max_rows,
                                             const std::function<void(int64_t)>& loaded);
  virtual ~Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  int64_t n_layer() const { return n_layer_; }

  // The stream in front of layer 0, in buffers of the stack.
  Stream embed(const Batch& batch);
  // Runs layers [first, last) over the stream and updates their part of the states of the batch's slots.
  virtual void layers(const Batch& batch, const State& state, int64_t first, int64_t last,
                      Stream& stream) = 0;
  // The wanted rows of the stream behind the last layer: hidden [wanted, C], logits f32 [wanted, V].
  void head(const Batch& batch, const Stream& stream, Tensor hidden, Tensor logits);

 protected:
  Stack(const ModelConfig& config, Ops& ops, Buffers& buffers, int64_t max_rows);

  Ops& ops() const { return ops_; }
  const Embedding& embedding() const { return embedding_; }
  Tensor pending(const Batch& batch) const { return pending_.slice_rows(0, batch.rows); }

 private:
  virtual Status bind_layer(Binder& binder, int64_t layer) = 0;

  Ops& ops_;
  const int64_t n_layer_;
  Embedding embedding_;
  Head head_;
  Tensor x_, pending_, v_first_, v_first_wide_;  // as in Stream
};

}  // namespace fulmar
