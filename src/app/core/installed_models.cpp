// Lists the folder.
#include "app/core/installed_models.h"

#include <algorithm>

#include "files/model_files.h"
#include "hub/hub_name.h"
#include "hub/pulled_names.h"
#include "text/locate_vocabulary.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

// Describes a pulled repository, complete or not.
InstalledFiles installed_folder(const fs::path& folder) {
  const auto files = find_model_files(folder);
  InstalledFiles model{.name = files.ok() ? folder.filename().string() : "-",
                       .path = folder,
                       .file = folder.filename().string() + "/",
                       .partial = !files.ok()};
  std::error_code error;
  for (const fs::path& file : files.ok() ? files->weights : std::vector<fs::path>()) {
    model.bytes += fs::file_size(file, error);
  }
  return model;
}

std::string without_tag(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";  // appended by Ollama's clients
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return std::string(name);
}

}  // namespace

std::string vocabulary_beside(const InstalledFiles& model) {
  std::error_code error;
  if (model.partial) return {};
  if (fs::is_directory(model.path, error)) {
    const auto vocabulary = find_folder_vocabulary(model.path, 0);
    return vocabulary.ok() ? vocabulary->filename().string() : std::string();
  }
  for (const std::string& name : {model.path.stem().string() + ".vocab.txt", std::string(kWorldFileName)}) {
    if (fs::is_regular_file(model.path.parent_path() / name, error)) return name;
  }
  return {};
}

fs::path models_folder() { return vocabulary_folder() / "models"; }

std::vector<InstalledFiles> installed_models(const fs::path& folder) {
  std::vector<InstalledFiles> models;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (entry->is_directory(error)) {
      models.push_back(installed_folder(path));
      continue;
    }
    const bool partial = path.extension() == ".part";
    if (!entry->is_regular_file(error) || !(partial || is_weights_name(path.filename().string()))) continue;
    models.push_back({.name = partial ? std::string("-") : path.stem().string(),
                      .path = path,
                      .file = path.filename().string(),
                      .bytes = entry->file_size(error),
                      .partial = partial});
  }
  for (const auto& [pulled_as, local] : pulled_names(folder)) {
    for (InstalledFiles& model : models) {
      if (model.name == local) model.pulled_as = pulled_as;
    }
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return models;
}

std::optional<InstalledFiles> find_installed(const fs::path& folder, std::string_view asked) {
  std::string name = without_tag(asked);
  if (const auto hub = parse_hub_name(name); hub.ok()) {
    const auto names = pulled_names(folder);
    const auto found = names.find(name_text(*hub));
    if (found == names.end()) return std::nullopt;
    name = found->second;
  }
  for (InstalledFiles& model : installed_models(folder)) {
    if (!model.partial && model.name == name) return std::move(model);
  }
  return std::nullopt;
}

}  // namespace fulmar
