// fulmar inspect: what a model file or an adapter holds, and what it would take of each device, without
// loading it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "adapters/source.h"
#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/option_checks.h"
#include "app/models/inspect_adapter.h"
#include "app/served/served_engine.h"
#include "cpu/cpu_ops.h"
#include "files/checkpoint.h"
#include "files/identify.h"
#include "files/model_files.h"
#include "files/versions.h"
#include "model/nonfinite.h"

namespace fulmar {

namespace {

struct InspectFlags {
  std::string model;
  bool tensors = false;
  bool quick = false;
  bool plan = false;
  int64_t slots = 0;  // of the plan
  DeviceFlags devices;
  std::string chat_template = "auto";
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Returns the beginning of a text, for one line.
std::string one_line(const std::string& text) {
  constexpr size_t kShown = 120;
  std::string line;
  for (const char c : text.substr(0, kShown)) {
    if (c == '\n') line += "\\n";
    if (c != '\n') line += c;
  }
  return text.size() > kShown ? fmt::format("{}... ({} bytes)", line, text.size()) : line;
}

void print_sizes(const Checkpoint& checkpoint, const ModelConfig& config) {
  int64_t parameters = 0;
  size_t bytes = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    parameters += tensor.count();
    bytes += tensor.bytes();
  }
  const auto ops = make_cpu_ops({.threads = 1});
  StateLayout layout = state_layout_of(config, *ops);
  const size_t full = layout.slot_bytes();
  layout.wkv_dtype = layout.shift_dtype = DType::f16;
  fmt::print("version     RWKV-{}{}\n", config.version, config.deep_embed ? "a (DeepEmbed)" : "");
  fmt::print("layers      {}\nembedding   {}\nheads       {} of {}\nfeed-forward {}\nvocabulary  {}\n",
             config.n_layer, config.n_embd, config.n_head, config.head_size, config.n_ffn, config.vocab);
  fmt::print("ranks      ");
  for (const RankSize& rank : version_of(config.version).ranks)
    fmt::print(" {} {}", rank.label, config.*rank.size);
  fmt::print("\n");
  fmt::print("parameters  {} ({:.3g} billion), {} tensors\n", parameters,
             static_cast<double>(parameters) / 1e9, checkpoint.tensors().size());
  fmt::print("weights     {} bytes, mostly {}\n", bytes, name_of(config.dtype));
  fmt::print("state       {} bytes in f32, {} in f16\n", full, layout.slot_bytes());
}

// Prints how many tensors have each type, and their bytes.
void print_types(const Checkpoint& checkpoint) {
  struct TypeTotal {
    int64_t tensors = 0, numbers = 0;
    size_t bytes = 0;
  };
  std::map<DType, TypeTotal> shares;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    TypeTotal& share = shares[tensor.dtype];
    share.tensors++;
    share.numbers += tensor.count();
    share.bytes += tensor.bytes();
  }
  for (const auto& [dtype, share] : shares) {
    fmt::print("type        {:<8} {:>5} tensors {:>14} numbers {:>10}\n", name_of(dtype), share.tensors,
               share.numbers, size_text(share.bytes));
  }
}

// Returns text like ", heads 0 to 31 of 64".
std::string slice_text(const Slice& slice, const ModelConfig& config) {
  if (slice.whole()) return "";
  const Part heads = part_of(slice, config.n_head);
  return fmt::format(", heads {} to {} of {}", heads.first, heads.first + heads.count - 1, config.n_head);
}

std::string held_of_head(const StagePlan& stage, const ModelConfig& config) {
  if (stage.layers.last < config.n_layer) return "";
  const std::string head =
      stage.slice.whole() ? ", head" : fmt::format(", 1/{} of the head", stage.slice.count);
  return stage.slice.index == 0 ? head + " and draws" : head;
}

// Prints what each device would hold, as a server loads it. Fails if that is too much for one.
Status print_plan(const InspectFlags& flags, const Checkpoint& checkpoint, const ModelConfig& config) {
  FULMAR_ASSIGN(const Devices devices, open_devices(flags.devices));
  ModelFlags model;
  model.devices = flags.devices;
  model.slots = flags.slots;
  model.max_wanted = wanted_rows(flags.slots, flags.devices);
  const LoadOptions options = load_options(model, *devices.front());
  FULMAR_ASSIGN(const auto placed, place_on(devices, flags.devices, checkpoint, options));
  FULMAR_ASSIGN(const auto stages, plan_stages(checkpoint, config, placed, options));
  fmt::print("plan        steps of {} rows, {} with logits, {} states\n", options.max_rows,
             options.max_wanted, flags.slots);
  for (const StagePlan& stage : stages) {
    const MemoryPlan& memory = stage.memory;
    fmt::print("device      {}: layers {} to {}{}{}{}, {} weights, {} workspace, {} a state; {} of {} free\n",
               stage.device, stage.layers.first, stage.layers.last - 1, slice_text(stage.slice, config),
               stage.layers.first == 0 ? ", embedding" : "", held_of_head(stage, config),
               size_text(memory.weights), size_text(memory.workspace), size_text(memory.per_slot),
               size_text(memory.total()), size_text(stage.free));
  }
  return check_memory(stages);
}

Result<int> inspect(const InspectFlags& flags) {
  if (adapter_form_at(flags.model)) {
    if (flags.plan) {
      return Error{ErrorKind::invalid, fmt::format("'{}' is an adapter; --plan wants a model", flags.model)};
    }
    FULMAR_TRY(inspect_adapter(flags.model, flags.tensors));
    return 0;
  }
  FULMAR_ASSIGN(const auto path, find_model(flags.model));
  FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelFiles files, find_model_files(path));
  for (const auto& file : files.weights) {
    fmt::print("file        {} ({} bytes)\n", file.string(), std::filesystem::file_size(file));
  }
  fmt::print("format      {}\n", checkpoint->describe());
  for (const auto& [key, value] : checkpoint->metadata())
    fmt::print("metadata    {} = {}\n", key, one_line(value));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  print_sizes(*checkpoint, config);
  print_types(*checkpoint);
  fmt::print("{}", describe(template_of(flags.chat_template, *checkpoint, path)));
  for (const std::string& oddity : config.oddities) fmt::print("oddity      {}\n", oddity);
  if (!flags.quick) {
    for (const Nonfinite& found : all_nonfinite(*checkpoint)) {
      fmt::print("warning     {} holds {} (first at element {})\n", found.tensor, found.what, found.index);
    }
  }
  if (flags.plan) FULMAR_TRY(print_plan(flags, *checkpoint, config));
  if (flags.tensors) {
    for (const StoredTensor& tensor : checkpoint->tensors()) {
      fmt::print("  {:<40} {:<7} {}\n", tensor.name, name_of(tensor.dtype), shape_text(tensor.shape));
    }
  }
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<InspectFlags>();
  auto* command = app.add_subcommand("inspect", "Show what a model file or an adapter holds");
  command->add_option("model,-m,--model", flags->model, "the file or folder; default: the demo model");
  add_template_flag(*command, flags->chat_template);
  command->add_flag("--tensors", flags->tensors, "list every tensor");
  command->add_flag("--quick", flags->quick, "do not look for NaN and infinity");
  command->add_flag("--plan", flags->plan, "say what serving it would take of which device's memory");
  command->add_option("--slots", flags->slots, "sequences that run at once, whose states the plan counts")
      ->check(whole(0, kMostRows))
      ->capture_default_str();
  add_device_flags(*command, flags->devices);
  add_state_flags(*command, flags->devices);
  command->footer(
      "Examples:\n  fulmar inspect rwkv7-g1-1.5b.pth\n  fulmar inspect --tensors model.safetensors\n"
      "  fulmar inspect my-lora-folder\n"
      "  fulmar inspect --plan --devices 0,1 --slots 64 rwkv7-g1-13.3b.pth\n"
      "  fulmar inspect --plan --devices 0,1 --tp 2 --slots 64 rwkv7-g1-7.2b.pth");
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(inspect(*flags)); }; });
}

}  // namespace fulmar
