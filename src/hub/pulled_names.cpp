// Reading and appending the lines.
#include "hub/pulled_names.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace fulmar {
namespace {

constexpr const char* kFile = ".pulled";
constexpr size_t kMostBytes = size_t{1} << 20;

}  // namespace

std::string name_text(const HubName& hub) {
  return hub.owner + "/" + hub.name + (hub.file.empty() ? "" : ":" + hub.file);
}

Status remember_pull(const std::filesystem::path& folder, const HubName& hub, const std::string& local) {
  const std::string name = name_text(hub);
  const auto known = pulled_names(folder);
  if (const auto found = known.find(name); found != known.end() && found->second == local) return {};
  const std::filesystem::path path = folder / kFile;
  std::ofstream file(path, std::ios::app);
  file << name + "\t" + local + "\n" << std::flush;
  if (file) return {};
  return Error{ErrorKind::io, path.string() + ": " + std::strerror(errno)};
}

std::map<std::string, std::string> pulled_names(const std::filesystem::path& folder) {
  std::map<std::string, std::string> names;
  std::ifstream file(folder / kFile);
  size_t read = 0;
  for (std::string line; std::getline(file, line) && (read += line.size() + 1) <= kMostBytes;) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) names[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return names;
}

}  // namespace fulmar
