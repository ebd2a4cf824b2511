#include "model/bind.h"

#include <algorithm>
#include <array>
#include <vector>

namespace fulmar {

Binder::Binder(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, Fingerprint* fingerprint,
               const Slice& slice)
    : checkpoint_(checkpoint), config_(config), ops_(ops), fingerprint_(fingerprint), slice_(slice) {}

void Binder::fail(Error error) {
  if (status_.ok()) status_ = std::move(error);
}

Status Binder::status() const { return status_; }

Status Binder::finish_layer() const {
  if (!status_.ok() || dry()) return status_;
  return ops_.check_layer(config_.n_embd);
}

// Returns null, and keeps an error, where the tensor is missing, has another shape, or is neither float nor
// (where `coded`) quantised.
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

// Returns the slice's part of a matrix; columns that had to be copied are in `copy`, except in a dry run.
Result<HostMatrix> Binder::cut_out(const std::string& name, const HostMatrix& whole, Cut cut,
                                   Copy& copy) const {
  if (slice_.whole() || cut == Cut::none) return whole;
  if (cut == Cut::outputs) return rows_of(whole, part_of(slice_, whole.rows));
  if (cut == Cut::vocabulary) return rows_of(whole, vocabulary_part(slice_, whole.rows));
  const Part part = part_of(slice_, whole.cols);
  FULMAR_ASSIGN(Columns columns, columns_of(whole, part, name));
  copy.made = columns.copied;
  if (!columns.copied || dry()) return columns.matrix;
  copy.codes = copy_columns(whole, part);
  copy.scales = copy_scales(whole, part);
  columns.matrix.data = copy.codes.data();
  if (whole.scales != nullptr) columns.matrix.scales = copy.scales.data();
  return columns.matrix;
}

Weight Binder::import(const StoredTensor& tensor, const HostMatrix& whole, WeightRole role, Cut cut) {
  Copy copy;
  const Result<HostMatrix> matrix = cut_out(tensor.name, whole, cut, copy);
  if (!matrix.ok()) {
    fail(matrix.error());
    return {};
  }
  const size_t bytes = ops_.import_bytes(*matrix, role);
  const bool keeps = copy.made && bytes == 0;
  bytes_ += keeps ? bytes_for(matrix->dtype, matrix->rows * matrix->cols) : bytes;
  if (dry()) return {matrix->dtype, matrix->rows, matrix->cols};
  if (names()) fingerprint_->add(tensor.name, whole);
  Result<Weight> weight = ops_.import_weight(*matrix, role);
  if (!weight.ok()) {
    fail({weight.error().kind, "tensor '" + tensor.name + "': " + weight.error().text});
    return {};
  }
  if (keeps) copies_.push_back(std::move(copy));
  if (bytes > 0 || keeps) checkpoint_.release_pages(tensor);
  return *weight;
}

Weight Binder::bind_whole(const StoredTensor& tensor, const HostMatrix& whole, WeightRole role, Cut cut) {
  const Weight weight = import(tensor, whole, role, cut);
  if (!weight.empty()) bound_[tensor.name] = {weight, whole.rows, whole.cols, role, cut};
  return weight;
}

Weight Binder::matrix(const std::string& name, int64_t out, int64_t in, WeightRole role, Cut cut) {
  const StoredTensor* tensor = find(name, std::array{out, in}, true);
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  return bind_whole(
      *tensor, {tensor->data, tensor->dtype, out, in, strides[0], strides[1], tensor->scales, tensor->group},
      role, cut);
}

Weight Binder::factor(const std::string& name, int64_t in, int64_t out, Cut cut) {
  const StoredTensor* tensor = find(name, std::array{in, out});
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  return bind_whole(*tensor, {tensor->data, tensor->dtype, out, in, strides[1], strides[0]},
                    WeightRole::low_rank, cut);
}

Weight Binder::factor_slice(const std::string& name, int64_t index, int64_t slices, int64_t in, int64_t out) {
  const StoredTensor* tensor = find(name, std::array{slices, in, out});
  if (tensor == nullptr) return {};
  const std::vector<int64_t>& strides = tensor->strides;
  const std::byte* data = tensor->data + static_cast<size_t>(index * strides[0]) * size_of(tensor->dtype);
  return import(*tensor, {data, tensor->dtype, out, in, strides[2], strides[1]}, WeightRole::low_rank,
                Cut::none);
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
  if (names()) fingerprint_->add(name, {reinterpret_cast<const std::byte*>(out.data()), DType::f32, 1, n, n});
  return true;
}

Tensor Binder::vector(const std::string& name, int64_t n, Cut cut) {
  std::vector<float> values(static_cast<size_t>(n));
  if (!read(name, values)) return {};
  const Part part = cut == Cut::none ? Part{0, n} : part_of(slice_, n);
  return import_vectors(
      std::span(values).subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.count)), 1);
}

Tensor Binder::rows(const std::string& prefix, std::initializer_list<std::string_view> names, int64_t n) {
  std::vector<float> values(names.size() * static_cast<size_t>(n));
  size_t at = 0;
  for (const std::string_view name : names) {
    if (!read(prefix + std::string(name), std::span(values).subspan(at, static_cast<size_t>(n)))) return {};
    at += static_cast<size_t>(n);
  }
  return import_vectors(values, static_cast<int64_t>(names.size()));
}

Tensor Binder::import_vectors(std::span<const float> values, int64_t rows) {
  bytes_ += values.size_bytes();
  const int64_t n = static_cast<int64_t>(values.size()) / rows;
  if (dry()) return {nullptr, DType::f32, rows, n, n};
  Result<Tensor> tensor = ops_.import_vector(values, rows, n);
  if (tensor.ok()) return *tensor;
  fail(tensor.error());
  return {};
}

Norm Binder::norm(const std::string& name, int64_t n, Cut cut) {
  return {vector(name + ".weight", n, cut), vector(name + ".bias", n, cut)};
}

}  // namespace fulmar
