// Every island, and the products that they end with, as a subject: what it gets, how it is run in its default
// body or as the backend has it, and what it moves and computes at least. One list serves the comparison of a
// backend with itself, of two backends with each other, and `bench kernels`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases/layers.h"
#include "ops/ops.h"

namespace fulmar::cases {

// What one layer of a backend offers to an island. Weights are made when first asked for.
class Stage {
 public:
  using Tensors = std::vector<Tensor>;

  virtual ~Stage() = default;
  virtual Ops& ops() = 0;
  virtual int version() const { return 7; }     // of the layer whose products are asked for: 7 or 6
  virtual double zeros() const { return 0.9; }  // share of zeros behind relu²
  virtual const LayerShape& shape() const = 0;
  virtual const Batch& batch() const = 0;
  virtual WeightSource& weights() = 0;
  virtual StateField att_shift() const = 0;
  virtual StateField ffn_shift() const = 0;
  virtual StateField wkv() const = 0;

  // Tensors that the island gets, in this order, of numbers in [low, high), a share of them zero; it may
  // change any of them.
  virtual void give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros = 0) = 0;
  // The first row of tensor `index` as f32 [1, cols].
  virtual void give_first_row_of(size_t index) = 0;
  // Says that a tensor was working memory, whose contents mean nothing afterwards.
  virtual void forget(const Tensor& tensor) = 0;
  // Adds to x what one backend leaves pending and another has added already, where outcomes are compared.
  virtual void add_pending(const Tensor& x, const Tensor& pending) = 0;
  virtual void finished(const Status& status) = 0;  // of making the layer

  void give_rows(int count, double low = -1, double high = 1);  // activations [rows, C]
  void give_residual();

  const TimeMix7& time_mix7(bool first_block = false);
  const ChannelMix7& channel_mix7(bool deep = false);
  const TimeMix6& time_mix6();
  const ChannelMix6& channel_mix6();

 private:
  struct Layers;
  std::shared_ptr<Layers> layers_;
  Layers& layers();
};

enum class Body : uint8_t { composed, own };

// What a call has to move and compute at least.
struct Work {
  double parameters = 0;  // of its matrices
  double units = 0;       // [rows, C] activations read or written
  bool states = false;    // reads and writes the recurrent states
};

struct Island {
  using Run = std::function<void(const Stage::Tensors&, Body)>;
  std::string name;
  int version = 0;                              // 7, 6, or 0: of both
  std::function<Run(Stage&)> prepare;           // makes weights and inputs; the stage outlives the run
  std::function<Work(const LayerShape&)> work;  // empty: not worth timing by itself
  double slack = 1;                             // by how much more its rounding errors add up
};
const std::vector<Island>& islands();

// The products that islands end with, alone: what they compute has no other body.
const std::vector<Island>& products();

}  // namespace fulmar::cases
