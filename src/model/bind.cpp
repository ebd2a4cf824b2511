#include "model/bind.h"

#include <algorithm>
#include <array>
#include <vector>

namespace fulmar {

Binder::Binder(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, Fingerprint* fingerprint)
    : checkpoint_(checkpoint), config_(config), ops_(ops), fingerprint_(fingerprint) {}

void Binder::fail(Error error) {
  if (status_.ok()) status_ = std::move(error);
}

Status Binder::status() const { return status_; }

// Null, and an error kept, where the tensor is missing, of another shape or of neither floats nor, where they
// may be, quantised.
const StoredTensor* Binder::find(const std::string& name, std::span<const int64_t> shape, bool coded) {
  if (!status_.ok()) return nullptr;
  const StoredTensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    fail({ErrorKind::corrupt, "tensor '" + name + "' is missing; wanted shape " + shape_text(shape)});
    return nullptr;
  }
  if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
    fail({ErrorKind::corrupt,
          "tensor '" + name + "' has shape " + shape_text(tensor->shape) + "; wanted " + shape_text(shape)});
    return nullptr;
  }
  if (!is_float(tensor->dtype) && !(coded && (is_block(tensor->dtype) || tensor->scales != nullptr))) {
    fail({ErrorKind::unsupported, "tensor '" + name + "' holds " + std::string(name_of(tensor->dtype)) +
                                      "; wanted f32, f16 or bf16"});
    return nullptr;
  }
  return tensor;
}

Weight Binder::import(const StoredTensor& tensor, const HostMatrix& matrix, WeightRole role) {
  const size_t bytes = ops_.import_bytes(matrix, role);
  bytes_ += bytes;
  if (dry()) return {matrix.dtype, matrix.rows, matrix.cols};
  if (!repeats_) fingerprint_->add(tensor.name, matrix);
  Result<Weight> weight = ops_.import_weight(matrix, role);
  if (!weight.ok()) {
    fail({weight.error().kind, "tensor '" + tensor.name + "': " + weight.error().text});
    return {};
  }
  if (bytes > 0) checkpoint_.release_pages(tensor);
  return *weight;
}

Weight Binder::matrix(const std::string& name, int64_t out, int64_t in, WeightRole role) {
  const StoredTensor* tensor = find(name, std::array{out, in}, true);
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  return import(*tensor,
                {tensor->data, tensor->dtype, out, in, strides[0], strides[1], tensor->scales, tensor->group},
                role);
}

Weight Binder::factor(const std::string& name, int64_t in, int64_t out) {
  const StoredTensor* tensor = find(name, std::array{in, out});
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  return import(*tensor, {tensor->data, tensor->dtype, out, in, strides[1], strides[0]},
                WeightRole::low_rank);
}

Weight Binder::factor_slice(const std::string& name, int64_t index, int64_t slices, int64_t in, int64_t out) {
  const StoredTensor* tensor = find(name, std::array{slices, in, out});
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  const std::byte* data = tensor->data + static_cast<size_t>(index * strides[0]) * size_of(tensor->dtype);
  return import(*tensor, {data, tensor->dtype, out, in, strides[2], strides[1]}, WeightRole::low_rank);
}

bool Binder::read(const std::string& name, std::span<float> out) {
  const auto n = static_cast<int64_t>(out.size());
  const StoredTensor* tensor = checkpoint_.find(name);
  // [C], [1, 1, C] and the [H, N] of r_k are the same numbers in the same order.
  const bool fits = tensor != nullptr && tensor->count() == n;
  tensor = fits ? find(name, tensor->shape) : find(name, std::span(&n, 1));
  if (tensor == nullptr) return false;
  if (dry()) return true;
  copy_as_f32(*tensor, out);
  if (!repeats_)
    fingerprint_->add(name, {reinterpret_cast<const std::byte*>(out.data()), DType::f32, 1, n, n});
  return true;
}

Tensor Binder::vector(const std::string& name, int64_t n) { return rows("", {name}, n); }

Tensor Binder::rows(const std::string& prefix, std::initializer_list<std::string_view> names, int64_t n) {
  std::vector<float> values(names.size() * static_cast<size_t>(n));
  size_t at = 0;
  for (const std::string_view name : names) {
    if (!read(prefix + std::string(name), std::span(values).subspan(at, static_cast<size_t>(n)))) return {};
    at += static_cast<size_t>(n);
  }
  bytes_ += values.size() * sizeof(float);
  const auto count = static_cast<int64_t>(names.size());
  if (dry()) return {nullptr, DType::f32, count, n, n};
  Result<Tensor> tensor = ops_.import_vector(values, count, n);
  if (tensor.ok()) return *tensor;
  fail(tensor.error());
  return {};
}

Norm Binder::norm(const std::string& name, int64_t n) {
  return {vector(name + ".weight", n), vector(name + ".bias", n)};
}

}  // namespace fulmar
