// The islands of cases/islands.h as test subjects: weights and inputs made on one backend, run there in their
// default body or as the backend has them, and what they leave behind.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cases/islands.h"
#include "support/ops_rig.h"

namespace fulmar::support {

struct IslandShape {
  std::string name;
  int64_t n_head, head_size, n_ffn, rank;
  DType dtype;                   // of the weights
  std::vector<int32_t> lengths;  // rows of each sequence

  int64_t width() const { return n_head * head_size; }
  cases::LayerShape layer() const;
};

// Makes a layer's weights on a rig, of one stored type.
class RigWeights final : public cases::WeightSource {
 public:
  RigWeights(OpsRig& rig, DType dtype) : rig_(rig), dtype_(dtype) {}
  // Low-rank factors lie in files column by column.
  Weight weight(int64_t out, int64_t in, WeightRole role) override {
    return rig_.bare_weight(out, in, dtype_, role, role == WeightRole::low_rank);
  }
  Tensor vector(int64_t rows, int64_t cols, double low, double high) override {
    return rig_.vector(rows, cols, low, high).tensor;
  }
  Norm norm(int64_t cols) override { return rig_.norm(cols).norm; }

 private:
  OpsRig& rig_;
  DType dtype_;
};

// One backend's inputs of an island.
class CaseLayer final : public cases::CaseLayer {
 public:
  // With `rounded_to` every number made is one of that type as well, so that backends of different activation
  // types get equal ones.
  CaseLayer(Ops& ops, const IslandShape& shape, DType rounded_to = DType::f32);

  Ops& ops() override { return rig_.ops(); }
  const cases::LayerShape& shape() const override { return shape_; }
  const Batch& batch() const override { return batch_; }
  cases::WeightSource& weights() override { return weights_; }
  StateField field(size_t index) const override { return rig_.state().field(0, index); }
  void give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) override;
  void give_first_row_of(size_t index) override;
  void forget(const Tensor& tensor) override;
  void add_pending(const Tensor& x, const Tensor& pending) override { ops().add(x, pending); }
  void finished(const Status& status) override;

  // What a run leaves: every tensor given, and each part of each slot's state.
  using Outcome = std::vector<std::pair<std::string, Doubles>>;
  // Runs on copies of the inputs, and puts the states back afterwards.
  Outcome run(const cases::Island::Run& island, cases::Body body);

 private:
  OpsRig rig_;
  RigWeights weights_;
  cases::LayerShape shape_;
  Batch batch_;
  std::vector<Made> inputs_;
};

// Fails the test unless every part agrees to `tolerance` of its size (root of summed squares).
void expect_equal(const CaseLayer::Outcome& got, const CaseLayer::Outcome& want, double tolerance);

}  // namespace fulmar::support
