// Every island, and the GEMMs that end islands, as test cases: inputs, default body or the backend's own, and
// the least it moves and computes. One list serves the comparison of a backend with its default islands, of
// two backends with each other, and `bench kernels`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases/layers.h"
#include "ops/ops.h"

namespace fulmar::cases {

// One layer of a backend, as islands under test see it. Weights are made when first used.
class CaseLayer {
 public:
  using Tensors = std::vector<Tensor>;

  virtual ~CaseLayer() = default;
  virtual Ops& ops() = 0;
  virtual int version() const { return 7; }     // of the layer whose products are used: 7 or 6
  virtual double zeros() const { return 0.9; }  // share of zeros after relu²
  virtual const LayerShape& shape() const = 0;
  virtual const Batch& batch() const = 0;
  virtual WeightSource& weights() = 0;
  virtual StateField field(size_t index) const = 0;  // of the state, by its place in the block's list

  // Adds an input tensor, in the island's order: numbers in [low, high), a share of them zero. The island may
  // change it.
  virtual void give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros = 0) = 0;
  // Adds the first row of tensor `index` as f32 [1, cols].
  virtual void give_first_row_of(size_t index) = 0;
  // Marks a tensor as working memory: its contents are not compared.
  virtual void forget(const Tensor& tensor) = 0;
  // Adds to x what one backend leaves pending and another has already added, before results are compared.
  virtual void add_pending(const Tensor& x, const Tensor& pending) = 0;
  virtual void finished(const Status& status) = 0;  // of check_layer

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

// The least that a call moves and computes.
struct Work {
  double parameters = 0;  // of its matrices
  double units = 0;       // [rows, C] activations read or written
  bool states = false;    // reads and writes the recurrent states
};

struct Island {
  using Run = std::function<void(const CaseLayer::Tensors&, Body)>;
  std::string name;
  int version = 0;                              // 7, 6, or 0: both
  std::function<Run(CaseLayer&)> prepare;       // makes weights and inputs; the stage outlives the run
  std::function<Work(const LayerShape&)> work;  // empty: not timed by itself
  // Factor on the tolerance, for cases that add up more rounding errors.
  double slack = 1;
};
const std::vector<Island>& islands();

// Returns the GEMMs that islands end with, each alone; there is no second body to compare them with.
const std::vector<Island>& products();

}  // namespace fulmar::cases
