// Chooses the reader of a file by its first bytes.
#include <fmt/format.h>

#include "files/canonical.h"
#include "files/checkpoint.h"
#include "files/pth.h"
#include "files/safetensors.h"

namespace fulmar {
namespace {

Result<CheckpointParts> read_any(ByteSpan file) {
  if (looks_like_pth(file)) return read_pth(file);
  if (looks_like_safetensors(file)) return read_safetensors(file);
  if (file.size() >= 4 && as_text(file.first(4)) == "GGUF") {
    return Error{ErrorKind::unsupported, "GGUF files are not supported"};
  }
  return Error{ErrorKind::corrupt,
               fmt::format("neither a PyTorch checkpoint nor safetensors (its {} bytes start with '{}')",
                           file.size(), printable(as_text(file.first(std::min<size_t>(file.size(), 8)))))};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& path) {
  FULMAR_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const auto in_file = [&](const Error& error) {
    return Error{error.kind, fmt::format("{}: {}", path.string(), error.text)};
  };
  Result<CheckpointParts> parts = read_any(file->bytes());
  if (!parts.ok()) return in_file(parts.error());
  parts->file = std::move(file);
  Result<std::unique_ptr<Checkpoint>> checkpoint = canonicalise(make_checkpoint(std::move(parts).value()));
  if (!checkpoint.ok()) return in_file(checkpoint.error());
  return checkpoint;
}

}  // namespace fulmar
