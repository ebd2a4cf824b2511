#include "model/nonfinite.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/thread.h"
#include "tensor/convert.h"

namespace fulmar {

namespace {

// Returns whether a number in the run has all exponent bits set. One pass of integer
// work, which compilers vectorise.
template <class Bits>
bool any_set(const std::byte* data, int64_t count, Bits exponent) {
  constexpr int64_t kRun = 4096;
  Bits run[kRun];
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t length = std::min(kRun, count - begin);
    std::memcpy(run, data + static_cast<size_t>(begin) * sizeof(Bits),
                static_cast<size_t>(length) * sizeof(Bits));
    Bits found = 0;
    for (int64_t i = 0; i < length; i++) found |= static_cast<Bits>((run[i] & exponent) == exponent);
    if (found != 0) return true;
  }
  return false;
}

bool any_nonfinite(DType dtype, const std::byte* data, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return any_set<uint32_t>(data, count, 0x7f800000u);
    case DType::f16:
      return any_set<uint16_t>(data, count, 0x7c00u);
    case DType::bf16:
      return any_set<uint16_t>(data, count, 0x7f80u);
    case DType::f64:
      return any_set<uint64_t>(data, count, 0x7ff0000000000000u);
    default:
      return false;
  }
}

// Returns the byte offset of the element at a row-major position.
size_t offset_of(const StoredTensor& tensor, int64_t position) {
  int64_t offset = 0;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    offset += position % tensor.shape[axis] * tensor.strides[axis];
    position /= tensor.shape[axis];
  }
  return static_cast<size_t>(offset) * size_of(tensor.dtype);
}

// Returns the row-major position of the first block with a factor that is not finite; -1: none.
int64_t nonfinite_block(const StoredTensor& tensor) {
  const Format& format = format_of(tensor.dtype);
  const int64_t blocks = tensor.count() / format.block;
  for (int64_t i = 0; i < blocks; i++) {
    for (const int factor : format.factors) {
      if (factor >= 0 && any_nonfinite(DType::f16, tensor.data + i * format.bytes + factor, 1)) {
        return i * format.block;
      }
    }
  }
  return -1;
}

bool is_nonfinite_at(const StoredTensor& tensor, int64_t position, float& value) {
  const std::byte* at = tensor.data + offset_of(tensor, position);
  to_f32(tensor.dtype, at, {&value, 1});
  return any_nonfinite(tensor.dtype, at, 1);
}

std::optional<Nonfinite> scan(const StoredTensor& tensor) {
  const int64_t count = tensor.count();
  if (is_block(tensor.dtype)) {
    const int64_t block = nonfinite_block(tensor);
    if (block < 0) return std::nullopt;
    return Nonfinite{tensor.name, block, "a scale that is no number"};
  }
  if (!is_float(tensor.dtype) || count == 0) return std::nullopt;
  if (tensor.contiguous() && !any_nonfinite(tensor.dtype, tensor.data, count)) return std::nullopt;
  for (int64_t i = 0; i < count; i++) {
    float value = 0;
    if (is_nonfinite_at(tensor, i, value)) {
      return Nonfinite{tensor.name, i, std::isnan(value) ? "NaN" : "infinity"};
    }
  }
  return std::nullopt;
}

// Scans the tensors in parallel; with `first_only`, none after the first one found.
std::vector<Nonfinite> scan_all(const Checkpoint& checkpoint, bool first_only) {
  const std::vector<StoredTensor>& tensors = checkpoint.tensors();
  std::vector<std::optional<Nonfinite>> found(tensors.size());
  std::atomic<size_t> next = 0, end = tensors.size();
  run_on_threads(processor_threads(), [&](unsigned) {
    for (size_t i = next++; i < end; i = next++) {
      found[i] = scan(tensors[i]);
      if (found[i] && first_only) end = std::min(end.load(), i + 1);
    }
  });
  std::vector<Nonfinite> all;
  for (auto& one : found) {
    if (one) all.push_back(*one);
  }
  return all;
}

}  // namespace

std::vector<Nonfinite> all_nonfinite(const Checkpoint& checkpoint) { return scan_all(checkpoint, false); }

std::optional<Nonfinite> first_nonfinite(const Checkpoint& checkpoint) {
  const auto found = scan_all(checkpoint, true);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace fulmar
