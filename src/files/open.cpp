// Chooses the reader of a file by its first bytes.
#include <fmt/format.h>

#include "files/canonical.h"
#include "files/checkpoint.h"
#include "files/gguf.h"
#include "files/gguf_model.h"
#include "files/pth.h"
#include "files/safetensors.h"

namespace fulmar {
namespace {

// A GGUF file, or the first of several that make one model.
Result<CheckpointParts> open_gguf(const std::filesystem::path& path, ByteSpan file) {
  FULMAR_ASSIGN(GgufFile whole, read_gguf(file));
  FULMAR_ASSIGN(const int64_t count, split_count(whole));
  uint64_t bytes = file.size();
  std::vector<std::shared_ptr<const void>> owners;
  if (count > 1) {
    FULMAR_ASSIGN(const auto paths, split_paths(path, count));
    FULMAR_TRY(join_split(whole, whole, 0));
    for (size_t i = 1; i < paths.size(); i++) {
      FULMAR_ASSIGN(std::shared_ptr<const MappedFile> next, MappedFile::open(paths[i]));
      FULMAR_ASSIGN(const GgufFile part, read_gguf(next->bytes()));
      FULMAR_TRY(join_split(whole, part, static_cast<int64_t>(i)));
      bytes += next->bytes().size();
      owners.push_back(std::move(next));
    }
    FULMAR_TRY(check_split_total(whole));
  }
  FULMAR_ASSIGN(CheckpointParts parts, gguf_model(whole));
  parts.description = count > 1 ? fmt::format("GGUF in {} parts, {}", count, size_text(bytes))
                                : fmt::format("GGUF, {}", size_text(bytes));
  parts.owners.insert(parts.owners.end(), owners.begin(), owners.end());
  return parts;
}

Result<CheckpointParts> read_any(const std::filesystem::path& path, ByteSpan file) {
  if (looks_like_gguf(file)) return open_gguf(path, file);
  if (looks_like_pth(file)) return read_pth(file);
  if (looks_like_safetensors(file)) return read_safetensors(file);
  return Error{
      ErrorKind::corrupt,
      fmt::format("neither a PyTorch checkpoint nor safetensors nor GGUF (its {} bytes start with '{}')",
                  file.size(), printable(as_text(file.first(std::min<size_t>(file.size(), 8)))))};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& path) {
  FULMAR_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const auto in_file = [&](const Error& error) {
    return Error{error.kind, fmt::format("{}: {}", path.string(), error.text)};
  };
  Result<CheckpointParts> parts = read_any(path, file->bytes());
  if (!parts.ok()) return in_file(parts.error());
  parts->file = std::move(file);
  Result<std::unique_ptr<Checkpoint>> checkpoint = canonicalise(make_checkpoint(std::move(parts).value()));
  if (!checkpoint.ok()) return in_file(checkpoint.error());
  return checkpoint;
}

}  // namespace fulmar
