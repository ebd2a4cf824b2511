// Opens the files of a model, each by the reader that its first bytes ask for, and joins shards.
#include <fmt/format.h>

#include <unordered_map>

#include "files/bitsandbytes.h"
#include "files/canonical.h"
#include "files/checkpoint.h"
#include "files/coded_tensors.h"
#include "files/gguf.h"
#include "files/gguf_model.h"
#include "files/hub_facts.h"
#include "files/model_files.h"
#include "files/pth.h"
#include "files/rwkvq.h"
#include "files/safetensors.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

Error in_file(const fs::path& path, const Error& error) {
  return {error.kind, fmt::format("{}: {}", path.string(), error.text)};
}

// Opens a GGUF file, or the first of several that make one model.
Result<CheckpointParts> open_gguf(const fs::path& path, ByteSpan file) {
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

Result<CheckpointParts> read_any(const fs::path& path, ByteSpan file) {
  if (looks_like_gguf(file)) return open_gguf(path, file);
  if (looks_like_rwkvq(file)) return read_rwkvq(file);
  if (looks_like_pth(file)) return read_pth(file);
  if (looks_like_safetensors(file)) return read_safetensors(file);
  return Error{
      ErrorKind::corrupt,
      fmt::format(
          "neither a PyTorch checkpoint nor safetensors nor GGUF nor rwkvq (its {} bytes start with '{}')",
          file.size(), printable(as_text(file.first(std::min<size_t>(file.size(), 8)))))};
}

Result<CheckpointParts> read_file(const fs::path& path) {
  FULMAR_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  Result<CheckpointParts> parts = read_any(path, file->bytes());
  if (!parts.ok()) return in_file(path, parts.error());
  parts->files.push_back(std::move(file));
  return parts;
}

// Checks that every tensor is in the shard that the index names, and that there is no other.
Status check_index(const ModelFiles& model,
                   const std::unordered_map<std::string_view, std::string>& shard_of) {
  if (model.shard_of.empty()) return {};
  for (const auto& [tensor, shard] : model.shard_of) {
    const auto found = shard_of.find(tensor);
    if (found != shard_of.end() && found->second == shard) continue;
    return Error{ErrorKind::corrupt,
                 fmt::format("the index of shards says that '{}' lies in {}; found it in {}",
                             printable(tensor), shard, found == shard_of.end() ? "none" : found->second)};
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (model.shard_of.contains(std::string(tensor))) continue;
    return Error{ErrorKind::corrupt, fmt::format("{} holds '{}', which the index of shards does not name",
                                                 shard, printable(tensor))};
  }
  return {};
}

// All files in one, and for each tensor the name of its file.
struct Joined {
  CheckpointParts parts;
  std::vector<std::string> shards;
};

Result<Joined> join_files(const ModelFiles& model) {
  Joined joined;
  uint64_t bytes = 0;
  for (const fs::path& path : model.weights) {
    FULMAR_ASSIGN(CheckpointParts part, read_file(path));
    bytes += part.files.front()->bytes().size();
    CheckpointParts& all = joined.parts;
    all.files.push_back(std::move(part.files.front()));
    all.metadata.merge(part.metadata);
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(all.tensors));
    std::move(part.owners.begin(), part.owners.end(), std::back_inserter(all.owners));
    std::move(part.remarks.begin(), part.remarks.end(), std::back_inserter(all.remarks));
    all.description = std::move(part.description);
    if (part.vocabulary) all.vocabulary = std::move(part.vocabulary);
    joined.shards.resize(all.tensors.size(), path.filename().string());
  }
  const size_t count = model.weights.size();
  if (count > 1) {
    joined.parts.description = fmt::format("safetensors in {} shards, {}", count, size_text(bytes));
  }
  return joined;
}

// Checks that every tensor exists once, and in the shard that the index names.
Status check_shards(const ModelFiles& model, const Joined& joined) {
  std::unordered_map<std::string_view, std::string> shard_of;
  for (size_t i = 0; i < joined.shards.size(); i++) {
    const std::string& name = joined.parts.tensors[i].name;
    const auto [first, added] = shard_of.emplace(name, joined.shards[i]);
    if (added) continue;
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' lies both in {} and in {}", name, first->second, joined.shards[i])};
  }
  return check_index(model, shard_of);
}

Result<CheckpointParts> read_model(const ModelFiles& model) {
  FULMAR_ASSIGN(Joined joined, join_files(model));
  if (model.repository) {
    const Status checked = check_shards(model, joined);
    if (!checked.ok()) return in_file(model.folder, checked.error());
  }
  CheckpointParts& parts = joined.parts;
  if (!model.repository) return std::move(parts);
  auto facts = read_hub_facts(model.folder);
  if (!facts.ok()) return in_file(model.folder, facts.error());
  for (auto& [key, text] : *facts) parts.metadata.insert_or_assign(key, std::move(text));
  return std::move(parts);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const fs::path& path) {
  FULMAR_ASSIGN(const ModelFiles model, find_model_files(path));
  FULMAR_ASSIGN(CheckpointParts parts, read_model(model));
  for (const auto join : {join_bitsandbytes, join_codes}) {
    if (const Status joined = join(parts); !joined.ok()) return in_file(path, joined.error());
  }
  Result<std::unique_ptr<Checkpoint>> checkpoint = canonicalise(make_checkpoint(std::move(parts)));
  if (!checkpoint.ok()) return in_file(path, checkpoint.error());
  return checkpoint;
}

}  // namespace fulmar
