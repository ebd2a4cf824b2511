// Binds a checkpoint's named tensors to the weight structs of ops/args.h and of the versions' blocks. Knows
// shapes, not mathematics.
#pragma once

#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"
#include "model/device_adapter.h"
#include "model/fingerprint.h"
#include "model/slice.h"
#include "ops/ops.h"

namespace fulmar {

// Takes tensors by name and checks their shapes. After the first failure it does nothing more and keeps the
// error, so that binding code reads as a list of names.
//
// A dry binder, one without a fingerprint, imports nothing and leaves all data null: it checks the same
// tensors and adds up the bytes that an import would take.
class Binder {
 public:
  // Binds on one device. `fingerprint` is updated with what is bound; devices that share a model's weights
  // share it and bind in the model's order; null in a dry binder. With a slice, matrices are bound in part;
  // names, shapes and the fingerprint are the whole matrix's.
  Binder(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, Fingerprint* fingerprint,
         const Slice& slice = {});

  const ModelConfig& config() const { return config_; }
  const Slice& slice() const { return slice_; }
  Ops& ops() const { return ops_; }

  // Binds a matrix that is stored [out, in].
  Weight matrix(const std::string& name, int64_t out, int64_t in, WeightRole role, Cut cut = Cut::none);
  // Binds a matrix that is stored [in, out], as the low-rank factors are.
  Weight factor(const std::string& name, int64_t in, int64_t out, Cut cut = Cut::none);
  // Binds slice `index` of a tensor that is stored [slices, in, out].
  Weight factor_slice(const std::string& name, int64_t index, int64_t slices, int64_t in, int64_t out);
  // Binds n numbers, stored in any shape, as [1, n]. Cut::outputs: the slice's part of them.
  Tensor vector(const std::string& name, int64_t n, Cut cut = Cut::none);
  // Binds several vectors as the rows of one tensor [names, n].
  Tensor rows(const std::string& prefix, std::initializer_list<std::string_view> names, int64_t n);
  Norm norm(const std::string& name, int64_t n, Cut cut = Cut::none);

  // Finishes a layer; call once its weights are bound.
  Status finish_layer() const;

  void fail(Error error);
  Status status() const;
  // Sets whether what is bound from now on was bound on another device before,
  // and so is in the fingerprint.
  void repeats(bool again) { repeats_ = again; }
  size_t bytes() const { return bytes_; }  // of backend memory for the weights
  // A copy of columns that a weight points to; keep it as long as the weight.
  struct Copy {
    bool made = false;
    std::vector<std::byte> codes;
    std::vector<float> scales;
  };
  std::deque<Copy> take_copies() { return std::move(copies_); }
  // Returns the matrices that were bound whole or in part, for adapters; not the slices of a tensor.
  BoundMatrices take_bound() { return std::move(bound_); }

 private:
  bool dry() const { return fingerprint_ == nullptr; }
  const StoredTensor* find(const std::string& name, std::span<const int64_t> shape, bool coded = false);
  bool read(const std::string& name, std::span<float> out);
  Tensor import_vectors(std::span<const float> values, int64_t rows);
  Result<HostMatrix> cut_out(const std::string& name, const HostMatrix& whole, Cut cut, Copy& copy) const;
  Weight bind_whole(const StoredTensor& tensor, const HostMatrix& whole, WeightRole role, Cut cut);
  Weight import(const StoredTensor& tensor, const HostMatrix& whole, WeightRole role, Cut cut);
  // Returns whether what is bound now updates the fingerprint.
  bool names() const { return !repeats_ && slice_.index == 0; }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  Ops& ops_;
  Fingerprint* const fingerprint_;
  const Slice slice_;
  std::deque<Copy> copies_;
  BoundMatrices bound_;
  bool repeats_ = false;
  size_t bytes_ = 0;
  Status status_;
};

}  // namespace fulmar
