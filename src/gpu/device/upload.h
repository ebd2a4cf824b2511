// Double buffering between host and device memory: two pinned buffers, so that the host's copy and the
// transfer run at the same time; types and orientation of matrices change on the way.
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

  // target [rows, cols] in `to`, transposed to [cols, rows] if asked. Returns once the host memory was read.
  void matrix(const Queue& queue, const HostMatrix& from, void* target, DType to, bool transpose);
  // `count` rows of row_bytes bytes as they are: f(raw, first, rows) for pieces of them that lie on the
  // device until what it launches on the queue has run. Pieces but the last are multiples of `grain` rows, of
  // which the stage holds at least one.
  using UsePiece = std::function<void(const void* raw, int64_t first, int64_t rows)>;
  void rows(const Queue& queue, const std::byte* host, size_t row_bytes, int64_t count, int64_t grain,
            const UsePiece& f);
  // Plain bytes, either way; return once they are there.
  void send(const Queue& queue, void* target, const void* host, size_t bytes);
  void fetch(const Queue& queue, void* host, const void* source, size_t bytes);
  // Whether a finite number did not fit its type since the last call; waits for the uploads so far.
  bool overflowed(const Queue& queue);

 private:
  static constexpr size_t kStage = size_t{32} << 20;
  static constexpr size_t kUploadPiece = size_t{4}
                                         << 20;  // of plain bytes: short, so that both ends soon work
  struct Stage {
    Buffer pinned;
    Buffer raw;  // on the device, for what is converted there
    cudaEvent_t free = nullptr;
  };

  Stage stages_[2];
  int next_ = 0;
  Buffer overflow_;
};

}  // namespace fulmar::gpu
