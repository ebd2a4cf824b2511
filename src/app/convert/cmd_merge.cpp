// fulmar merge: a model with an adapter folded into its weights, as a model file.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "adapters/merge.h"
#include "adapters/reading.h"
#include "app/convert/adapter_options.h"
#include "app/convert/model_writer.h"
#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/option_checks.h"
#include "app/core/progress_bar.h"
#include "base/sha256.h"
#include "files/identify.h"
#include "files/mapped_file.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

struct MergeFlags : OutputFlags {
  std::string base, adapter;
  AdapterOptions options;
  double strength = 1;
  bool any_base = false;
};

// Checks that an adapter that names its base model was trained on this file.
Status check_base(const MergeFlags& flags, const fs::path& model, const Adapter& adapter) {
  if (adapter.base_fingerprint.empty() || flags.any_base) return {};
  if (!fs::is_regular_file(model)) {
    return Error{
        ErrorKind::invalid,
        fmt::format("'{}' is no single file, so its SHA-256 cannot be compared with {}; --any-base merges "
                    "all the same",
                    model.string(), adapter.base_fingerprint)};
  }
  FULMAR_ASSIGN(const auto file, MappedFile::open(model));
  const Status same = check_fingerprint(adapter, sha256_hex(as_text(file->bytes())));
  if (same.ok()) return {};
  return Error{same.error().kind, same.error().text + "; --any-base merges all the same"};
}

// Fails where the output cannot hold what the adapter brings.
Status check_holds_states(const MergeFlags& flags, const Adapter& adapter) {
  if (adapter.states.empty() || target_of(flags) != OutputKind::gguf) return {};
  return Error{ErrorKind::unsupported,
               fmt::format("'{}' holds initial states, which .gguf files cannot; write .safetensors or .pth",
                           flags.adapter)};
}

Result<int> merge(const MergeFlags& flags) {
  FULMAR_TRY(check_target(flags));
  FULMAR_ASSIGN(const fs::path path, find_model(flags.base));
  FULMAR_ASSIGN(Adapter adapter, read_adapter(flags.adapter, flags.options));
  FULMAR_TRY(check_holds_states(flags, adapter));
  FULMAR_ASSIGN(auto model, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*model));
  if (const Status fits = fit_adapter(adapter, base_shapes(*model, config)); !fits.ok()) {
    return Error{fits.error().kind, fmt::format("{}: {}", flags.adapter, fits.error().text)};
  }
  FULMAR_TRY(check_base(flags, path, adapter));
  std::vector<std::string> warnings;
  std::unique_ptr<Checkpoint> merged;
  {
    ProgressBar bar(flags.quiet ? std::string() : "merging");
    MergeOptions how{.strength = flags.strength, .progress = [&](double share) { bar.show(share); }};
    FULMAR_ASSIGN(merged, merge_adapter(std::move(model), adapter, how, &warnings));
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "fulmar: warning: {}\n", warning);
  FULMAR_TRY(write_model(flags, path, *merged, config));
  fmt::print("merged {} matrices, {} whole tensors, {} initial states\n", adapter.deltas.size(),
             adapter.whole.size(), adapter.states.size());
  print_written(path.string(), flags.out);
  return 0;
}

}  // namespace

void add_merge(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<MergeFlags>();
  auto* command = app.add_subcommand("merge", "Write a model file with an adapter folded into its weights");
  command->add_option("base", flags->base, "model file of 16 or 32 bits, or the name of an installed one")
      ->required();
  command->add_option("adapter", flags->adapter, "adapter file or folder")->required();
  command->add_option("out", flags->out, "the file to write: .safetensors, .pth or .gguf")->required();
  add_adapter_options(*command, flags->options);
  command->add_option("--strength", flags->strength, "how much of what the adapter changes: 0 is none")
      ->check(within(-kMostStrength, kMostStrength))
      ->capture_default_str();
  command->add_flag("--any-base", flags->any_base,
                    "do not compare the base model's SHA-256 with the adapter's");
  command->add_option("--vocab", flags->vocab,
                      "vocabulary file to put into a .gguf; default: chosen from the model");
  command->add_flag("--force", flags->force, "replace a file that exists");
  command->add_flag("-q,--quiet", flags->quiet, "no progress bar");
  command->footer(
      "Weights are computed in f32 and rounded once to the type of BASE. Quantised weights are refused: "
      "merge\n"
      "into the 16-bit model, then quantise that.\n\n"
      "Examples:\n  fulmar merge rwkv7-g1-1.5b.pth rwkv-4.pth merged.pth --alpha 32\n"
      "  fulmar merge rwkv7-g1-1.5b.pth my-peft-folder merged.safetensors\n"
      "  fulmar merge rwkv7-g1-1.5b.pth lora.gguf merged.gguf --strength 0.5");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(merge(*flags)); }; });
}

}  // namespace fulmar
