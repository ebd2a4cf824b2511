// Double-buffered copies between host and device: two pinned buffers, so that the host's copy overlaps with
// the transfer. Matrices are converted and transposed on the way.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

class Upload {
 public:
  Upload() = default;
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  Status open();

  // Copies a matrix to target [rows, cols] in type `to`, or transposed to [cols, rows]. Returns once the host
  // memory was read.
  void matrix(const Queue& queue, const HostMatrix& from, void* target, DType to, bool transpose);
  // Uploads `count` rows of row_bytes raw bytes piecewise and calls f(raw, first, rows) for each piece, which
  // stays on the device until the work that f enqueues has run. All pieces but the last are multiples of
  // `grain` rows, of which a buffer holds at least one.
  using UsePiece = std::function<void(const void* raw, int64_t first, int64_t rows)>;
  void rows(const Queue& queue, const std::byte* host, size_t row_bytes, int64_t count, int64_t grain,
            const UsePiece& f);
  // Copies plain bytes to the device (send) or from it (fetch); returns when they have arrived.
  void send(const Queue& queue, void* target, const void* host, size_t bytes);
  void fetch(const Queue& queue, void* host, const void* source, size_t bytes);
  // Waits for the uploads so far; returns whether a finite number did not fit its type since the last call.
  bool overflowed(const Queue& queue);

 private:
  static constexpr size_t kStage = size_t{32} << 20;
  static constexpr size_t kUploadPiece = size_t{4}
                                         << 20;  // of plain bytes: short, so that both copies soon overlap
  struct PinnedBuffer {
    Buffer pinned;
    Buffer raw;  // device staging for what is converted there
    cudaEvent_t free = nullptr;
  };

  PinnedBuffer stages_[2];
  int next_ = 0;
  Buffer overflow_;
};

}  // namespace fulmar::gpu
