#include "app/model_source.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "app/progress_bar.h"
#include "base/log.h"
#include "cpu/cpu_ops.h"
#include "files/checkpoint.h"
#include "files/hub_facts.h"
#include "files/identify.h"
#include "files/quantised.h"
#include "ops/device.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

// Smaller files load before anyone could read a progress bar.
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
  return !flags.quiet && isatty(STDERR_FILENO) != 0 && fs::file_size(path, error) >= kWorthABar;
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option(
      "-m,--model,--model-path", flags.model,
      "model file (.pth, .safetensors, .st, .gguf), folder with one model, or the name of an installed one; "
      "default: the bundled demo model");
  app.add_option("--vocab,--vocab-path,--tokenizer-path", flags.vocab,
                 "vocabulary file; default: chosen from the model");
  add_template_flag(app, flags.chat_template);
  app.add_option("--device", flags.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--threads", flags.threads, "CPU threads; 0 takes all cores")->capture_default_str();
  app.add_option("--state-dtype", flags.state_dtype,
                 "how states are kept between tokens on a GPU: fp32 or fp16")
      ->check(CLI::IsMember({"fp32", "fp16"}))
      ->capture_default_str();
  app.add_option("--defer-state-writes", flags.defer,
                 "write states behind every M-th token only and replay the tokens since on chip; 1 to 16")
      ->check(CLI::Range(int64_t{1}, kMostDeferred))
      ->capture_default_str();
  std::vector<std::string> types;
  for (const Quantisation& quantisation : all_quantisations()) types.emplace_back(quantisation.name);
  app.add_option(
         "--quantize", flags.quantize,
         "quantise the large matrices while loading: q8_0, q4_k, nf4, int8, ...; `fulmar quantize` does "
         "it once")
      ->check(CLI::IsMember(types));
  app.add_flag("--plain-products", flags.plain_products,
               "large products on a GPU without cuBLASLt, where it is missing or fails; slow");
  app.add_flag("--no-panels", flags.no_panels,
               "products on a GPU of compute capability 9.0 as on those before it; to time that");
  app.add_flag("--allow-nonfinite", flags.allow_nonfinite, "load weights that contain NaN or infinity");
  app.add_flag("-q,--quiet", flags.quiet, "no progress bar");
}

void add_template_flag(CLI::App& app, std::string& choice) {
  std::vector<std::string> names{"auto"};
  for (const PromptTemplate& one : prompt_templates()) names.emplace_back(one.name);
  app.add_option("--chat-template", choice, "how chats are written; auto: as the model's files or name say")
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
  if (!name.starts_with('.')) bases.push_back(vocabulary_folder() / "models" / path);
  for (const fs::path& base : bases) {
    for (const char* ending : {"", ".pth", ".safetensors", ".st", ".gguf"}) {
      fs::path candidate = base;
      candidate += ending;
      const bool index = candidate.string().ends_with(".safetensors.index.json");  // stands for its folder
      if (fs::is_regular_file(candidate, error))
        return index ? fs::absolute(candidate).parent_path() : candidate;
      if (fs::is_directory(candidate, error)) return candidate;
    }
  }
  return Error{ErrorKind::not_found, fmt::format("model '{}' not found, neither as a file nor in {}", name,
                                                 (vocabulary_folder() / "models").string())};
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

Result<std::unique_ptr<Ops>> open_device(const ModelFlags& flags) {
  const bool any = flags.device == "auto";
  if (any || flags.device.starts_with("cuda")) {
    DeviceOptions options;
    options.half_state = flags.state_dtype == "fp16";
    options.plain_products = flags.plain_products;
    options.panels = !flags.no_panels;
    options.state_writes = {.every = flags.defer, .revocable = flags.revocable_on_gpu ? flags.revocable : 0};
    if (flags.device.starts_with("cuda:")) {
      const std::string number = flags.device.substr(5);
      if (number.empty() || number.size() > 3 ||
          number.find_first_not_of("0123456789") != std::string::npos) {
        return Error{ErrorKind::invalid,
                     fmt::format("--device is '{}'; wanted cuda:N with a number N", flags.device)};
      }
      options.index = std::atoi(number.c_str());
    }
    auto opened = open_gpu(options);
    if (opened.ok() || !any) return opened;
    const bool none = list_gpus().empty();
    spdlog::log(none ? spdlog::level::debug : spdlog::level::warn, "running on the CPU: {}",
                opened.error().text);
  } else if (flags.device != "cpu") {
    return Error{ErrorKind::invalid,
                 fmt::format("--device is '{}'; wanted auto, cpu, cuda or cuda:N", flags.device)};
  }
  return make_cpu_ops(
      {.threads = flags.threads, .state_writes = {.every = flags.defer, .revocable = flags.revocable}});
}

Result<LoadedModel> load_model(const ModelFlags& flags) {
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
  if (!flags.quantize.empty()) {
    ProgressBar bar(show_bar(flags, loaded.path) ? "quantising" : std::string());
    const QuantiseOptions options{.blocks = *quantisation_named(flags.quantize),
                                  .head = head_quantisation(),
                                  .progress = [&](double fraction) { bar.show(fraction); }};
    FULMAR_ASSIGN(checkpoint, quantise_checkpoint(std::move(checkpoint), options));
  }
  FULMAR_ASSIGN(loaded.ops, open_device(flags));

  const int64_t chosen_rows = std::max(loaded.ops->traits().suitable_rows, flags.least_rows);
  LoadOptions options{.max_rows = flags.max_rows > 0 ? flags.max_rows : chosen_rows,
                      .slots = flags.slots,
                      .allow_nonfinite = flags.allow_nonfinite};
  options.max_wanted = std::min(flags.max_wanted, options.max_rows);
  FULMAR_ASSIGN(const MemoryPlan plan, plan_memory(*checkpoint, config, *loaded.ops, options));
  // A server says so; a program that runs one prompt only when asked.
  spdlog::log(options.slots > 0 ? spdlog::level::info : spdlog::level::debug,
              "memory plan weights={} MiB workspace={} MiB state={} KiB slots={} free={} MiB",
              plan.weights >> 20, plan.workspace >> 20, plan.per_slot >> 10, plan.slots,
              loaded.ops->memory_free() >> 20);
  ProgressBar bar(show_bar(flags, loaded.path) ? loaded.path.filename().string() : std::string());
  options.progress = [&](double fraction) { bar.show(fraction); };
  for (const StoredTensor& tensor : checkpoint->tensors()) loaded.weight_bytes += tensor.bytes();
  FULMAR_ASSIGN(loaded.model, Model::load(std::move(checkpoint), *loaded.ops, options));
  return loaded;
}

}  // namespace fulmar
