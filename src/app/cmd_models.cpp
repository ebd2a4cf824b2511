// fulmar models: what is in the folder of models.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <vector>

#include "app/commands.h"
#include "files/model_files.h"
#include "text/locate_vocabulary.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

struct InstalledModel {
  std::string name;  // as --model takes it
  std::string file;
  uintmax_t bytes = 0;
  std::string vocabulary;  // file beside it; empty: none
  bool partial = false;    // a download that has not ended
};

std::string vocabulary_beside(const fs::path& model) {
  std::error_code error;
  for (const std::string& name : {model.stem().string() + ".vocab.txt", std::string(kWorldFileName)}) {
    if (fs::is_regular_file(model.parent_path() / name, error)) return name;
  }
  return {};
}

// A repository that was pulled whole, or not whole yet.
InstalledModel installed_folder(const fs::path& folder) {
  const auto files = find_model_files(folder);
  InstalledModel model{.name = files.ok() ? folder.filename().string() : "-",
                       .file = folder.filename().string() + "/",
                       .vocabulary = {},
                       .partial = !files.ok()};
  std::error_code error;
  for (const fs::path& file : files.ok() ? files->weights : std::vector<fs::path>()) {
    model.bytes += fs::file_size(file, error);
  }
  const auto vocabulary = find_folder_vocabulary(folder, 0);
  if (vocabulary.ok()) model.vocabulary = vocabulary->filename().string();
  return model;
}

// By name. A folder that is not there holds none.
std::vector<InstalledModel> installed_models(const fs::path& folder) {
  std::vector<InstalledModel> models;
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
                      .file = path.filename().string(),
                      .bytes = entry->file_size(error),
                      .vocabulary = partial ? std::string() : vocabulary_beside(path),
                      .partial = partial});
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return models;
}

int list_models() {
  const fs::path folder = vocabulary_folder() / "models";
  const auto models = installed_models(folder);
  if (models.empty()) {
    fmt::print("no models in {}; fulmar pull gets some\n", folder.string());
    return 0;
  }
  fmt::print("in {}\n{:<36} {:>10}  {:<26} {}\n", folder.string(), "name", "MB", "vocabulary", "file");
  for (const InstalledModel& model : models) {
    const std::string beside = model.partial              ? "incomplete; pull it again"
                               : model.vocabulary.empty() ? "chosen from the model"
                                                          : model.vocabulary;
    fmt::print("{:<36} {:>10.1f}  {:<26} {}\n", model.name, static_cast<double>(model.bytes) / 1e6, beside,
               model.file);
  }
  return 0;
}

}  // namespace

void add_models(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("models", "List the models that pull has brought");
  command->footer("What the column `name` shows is what --model takes.");
  command->callback([&chosen] { chosen = list_models; });
}

}  // namespace fulmar
