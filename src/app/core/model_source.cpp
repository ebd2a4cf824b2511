#include "app/core/model_source.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "app/core/installed_models.h"
#include "app/core/progress_bar.h"
#include "app/core/replaced.h"
#include "base/log.h"
#include "files/checkpoint.h"
#include "files/hub_facts.h"
#include "files/identify.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "files/strategy.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

// Smaller files load before a progress bar could be read.
constexpr uintmax_t kWorthABar = uintmax_t{64} << 20;

fs::path program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path();
}

Result<fs::path> demo_model() {
  const char* name = "models/fulmar-demo.safetensors";
  const fs::path here = program_folder();
  for (const fs::path& base : {here / "../share/fulmar", here / "../..", fs::path(".")}) {
    std::error_code error;
    if (fs::exists(base / name, error)) return (base / name).lexically_normal();
  }
  return Error{ErrorKind::not_found,
               "the bundled demo model is not beside this program; name a model with --model FILE"};
}

bool show_bar(const ModelFlags& flags, const fs::path& path) {
  std::error_code error;
  return !flags.quiet && fs::file_size(path, error) >= kWorthABar;
}

Status log_plan(const Checkpoint& checkpoint, const ModelConfig& config, std::span<const Placed> stages,
                const LoadOptions& options) {
  FULMAR_ASSIGN(const auto plans, plan_stages(checkpoint, config, stages, options));
  for (const StagePlan& plan : plans) {
    spdlog::log(options.slots > 0 ? spdlog::level::info : spdlog::level::debug,
                "memory plan device=\"{}\" layers={}-{} slice={}/{} weights={} MiB workspace={} MiB state={} "
                "KiB slots={} "
                "free={} MiB",
                plan.device, plan.layers.first, plan.layers.last - 1, plan.slice.index + 1, plan.slice.count,
                plan.memory.weights >> 20, plan.memory.workspace >> 20, plan.memory.per_slot >> 10,
                plan.memory.slots, plan.free >> 20);
  }
  return {};
}

// Returns the bytes of a state with its ring on all devices together.
Result<size_t> bytes_of_state(const Checkpoint& checkpoint, const ModelConfig& config,
                              std::span<const Placed> stages, const LoadOptions& options) {
  FULMAR_ASSIGN(const auto plans, plan_stages(checkpoint, config, stages, options));
  size_t bytes = 0;
  for (const StagePlan& plan : plans) bytes += plan.memory.per_slot;
  return bytes;
}

// Quantises as --quantize says; returns the kinds of matrices that were
// quantised, or nothing if none were.
Result<std::string> quantise_as(const ModelFlags& flags, const fs::path& path, const ModelConfig& config,
                                std::unique_ptr<Checkpoint>& checkpoint) {
  FULMAR_ASSIGN(const Strategy strategy, strategy_named(flags.quantize));
  if (!strategy.quantises()) return std::string();
  ProgressBar bar(show_bar(flags, path) ? "quantising" : std::string());
  QuantiseOptions options = options_of(strategy, flags.keep_head);
  options.progress = [&](double fraction) { bar.show(fraction); };
  std::vector<QuantisedKind> kinds;
  FULMAR_ASSIGN(checkpoint, quantise_checkpoint(std::move(checkpoint), options, &kinds));
  if (kinds.empty()) {
    spdlog::warn("quantisation name='{}' weights=\"as stored: they are quantised already\"", strategy.name);
    return std::string();
  }
  spdlog::info("quantisation name='{}' weights=\"{}\"", strategy.name, describe(strategy));
  if (const std::string advice = few_bits_advice(options, config.parameters); !advice.empty()) {
    spdlog::warn("quantisation name='{}' advice=\"{}\"", strategy.name, advice);
  }
  return kinds_in_blocks(kinds);
}

// Warns of a flag that changes nothing.
void warn_of_activation(const DeviceFlags& flags, const Checkpoint& checkpoint) {
  if (flags.activation != "fp8") return;
  const auto& tensors = checkpoint.tensors();
  const bool any = std::any_of(tensors.begin(), tensors.end(),
                               [](const StoredTensor& one) { return one.dtype == DType::f8_e4m3; });
  if (on_host(flags)) {
    return;  // refused once the devices are open
  }
  if (!any) {
    spdlog::warn("activation name='fp8' effect=\"none: no weight is fp8; wanted --quantize fp8\"");
  }
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  add_file_flags(app, flags);
  add_template_flag(app, flags.chat_template);
  add_device_flags(app, flags.devices);
  add_state_flags(app, flags.devices);
}

void add_file_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option(
      "-m,--model", flags.model,
      "file (.pth, .safetensors, .st, .gguf, .rwkvq), folder or name of an installed model; default: the "
      "demo model");
  app.add_option("--vocab", flags.vocab, "vocabulary file; default: the one that suits the model");
  const CLI::Validator is_strategy(
      [](const std::string& name) {
        const auto strategy = strategy_named(name);
        return strategy.ok() ? std::string() : strategy.error().text;
      },
      "KIND");
  app.add_option(
         "--quantize", flags.quantize,
         fmt::format("quantise while loading: q8_0, q6_k, q4_k, fp8 or another KIND; KIND{} leaves the head",
                     kStoredHead))
      ->check(is_strategy);
  replaced(app.add_flag("--quantize-keep-head", flags.keep_head),
           "is spelled --quantize KIND" + std::string(kStoredHead) + " now");
  app.add_flag("--allow-nonfinite", flags.allow_nonfinite, "load weights that contain NaN or infinity");
  app.add_flag("-q,--quiet", flags.quiet, "no progress bar");
}

void add_template_flag(CLI::App& app, std::string& choice) {
  std::vector<std::string> names{"auto"};
  for (const PromptTemplate& one : prompt_templates()) names.emplace_back(one.name);
  app.add_option("--chat-template", choice, "how chats are written; auto: as the model's files say")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
}

const PromptTemplate& template_of(const std::string& choice, const Checkpoint& checkpoint,
                                  const fs::path& path) {
  if (const PromptTemplate* named = find_prompt_template(choice)) return *named;
  const auto said = [&](const char* key) {
    const auto found = checkpoint.metadata().find(key);
    return found == checkpoint.metadata().end() ? std::string() : found->second;
  };
  const std::string jinja = said(kTemplateFact) + said("tokenizer.chat_template");
  const std::string name = path.filename().string() + " " + said(kNameFact) + " " + said("general.name");
  return choose_prompt_template({.jinja = jinja, .name = name});
}

Result<fs::path> find_model(const std::string& name) {
  if (name.empty()) return demo_model();
  std::error_code error;
  // Without a slash at its end, which would hide the folder's name.
  const fs::path path = name.ends_with('/') ? fs::path(name).parent_path() : fs::path(name);
  std::vector<fs::path> bases{path};
  if (!name.starts_with('.')) bases.push_back(models_folder() / path);
  for (const fs::path& base : bases) {
    for (size_t i = 0; i <= std::size(kWeightsEndings); i++) {  // unchanged, then with each ending
      fs::path candidate = base;
      if (i > 0) candidate += kWeightsEndings[i - 1];
      const bool index = candidate.string().ends_with(".safetensors.index.json");  // stands for its folder
      if (fs::is_regular_file(candidate, error))
        return index ? fs::absolute(candidate).parent_path() : candidate;
      if (fs::is_directory(candidate, error)) return candidate;
    }
  }
  if (const auto installed = find_installed(models_folder(), name)) return installed->path;
  return Error{ErrorKind::not_found, fmt::format("model '{}' not found, neither as a file nor in {}", name,
                                                 models_folder().string())};
}

Result<std::unique_ptr<Tokenizer>> tokenizer_of(const Checkpoint& checkpoint, const fs::path& path,
                                                int64_t rows, const std::string& vocab) {
  VocabularyQuery query{.model_path = path, .explicit_vocabulary = vocab, .model_rows = rows};
  const auto& metadata = checkpoint.metadata();
  if (const auto named = metadata.find("tokenizer"); named != metadata.end())
    query.named_in_model = named->second;
  if (const StoredVocabulary* stored = checkpoint.vocabulary()) {
    for (const StoredToken& token : *stored) query.in_model.entries.push_back({token.id, token.bytes});
  }
  return choose_tokenizer(query);
}

LoadOptions load_options(const ModelFlags& flags, const Ops& device) {
  const int64_t chosen_rows = std::max(device.traits().suitable_rows, flags.least_rows);
  LoadOptions options{.max_rows = flags.max_rows > 0 ? flags.max_rows : chosen_rows,
                      .slots = flags.slots,
                      .steps_under_way = flags.devices.pp_steps,
                      .collective_timeout = collective_timeout_of(flags.devices),
                      .allow_nonfinite = flags.allow_nonfinite};
  options.max_wanted = std::min(flags.max_wanted, options.max_rows);
  return options;
}

Result<std::vector<Placed>> place_on(const Devices& devices, const DeviceFlags& flags,
                                     const Checkpoint& checkpoint, const LoadOptions& options) {
  FULMAR_ASSIGN(const auto counts, parse_split(flags.split));
  FULMAR_ASSIGN(const ModelConfig config, identify(checkpoint));
  std::vector<Ops*> ops;
  for (const auto& device : devices) ops.push_back(device.get());
  FULMAR_ASSIGN(const int64_t slices, slices_of(flags, devices.size()));
  return place_layers(checkpoint, config, ops, counts, options, slices);
}

namespace {

Result<LoadedModel> load_watched(const ModelFlags& flags) {
  LoadedModel loaded;
  FULMAR_ASSIGN(loaded.path, find_model(flags.model));
  FULMAR_ASSIGN(auto checkpoint, open_checkpoint(loaded.path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  loaded.prompt_template = &template_of(flags.chat_template, *checkpoint, loaded.path);
  auto tokenizer = tokenizer_of(*checkpoint, loaded.path, config.vocab, flags.vocab);
  if (tokenizer.ok()) {
    loaded.tokenizer = std::move(tokenizer).value();
  } else if (flags.needs_vocab || !flags.vocab.empty()) {
    return tokenizer.error();
  }
  FULMAR_ASSIGN(loaded.quantised, quantise_as(flags, loaded.path, config, checkpoint));
  warn_of_activation(flags.devices, *checkpoint);
  FULMAR_ASSIGN(loaded.devices, open_devices(flags.devices));
  loaded.fixed_cuts = flags.devices.deterministic && !on_host(flags.devices);
  LoadOptions options = load_options(flags, *loaded.devices.front());
  FULMAR_ASSIGN(auto stages, place_on(loaded.devices, flags.devices, *checkpoint, options));
  if (flags.kept_mib > 0) {
    FULMAR_ASSIGN(const size_t each, bytes_of_state(*checkpoint, config, stages, options));
    options.slots += static_cast<int64_t>(flags.kept_mib * (1 << 20) / static_cast<double>(each));
    FULMAR_ASSIGN(stages, place_on(loaded.devices, flags.devices, *checkpoint, options));
  }
  // A server logs its plan; a program that runs one prompt only on request.
  FULMAR_TRY(log_plan(*checkpoint, config, stages, options));
  ProgressBar bar(show_bar(flags, loaded.path) ? loaded.path.filename().string() : std::string());
  options.progress = [&](double fraction) { bar.show(fraction); };
  for (const StoredTensor& tensor : checkpoint->tensors()) loaded.weight_bytes += tensor.bytes();
  loaded.shapes = base_shapes(*checkpoint, config);
  FULMAR_ASSIGN(loaded.model, Model::load(std::move(checkpoint), stages, options));
  return loaded;
}

}  // namespace

Result<LoadedModel> load_model(const ModelFlags& flags) {
  return watched([&] { return load_watched(flags); });
}

}  // namespace fulmar
