// Reading and appending the lines.
#include "hub/pulled_names.h"

#include <sstream>

#include "base/read_file.h"
#include "base/write_file.h"

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
  return append_to_file(folder / kFile, name + "\t" + local + "\n");
}

std::map<std::string, std::string> pulled_names(const std::filesystem::path& folder) {
  std::map<std::string, std::string> names;
  std::istringstream lines(read_if_there(folder / kFile, kMostBytes));
  for (std::string line; std::getline(lines, line) && !lines.eof();) {  // the last one may be cut off
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) names[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return names;
}

}  // namespace fulmar
