// Recognises changed files by size and time.
#include "app/serve/model_descriptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

std::string stamp_of_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return fmt::format("{} {} {}\n", path.filename().string(), size, time);
}

std::string stamp_of(const InstalledFiles& files) {
  std::vector<std::string> stamps;
  std::error_code error;
  if (fs::is_directory(files.path, error)) {
    for (fs::directory_iterator file(files.path, error), end; !error && file != end; file.increment(error)) {
      stamps.push_back(stamp_of_file(file->path()));
    }
    std::sort(stamps.begin(), stamps.end());
  } else {
    stamps.push_back(stamp_of_file(files.path));
  }
  return fmt::format("{}\n{}", files.pulled_as, fmt::join(stamps, ""));
}

}  // namespace

Result<ServedModelPtr> ModelDescriptions::of(const InstalledFiles& files, const Read& read) {
  const std::string stamp = stamp_of(files), path = files.path.string();
  {
    std::lock_guard lock(mutex_);
    const auto known = entries_.find(path);
    if (known != entries_.end() && known->second.stamp == stamp) return known->second.facts;
  }
  Result<ServedModelPtr> facts = read();
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kMost) entries_.clear();
  entries_.insert_or_assign(path, CachedFacts{stamp, facts});
  return facts;
}

}  // namespace fulmar
