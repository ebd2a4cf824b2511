// Whatever the bytes are, the GGUF reader gives tensors inside them or an error, and what follows copes.
#include <cstdlib>

#include "files/gguf.h"
#include "files/gguf_model.h"
#include "files/identify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fulmar;
  const ByteSpan file(reinterpret_cast<const std::byte*>(data), size);
  const Result<GgufFile> read = read_gguf(file);
  if (!read.ok()) {
    if (!read.error().text.starts_with("GGUF: ") && !read.error().text.starts_with("bad tensor name"))
      std::abort();
    return 0;
  }
  for (const StoredTensor& tensor : read->tensors) {
    if (tensor.data < file.data() || tensor.data + tensor.bytes() > file.data() + file.size()) std::abort();
  }
  (void)split_count(*read).ok();
  Result<CheckpointParts> parts = gguf_model(*read);
  if (!parts.ok()) return 0;
  const auto checkpoint = make_checkpoint(std::move(parts).value());
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, values);
  }
  (void)identify(*checkpoint).ok();
  return 0;
}
