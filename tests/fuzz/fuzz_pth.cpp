// Whatever the bytes are, the PyTorch reader gives tensors inside them or an error, and what follows copes.
#include "files/canonical.h"
#include "files/identify.h"
#include "files/pth.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  const ByteSpan file(reinterpret_cast<const std::byte*>(data), size);
  (void)looks_like_pth(file);
  Result<CheckpointParts> parts = read_pth(file);
  if (!parts.ok()) return 0;
  for (const StoredTensor& tensor : parts->tensors) (void)gather_contiguous(tensor);
  const Result<std::unique_ptr<Checkpoint>> canonical =
      canonicalise(make_checkpoint(std::move(parts).value()));
  if (!canonical.ok()) return 0;
  for (const StoredTensor& tensor : (*canonical)->tensors()) (void)gather_contiguous(tensor);
  (void)identify(**canonical).ok();
  return 0;
}
