#include "gpu/device/upload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/copy.h"
#include "gpu/device/import.h"
#include "tensor/quantise.h"

namespace fulmar::gpu {

namespace {

// Returns the matrix in f32, row by row, for sources with irregular strides or unusual types.
std::vector<float> gathered(const HostMatrix& from) {
  std::vector<float> values(static_cast<size_t>(from.rows * from.cols));
  rows_as_f32(from, 0, values);
  return values;
}

}  // namespace

Status Upload::open() {
  for (PinnedBuffer& stage : stages_) {
    FULMAR_ASSIGN(stage.pinned, allocate_pinned(kStage));
    FULMAR_ASSIGN(stage.raw, allocate_device(kStage));
    FULMAR_GPU_TRY(cudaEventCreateWithFlags(&stage.free, cudaEventDisableTiming));
  }
  FULMAR_ASSIGN(overflow_, allocate_device(sizeof(uint32_t)));
  FULMAR_GPU_TRY(cudaMemset(overflow_.data(), 0, sizeof(uint32_t)));
  return {};
}

Upload::~Upload() {
  for (const PinnedBuffer& stage : stages_) {
    if (stage.free != nullptr) ignore_failure(cudaEventDestroy(stage.free));
  }
}

void Upload::matrix(const Queue& queue, const HostMatrix& from, void* target, DType to, bool transpose) {
  const bool by_columns = from.row_stride == 1 && from.col_stride == from.rows && !from.row_major();
  if (!is_kernel_float(from.dtype) || !(from.row_major() || by_columns)) {
    const std::vector<float> values = gathered(from);
    return matrix(
        queue,
        {reinterpret_cast<const std::byte*>(values.data()), DType::f32, from.rows, from.cols, from.cols, 1},
        target, to, transpose);
  }
  // Lines are contiguous in memory: rows, or columns of a matrix stored by columns.
  const int64_t lines = by_columns ? from.cols : from.rows, line = by_columns ? from.rows : from.cols;
  const size_t line_bytes = static_cast<size_t>(line) * size_of(from.dtype);
  const auto lines_each = std::max<int64_t>(1, static_cast<int64_t>(kStage / line_bytes));
  const bool direct = from.dtype == to && !by_columns && !transpose;
  const int64_t row_stride = transpose ? 1 : from.cols, col_stride = transpose ? from.rows : 1;
  auto* out = static_cast<std::byte*>(target);
  for (int64_t first = 0; first < lines; first += lines_each) {
    const int64_t count = std::min(lines_each, lines - first);
    const size_t bytes = static_cast<size_t>(count) * line_bytes;
    PinnedBuffer& stage = stages_[next_];
    next_ = 1 - next_;
    FULMAR_GPU(cudaEventSynchronize(stage.free));
    copy_bytes(stage.pinned.data(), from.data + static_cast<size_t>(first) * line_bytes, bytes);
    void* landing = direct ? out + static_cast<size_t>(first) * line_bytes : stage.raw.data();
    FULMAR_GPU(cudaMemcpyAsync(landing, stage.pinned.data(), bytes, cudaMemcpyHostToDevice, queue.stream));
    if (!direct) {
      const auto offset = static_cast<size_t>(first * (by_columns ? col_stride : row_stride));
      import_matrix(queue, by_columns ? line : count, by_columns ? count : line,
                    {landing, from.dtype, by_columns ? 1 : line, by_columns ? line : 1},
                    {out + offset * size_of(to), to, row_stride, col_stride},
                    static_cast<uint32_t*>(overflow_.data()));
    }
    FULMAR_GPU(cudaEventRecord(stage.free, queue.stream));
  }
}

void Upload::rows(const Queue& queue, const std::byte* host, size_t row_bytes, int64_t count, int64_t grain,
                  const UsePiece& f) {
  const int64_t each = static_cast<int64_t>(kStage / row_bytes) / grain * grain;
  FULMAR_CHECK(each > 0, "a row that is too long");
  for (int64_t first = 0; first < count; first += each) {
    const int64_t rows = std::min(each, count - first);
    const size_t bytes = static_cast<size_t>(rows) * row_bytes;
    PinnedBuffer& stage = stages_[next_];
    next_ = 1 - next_;
    FULMAR_GPU(cudaEventSynchronize(stage.free));
    copy_bytes(stage.pinned.data(), host + static_cast<size_t>(first) * row_bytes, bytes);
    FULMAR_GPU(
        cudaMemcpyAsync(stage.raw.data(), stage.pinned.data(), bytes, cudaMemcpyHostToDevice, queue.stream));
    f(stage.raw.data(), first, rows);
    FULMAR_GPU(cudaEventRecord(stage.free, queue.stream));
  }
}

void Upload::send(const Queue& queue, void* target, const void* host, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kUploadPiece) {
    const size_t count = std::min(kUploadPiece, bytes - at);
    PinnedBuffer& stage = stages_[next_];
    next_ = 1 - next_;
    FULMAR_GPU(cudaEventSynchronize(stage.free));
    std::memcpy(stage.pinned.data(), static_cast<const std::byte*>(host) + at, count);
    FULMAR_GPU(cudaMemcpyAsync(static_cast<std::byte*>(target) + at, stage.pinned.data(), count,
                               cudaMemcpyHostToDevice, queue.stream));
    FULMAR_GPU(cudaEventRecord(stage.free, queue.stream));
  }
  FULMAR_GPU(cudaStreamSynchronize(queue.stream));
}

void Upload::fetch(const Queue& queue, void* host, const void* source, size_t bytes) {
  const auto begin = [&](size_t at, PinnedBuffer& stage) {
    FULMAR_GPU(cudaEventSynchronize(stage.free));
    FULMAR_GPU(cudaMemcpyAsync(stage.pinned.data(), static_cast<const std::byte*>(source) + at,
                               std::min(kUploadPiece, bytes - at), cudaMemcpyDeviceToHost, queue.stream));
    FULMAR_GPU(cudaEventRecord(stage.free, queue.stream));
  };
  begin(0, stages_[0]);
  for (size_t at = 0, i = 0; at < bytes; at += kUploadPiece, i = 1 - i) {
    if (at + kUploadPiece < bytes) begin(at + kUploadPiece, stages_[1 - i]);
    FULMAR_GPU(cudaEventSynchronize(stages_[i].free));
    std::memcpy(static_cast<std::byte*>(host) + at, stages_[i].pinned.data(),
                std::min(kUploadPiece, bytes - at));
  }
}

bool Upload::overflowed(const Queue& queue) {
  uint32_t flag = 0;
  FULMAR_GPU(cudaMemcpyAsync(&flag, overflow_.data(), sizeof(flag), cudaMemcpyDeviceToHost, queue.stream));
  FULMAR_GPU(cudaStreamSynchronize(queue.stream));
  if (flag != 0) FULMAR_GPU(cudaMemsetAsync(overflow_.data(), 0, sizeof(flag), queue.stream));
  return flag != 0;
}

}  // namespace fulmar::gpu
