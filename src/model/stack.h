// A model's blocks, with its embedding before and its head after them, in calls that also run a part of the
// layers: embed, layers [first, last), head. One step is all three; a pipeline stage is some.
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

// Layers [first, last) of a model.
struct LayerRange {
  int64_t first = 0;
  int64_t last = 0;

  int64_t count() const { return last - first; }
  bool operator==(const LayerRange&) const = default;
};

// What one layer passes to the next; [rows, C] each, values [rows, A] as in ops/args.h.
struct Stream {
  Tensor x;             // the residual stream, in the residual type
  Addend pending;       // what is still to be added to x
  Tensor v_first;       // RWKV-7: values of block 0, which it writes
  Tensor v_first_wide;  // f32 [1, A]: the same at batch 1, for backends that keep f32
};

class Stack {
 public:
  // Binds the weights of `held` layers for the model version in the binder's config: with the first layer
  // also the embedding (every stage has it where layers look up tokens, as in RWKV-7a), with the last one the
  // head. Declares the activations of steps of at most max_rows rows in `buffers`. `loaded(l)` is called
  // after the embedding, l = held.first, and after each block below l. Fails as the binder or the backend
  // does.
  static Result<std::unique_ptr<Stack>> bind(Binder& binder, Buffers& buffers, int64_t max_rows,
                                             LayerRange held, const std::function<void(int64_t)>& loaded);
  virtual ~Stack() = default;
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  LayerRange held() const { return held_; }
  bool embeds() const { return held_.first == 0; }
  bool reads_out() const { return held_.last == n_layer_; }
  const Slice& slice() const { return slice_; }
  // Sets the collective of the ranks that have the other slices of the same layers; it outlives the stack's
  // steps.
  void share_with(Collective* ranks);

  // Returns the stream of a batch in the stack's buffers: nothing pending, other tensors as they were left.
  Stream stream(const Batch& batch) const;
  // Computes x at the input of layer 0.
  void embed(const Batch& batch, const Stream& stream);
  // Runs layers [first, last) over the stream and updates their part of the states of the batch's slots.
  // Layer numbers are the model's; `state` has the held layers alone.
  virtual void layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) = 0;
  // Adds what is pending to x.
  void absorb(Stream& stream);
  // Computes the outputs of the wanted rows after the last layer: hidden [wanted, C], logits f32 [wanted, V]
  // or a slice's part of V.
  void head(const Batch& batch, const Stream& stream, Tensor hidden, Tensor logits);

 protected:
  Stack(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows);

  Ops& ops() const { return ops_; }
  Collective* ranks() const { return ranks_; }
  int64_t head_width() const { return head_width_; }  // A
  const Embedding& embedding() const { return embedding_; }
  // Returns the addend of each half of a block. With slices they alternate between two buffers, as
  // register_addends requires.
  Addend time_mixed(const Batch& batch) const { return {pending_[0].slice_rows(0, batch.rows), ranks_}; }
  Addend channel_mixed(const Batch& batch) const {
    return {pending_[slice_.whole() ? 0 : 1].slice_rows(0, batch.rows), ranks_};
  }

 private:
  virtual Status bind_layer(Binder& binder, int64_t layer) = 0;

  Ops& ops_;
  const int64_t n_layer_;  // of the whole model
  const LayerRange held_;
  const Slice slice_;
  const int64_t head_width_;
  Collective* ranks_ = nullptr;
  Embedding embedding_;
  Head head_;
  Tensor x_, pending_[2], v_first_, v_first_wide_;  // as in Stream
};

}  // namespace fulmar
