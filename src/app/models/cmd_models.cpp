// fulmar models: what is in the folder of models.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "app/core/commands.h"
#include "app/core/installed_models.h"

namespace fulmar {
namespace {

int list_models() {
  const std::filesystem::path folder = models_folder();
  const auto models = installed_models(folder);
  if (models.empty()) {
    fmt::print("no models in {}; fulmar pull gets some\n", folder.string());
    return 0;
  }
  fmt::print("in {}\n{:<36} {:>10}  {:<26} {}\n", folder.string(), "name", "MB", "vocabulary", "file");
  for (const InstalledFiles& model : models) {
    std::string beside = model.partial ? "incomplete; pull it again" : vocabulary_beside(model);
    if (beside.empty()) beside = "chosen from the model";
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
