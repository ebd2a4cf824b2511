#include "files/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/check.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {

int64_t StoredTensor::count() const {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    product *= size;
  }
  return product;
}

bool StoredTensor::contiguous() const {
  int64_t wanted = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != wanted) return false;
    wanted *= shape[i];
  }
  return true;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string size_text(uint64_t bytes) {
  const auto amount = static_cast<double>(bytes);
  if (amount >= 1e9) return fmt::format("{:.1f} GB", amount / 1e9);
  if (amount >= 1e6) return fmt::format("{:.1f} MB", amount / 1e6);
  return fmt::format("{} bytes", bytes);
}

namespace {

constexpr size_t kMaxRank = 5;
constexpr int64_t kTile = 64;  // keeps both sides of a transposing copy inside the first-level cache

// Copies one matrix with any strides into rows of `cols` elements.
template <size_t Size>
void gather_matrix(const std::byte* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                   std::byte* to) {
  if (col_stride == 1) {
    for (int64_t i = 0; i < rows; i++) {
      std::memcpy(to + i * cols * Size, from + i * row_stride * Size, static_cast<size_t>(cols) * Size);
    }
    return;
  }
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
      const int64_t i1 = std::min(rows, i0 + kTile), j1 = std::min(cols, j0 + kTile);
      for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
          std::memcpy(to + (i * cols + j) * Size, from + (i * row_stride + j * col_stride) * Size, Size);
        }
      }
    }
  }
}

template <size_t Size>
void gather(const StoredTensor& tensor, std::byte* to) {
  FULMAR_CHECK(tensor.shape.size() <= kMaxRank);
  std::array<int64_t, kMaxRank> shape, stride;
  shape.fill(1);
  stride.fill(0);
  const size_t missing = kMaxRank - tensor.shape.size();
  std::copy(tensor.shape.begin(), tensor.shape.end(), shape.begin() + missing);
  std::copy(tensor.strides.begin(), tensor.strides.end(), stride.begin() + missing);
  if (tensor.count() == 0) return;
  const int64_t matrix = shape[3] * shape[4];
  for (int64_t a = 0; a < shape[0]; a++) {
    for (int64_t b = 0; b < shape[1]; b++) {
      for (int64_t c = 0; c < shape[2]; c++) {
        const int64_t offset = a * stride[0] + b * stride[1] + c * stride[2];
        gather_matrix<Size>(tensor.data + offset * Size, shape[3], shape[4], stride[3], stride[4], to);
        to += matrix * Size;
      }
    }
  }
}

}  // namespace

std::vector<std::byte> gather_contiguous(const StoredTensor& tensor) {
  std::vector<std::byte> out(tensor.bytes());
  switch (size_of(tensor.dtype)) {
    case 1:
      gather<1>(tensor, out.data());
      break;
    case 2:
      gather<2>(tensor, out.data());
      break;
    case 4:
      gather<4>(tensor, out.data());
      break;
    default:
      gather<8>(tensor, out.data());
      break;
  }
  return out;
}

void copy_as_f32(const StoredTensor& tensor, std::span<float> out) {
  FULMAR_CHECK(static_cast<int64_t>(out.size()) == tensor.count());
  if (out.empty()) return;
  if (tensor.scales != nullptr) {
    const HostMatrix matrix{tensor.data,       tensor.dtype,      tensor.shape[0], tensor.shape[1],
                            tensor.strides[0], tensor.strides[1], tensor.scales,   tensor.group};
    rows_as_f32(matrix, 0, out);
  } else if (tensor.contiguous()) {
    to_f32(tensor.dtype, tensor.data, out);
  } else {
    to_f32(tensor.dtype, gather_contiguous(tensor).data(), out);
  }
}

const std::map<std::string, std::string>& Checkpoint::metadata() const {
  static const std::map<std::string, std::string> none;
  return none;
}

const std::vector<std::string>& Checkpoint::remarks() const {
  static const std::vector<std::string> none;
  return none;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  std::call_once(indexed_, [this] {
    for (const StoredTensor& tensor : tensors()) index_.try_emplace(tensor.name, &tensor);
  });
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

namespace {

// Returns the bytes from the first element of a tensor that is not empty to the end of its last.
size_t extent_of(const StoredTensor& tensor) {
  if (tensor.contiguous()) return tensor.bytes();
  int64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size(); i++) last += (tensor.shape[i] - 1) * tensor.strides[i];
  return static_cast<size_t>(last + 1) * size_of(tensor.dtype);
}

class PartsCheckpoint final : public Checkpoint {
 public:
  explicit PartsCheckpoint(CheckpointParts parts) : parts_(std::move(parts)) {}

  const std::vector<StoredTensor>& tensors() const override { return parts_.tensors; }
  std::string describe() const override { return parts_.description; }
  const std::map<std::string, std::string>& metadata() const override { return parts_.metadata; }
  const std::vector<std::string>& remarks() const override { return parts_.remarks; }
  const StoredVocabulary* vocabulary() const override { return parts_.vocabulary.get(); }

  void release_pages(const StoredTensor& tensor) const override {
    if (tensor.count() == 0) return;
    const size_t extent = extent_of(tensor);
    const std::less<const std::byte*> before;
    for (const auto& file : parts_.files) {
      const ByteSpan all = file->bytes();
      if (before(tensor.data, all.data()) || before(all.data() + all.size(), tensor.data + extent)) continue;
      return file->release({tensor.data, extent});
    }
  }

 private:
  CheckpointParts parts_;
};

}  // namespace

std::unique_ptr<Checkpoint> make_checkpoint(CheckpointParts parts) {
  return std::make_unique<PartsCheckpoint>(std::move(parts));
}

Status check_tensor_name(std::string_view name) {
  constexpr size_t kLongest = 256;
  const bool control = std::any_of(name.begin(), name.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > kLongest || control ||
      !simdjson::validate_utf8(name.data(), name.size())) {
    return Error{
        ErrorKind::corrupt,
        fmt::format("bad tensor name '{}' ({} bytes; wanted 1 to {} of UTF-8 without control characters)",
                    printable(name), name.size(), kLongest)};
  }
  return {};
}

}  // namespace fulmar
