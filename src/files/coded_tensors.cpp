#include "files/coded_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "tensor/scaled_codes.h"

namespace fulmar {
namespace {

constexpr std::string_view kScale = ".scale";
constexpr int64_t kLeastGroup = 32, kMostGroup = 256;  // what kernels take at once, but for whole rows

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

// Takes memory for the parts that a file has and a matrix has not.
class MatrixSplitter {
 public:
  void add(const StoredTensor& tensor) {
    if (tensor.scales == nullptr) {
      out_.tensors.push_back(tensor);
    } else if (tensor.dtype == DType::nf4) {
      add_nf4(tensor);
    } else {
      add_scaled(tensor);
    }
  }

  PlainTensors take() { return std::move(out_); }

 private:
  void add_view(std::string name, DType dtype, std::vector<int64_t> shape, const void* data) {
    std::vector<int64_t> strides = row_major_strides(shape);
    out_.tensors.push_back({std::move(name), dtype, std::move(shape), std::move(strides),
                            static_cast<const std::byte*>(data), nullptr, 0});
  }

  void add_scaled(const StoredTensor& tensor) {
    const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
    const bool packed = tensor.dtype == DType::i4;
    add_view(tensor.name, packed ? DType::u8 : tensor.dtype, {rows, packed ? cols / 2 : cols}, tensor.data);
    add_view(tensor.name + std::string(kScale), DType::f32, {rows, cols / tensor.group}, tensor.scales);
  }

  void add_nf4(const StoredTensor& tensor) {
    const auto state = std::make_shared<std::string>(
        fmt::format(R"({{"quant_type":"nf4","blocksize":{},"dtype":"float16","shape":[{},{}]}})",
                    tensor.group, tensor.shape[0], tensor.shape[1]));
    add_view(tensor.name, DType::u8, {tensor.count() / 2, 1}, tensor.data);
    add_view(tensor.name + ".absmax", DType::f32, {tensor.count() / tensor.group}, tensor.scales);
    add_view(tensor.name + ".quant_map", DType::f32, {std::size(kNf4Levels)}, kNf4Levels);
    add_view(tensor.name + ".quant_state.bitsandbytes__nf4", DType::u8, {static_cast<int64_t>(state->size())},
             state->data());
    out_.owners.push_back(state);
  }

  PlainTensors out_;
};

// Converts a matrix to the type and shape [out, in] that kernels use. Returns whether it holds codes.
bool take_codes(StoredTensor& matrix) {
  if (matrix.shape.size() != 2 || matrix.count() == 0 || !matrix.contiguous()) return false;
  if (matrix.dtype == DType::i8 || matrix.dtype == DType::f8_e4m3) return true;
  if (matrix.dtype != DType::u8) return false;
  matrix.dtype = DType::i4;
  matrix.shape[1] *= 2;
  matrix.strides = row_major_strides(matrix.shape);
  return true;
}

// Returns whether the tensor holds codes of a matrix without scales.
bool lacks_scales(const StoredTensor& tensor) {
  const bool codes = tensor.dtype == DType::u8 || tensor.dtype == DType::i8 || tensor.dtype == DType::f8_e4m3;
  return codes && tensor.scales == nullptr && tensor.shape.size() == 2 && tensor.name.ends_with(".weight");
}

// Returns how many weights of a row share one of `scales`; 0 if these do not fit the matrix.
int64_t group_for(const StoredTensor& matrix, const StoredTensor& scales) {
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1], count = scales.count();
  if (count == 1 || count == rows) return cols;
  if (count == 0 || count % rows != 0 || cols % (count / rows) != 0) return 0;
  const int64_t group = cols / (count / rows);
  const bool known =
      group >= kLeastGroup && group <= kMostGroup && std::has_single_bit(static_cast<uint64_t>(group));
  return known ? group : 0;
}

Status join(StoredTensor& matrix, const StoredTensor& scale, CheckpointParts& parts) {
  if (scale.dtype != DType::f32) {
    return corrupt(fmt::format("'{}' holds {}; wanted f32", scale.name, name_of(scale.dtype)));
  }
  if (!take_codes(matrix)) {
    return corrupt(fmt::format("'{}' holds {} {}; wanted a matrix of i8, f8_e4m3 or packed u8 beside '{}'",
                               matrix.name, name_of(matrix.dtype), shape_text(matrix.shape), scale.name));
  }
  matrix.group = group_for(matrix, scale);
  if (matrix.group == 0) {
    return corrupt(
        fmt::format("'{}' has {} scales for {}; wanted one for the matrix, a row, or 32, 64, 128 or 256 "
                    "weights of a row",
                    scale.name, scale.count(), shape_text(matrix.shape)));
  }
  std::vector<float> stored(static_cast<size_t>(scale.count()));
  copy_as_f32(scale, stored);
  if (!std::all_of(stored.begin(), stored.end(), [](float x) { return std::isfinite(x); })) {
    return corrupt(fmt::format("'{}' holds NaN or infinity; wanted finite scales", scale.name));
  }
  if (stored.size() == 1) stored.resize(static_cast<size_t>(matrix.shape[0]), stored[0]);
  auto scales = std::make_shared<std::vector<float>>(std::move(stored));
  matrix.scales = scales->data();
  parts.owners.push_back(std::move(scales));
  return {};
}

}  // namespace

PlainTensors split_codes(std::span<const StoredTensor> tensors) {
  MatrixSplitter splitter;
  for (const StoredTensor& tensor : tensors) splitter.add(tensor);
  return splitter.take();
}

Status join_codes(CheckpointParts& parts) {
  std::unordered_map<std::string_view, StoredTensor*> by_name;
  for (StoredTensor& tensor : parts.tensors) by_name.emplace(tensor.name, &tensor);
  std::unordered_set<const StoredTensor*> used;
  for (const StoredTensor& scale : parts.tensors) {
    const std::string_view name = scale.name;
    if (!name.ends_with(".weight.scale")) continue;
    const auto matrix = by_name.find(name.substr(0, name.size() - kScale.size()));
    if (matrix == by_name.end()) {
      return corrupt(
          fmt::format("'{}' is missing beside '{}'", name.substr(0, name.size() - kScale.size()), name));
    }
    FULMAR_TRY(join(*matrix->second, scale, parts));
    used.insert(&scale);
  }
  // By address, in order: nothing has moved yet.
  std::vector<StoredTensor> kept;
  for (StoredTensor& tensor : parts.tensors) {
    if (!used.contains(&tensor)) kept.push_back(std::move(tensor));
  }
  parts.tensors = std::move(kept);
  const auto bare = std::find_if(parts.tensors.begin(), parts.tensors.end(), lacks_scales);
  if (bare == parts.tensors.end()) return {};
  return corrupt(fmt::format("'{}' holds {} without scales; wanted '{}{}' beside it", bare->name,
                             name_of(bare->dtype), bare->name, kScale));
}

}  // namespace fulmar
