#include "files/files_root.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

bool lies_below(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// Fails for links that lead out of the root among what belongs to a path: opening a folder would follow them.
// `path` is a folder with all its content, or a file, which may be one of several whose names begin alike.
Status check_links(const FilesRoot& root, const fs::path& top, const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::string stem = path.stem().string();
  const std::string beginning = stem.substr(0, stem.find("-00"));
  const fs::path place = folder ? path : path.parent_path();
  for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (!entry->is_symlink(unknown) || (!folder && !name.starts_with(beginning))) continue;
    const fs::path target = fs::weakly_canonical(entry->path(), unknown);
    if (unknown || !lies_below(top, target)) {
      return Error{ErrorKind::invalid, fmt::format("'{}' in '{}' is a link that leads out of {}", name,
                                                   place.string(), root.what)};
    }
  }
  if (error) return Error{ErrorKind::io, fmt::format("'{}': {}", place.string(), error.message())};
  return {};
}

}  // namespace

Result<fs::path> path_below(const FilesRoot& root, const std::string& name, bool folder_too) {
  std::error_code error;
  // Resolves the part that exists, so that names outside are refused whether or not such a file exists.
  const fs::path path =
      fs::weakly_canonical(root.folder.empty() ? fs::path(name) : root.folder / name, error);
  if (error) return Error{ErrorKind::not_found, fmt::format("'{}': {}", name, error.message())};
  if (!root.folder.empty()) {
    const fs::path top = fs::canonical(root.folder, error);
    if (error) {
      return Error{ErrorKind::io,
                   fmt::format("{} '{}': {}", root.flag, root.folder.string(), error.message())};
    }
    if (!lies_below(top, path)) {
      return Error{ErrorKind::invalid, fmt::format("'{}' lies outside of {}", name, root.what)};
    }
    if (fs::exists(path, error)) FULMAR_TRY(check_links(root, top, path));
  }
  if (!fs::is_regular_file(path, error) && !(folder_too && fs::is_directory(path, error))) {
    return Error{ErrorKind::not_found, fmt::format("'{}' is not there or no regular file", name)};
  }
  return path;
}

}  // namespace fulmar
