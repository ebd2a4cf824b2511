// The islands as test subjects: weights and inputs made on one backend, run there in their default body or as
// the backend has them, and what they leave behind. One list serves the comparison of a backend with itself
// and of two backends with each other.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/ops_rig.h"

namespace fulmar::support {

struct IslandShape {
  std::string name;
  int64_t n_head, head_size, n_ffn, rank;
  DType dtype;                   // of the weights
  std::vector<int32_t> lengths;  // rows of each sequence

  int64_t width() const { return n_head * head_size; }
};

// One backend's inputs of an island.
class Stage {
 public:
  using Tensors = std::vector<Tensor>;

  // With `rounded_to` every number made is one of that type as well, so that backends of different activation
  // types get equal ones.
  Stage(Ops& ops, const IslandShape& shape, DType rounded_to = DType::f32);

  Ops& ops() { return rig_.ops(); }
  OpsRig& rig() { return rig_; }
  const IslandShape& shape() const { return shape_; }
  const Batch& batch() const { return batch_; }

  // Tensors that the island gets, in this order; it may change any of them.
  void give(const Made& made) { inputs_.push_back(made); }
  void give_rows(int count, double low = -1, double high = 1);  // activations [rows, C]
  void give_residual();

  // What a run leaves: every tensor given, and each part of each slot's state.
  using Outcome = std::vector<std::pair<std::string, Doubles>>;
  // Runs on copies of the inputs, and puts the states back afterwards.
  Outcome run(const std::function<void(const Tensors&)>& island);

 private:
  OpsRig rig_;
  const IslandShape& shape_;
  Batch batch_;
  std::vector<Made> inputs_;
};

enum class Body : uint8_t { composed, own };

struct Island {
  using Run = std::function<void(const Stage::Tensors&, Body)>;
  std::string name;
  std::function<Run(Stage&)> prepare;  // makes weights and inputs
};
const std::vector<Island>& islands();

// Fails the test unless every part agrees to `tolerance` of its size (root of summed squares).
void expect_equal(const Stage::Outcome& got, const Stage::Outcome& want, double tolerance);

}  // namespace fulmar::support
