// Whatever the bytes are, the rwkvq reader gives tensors inside them or an error, and what follows copes.
#include "files/canonical.h"
#include "files/identify.h"
#include "files/rwkvq.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  const ByteSpan file(reinterpret_cast<const std::byte*>(data), size);
  (void)looks_like_rwkvq(file);
  Result<CheckpointParts> parts = read_rwkvq(file);
  if (!parts.ok()) return 0;
  const Result<std::unique_ptr<Checkpoint>> canonical =
      canonicalise(make_checkpoint(std::move(parts).value()));
  if (!canonical.ok()) return 0;
  for (const StoredTensor& tensor : (*canonical)->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, values);
  }
  (void)identify(**canonical).ok();
  return 0;
}
