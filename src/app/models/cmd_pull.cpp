// fulmar pull: downloads a model and its vocabulary from a hub into the folder of models.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/core/progress_bar.h"
#include "app/models/model_pulls.h"
#include "hub/pull.h"

namespace fulmar {
namespace {

struct PullFlags {
  std::string name, endpoint;
  PullOptions options;
  bool quiet = false;
  double download_gib = 512;
};

Result<int> run_pull(PullFlags flags) {
  FULMAR_ASSIGN(const HubName name, parse_hub_name(flags.name));
  FULMAR_ASSIGN(const PullOptions usual, usual_pull_options(flags.endpoint));
  flags.options.hub = usual.hub;
  flags.options.folder = usual.folder;
  flags.options.check_model = usual.check_model;
  flags.options.most_bytes = static_cast<int64_t>(flags.download_gib * (1 << 30));

  const bool show = !flags.quiet;
  std::string shown;
  std::optional<ProgressBar> bar;
  FULMAR_ASSIGN(const Pulled pulled,
                pull(name, flags.options, [&](const std::string& file, int64_t bytes, int64_t size) {
                  if (file != shown) bar.emplace(show ? file : std::string());
                  shown = file;
                  if (size > 0) bar->show(static_cast<double>(bytes) / static_cast<double>(size));
                  return true;
                }));
  bar.reset();
  fmt::print("model       {}\n", pulled.model.string());
  if (pulled.vocabulary) {
    fmt::print("vocabulary  {}\n", pulled.vocabulary->string());
  } else {
    fmt::print("vocabulary  none in the repository; see fulmar tokenizer import\n");
  }
  const bool folder = std::filesystem::is_directory(pulled.model);
  fmt::print("serve it    fulmar serve --model {}\n",
             (folder ? pulled.model.filename() : pulled.model.stem()).string());
  return 0;
}

}  // namespace

void add_pull(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* command =
      app.add_subcommand("pull", "Get a model and its vocabulary from a Hugging Face compatible hub");
  command->add_option("name", flags->name, "OWNER/NAME, or OWNER/NAME:FILE where it has several models")
      ->required();
  command->add_option("--endpoint", flags->endpoint,
                      "address of the hub; default: the environment's HF_ENDPOINT");
  command->add_option("--revision", flags->options.revision, "branch, tag or commit")->capture_default_str();
  command->add_option("--as", flags->options.as, "name of the model here; default: the file's");
  command->add_option("--max-download-gib", flags->download_gib, "bytes that may be fetched in all")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  command->add_flag("-q,--quiet", flags->quiet, "no progress bar");
  command->footer(
      "A token for private models is taken from HF_TOKEN. What broke off goes on where it was.\n"
      "A repository with shards, or with model.safetensors and config.json, comes whole into a folder.\n"
      "Examples:\n  fulmar pull OWNER/NAME --endpoint https://HUB\n"
      "  fulmar pull OWNER/NAME:rwkv7-g1-1.5b.pth --endpoint https://HUB");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(run_pull(*flags)); }; });
}

}  // namespace fulmar
