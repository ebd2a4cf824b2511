#include "app/bench/bench_subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "app/core/option_checks.h"
#include "base/write_file.h"
#include "files/safetensors.h"
#include "files/strategy.h"
#include "files/synthetic.h"

namespace fulmar {

namespace {

// Rows of one step of prefill; wider steps are no quicker on a CPU and take more memory.
constexpr int64_t kHostRows = 512, kDeviceRows = 4096;

std::string_view name_of_kind(const std::optional<Quantisation>& kind) { return kind ? kind->name : ""; }

// Parses "rwkv7-0.4b"; "rwkv7-0.4b:bf16" for another type than the preset's; ":q4_k" for quantised matrices.
Result<SyntheticSpec> synthetic_spec(const std::string& text, double zeros) {
  const size_t colon = std::min(text.find(':'), text.size());
  auto spec = synthetic_preset(text.substr(0, colon));
  if (!spec) {
    return Error{ErrorKind::invalid,
                 fmt::format("--synthetic names '{}'; wanted one of {}", text.substr(0, colon),
                             fmt::join(synthetic_preset_names(), ", "))};
  }
  spec->ffn_zeros = zeros;
  if (colon == text.size()) return *spec;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    spec->dtype = dtype;
    if (text.substr(colon + 1) == name_of(dtype)) return *spec;
  }
  spec->dtype = DType::f16;
  const auto strategy = strategy_named(text.substr(colon + 1));
  if (!strategy.ok()) return Error{ErrorKind::invalid, "--synthetic: " + strategy.error().text};
  spec->quantisation = strategy->time_mix;
  const bool one_kind = name_of_kind(strategy->time_mix) == name_of_kind(strategy->channel_mix);
  if (one_kind && !strategy->stored_head) return *spec;
  return Error{ErrorKind::invalid,
               fmt::format("--synthetic asks for type '{}'; wanted one for all matrices", strategy->name)};
}

int64_t suitable_rows(const DeviceTraits& traits, const BenchRows& rows) {
  const int64_t measured = std::max(rows.widest, traits.gpu ? kDeviceRows : kHostRows);
  return std::max(rows.served ? traits.suitable_rows : measured, rows.wanted);
}

Result<LoadedModel> make_model(const BenchSubject& subject, const BenchRows& rows) {
  FULMAR_ASSIGN(const SyntheticSpec spec, synthetic_spec(subject.synthetic, subject.zeros));
  const DeviceFlags& devices = subject.model.devices;
  LoadedModel loaded;
  loaded.path = subject.synthetic;
  FULMAR_ASSIGN(loaded.devices, open_devices(devices));
  auto checkpoint = synthetic_checkpoint(spec);
  if (checkpoint == nullptr) {
    return Error{ErrorKind::resource, fmt::format("not enough memory to make {}", subject.synthetic)};
  }
  if (!subject.write.empty()) {
    FULMAR_TRY(write_safetensors(subject.write, checkpoint->tensors(), checkpoint->metadata()));
  }
  LoadOptions options;
  options.max_rows = subject.model.max_rows > 0 ? subject.model.max_rows
                                                : suitable_rows(loaded.devices.front()->traits(), rows);
  options.steps_under_way = devices.pp_steps;
  options.collective_timeout = collective_timeout_of(devices);
  options.allow_nonfinite = true;  // nothing to find in weights made by arithmetic
  options.max_wanted = rows.wanted;
  FULMAR_ASSIGN(const auto stages, place_on(loaded.devices, devices, *checkpoint, options));
  FULMAR_ASSIGN(loaded.model, Model::load(std::move(checkpoint), stages, options));
  return loaded;
}

Result<LoadedModel> read_model(const BenchSubject& subject, const BenchRows& rows) {
  ModelFlags model = subject.model;
  model.least_rows = std::max(rows.served ? 0 : std::max(rows.widest, kHostRows), rows.wanted);
  model.max_wanted = std::max(model.max_wanted, rows.wanted);
  return load_model(model);
}

}  // namespace

void add_subject_flags(CLI::App& app, BenchSubject& subject) {
  add_file_flags(app, subject.model);
  add_device_flags(app, subject.model.devices);
  show_option(app, "--pretend");
  auto* synthetic = app.add_option(
      "--synthetic", subject.synthetic,
      "make a model in memory instead: NAME or NAME:TYPE, such as rwkv7-0.4b:bf16 or rwkv7-7.2b:q4_k");
  for (const char* of_files : {"--model", "--quantize", "--allow-nonfinite"}) {
    synthetic->excludes(of_files);
  }
  app.add_option("--write", subject.write,
                 "also write the model of --synthetic to a .safetensors file, for another program to read")
      ->needs("--synthetic");
  app.add_option("--zeros", subject.zeros, "share of zeros behind relu² in a synthetic model")
      ->needs("--synthetic")
      ->check(within(0.0, 0.99));
  app.add_option("--rows", subject.model.max_rows, "rows of one step; 0: suited to the device")
      ->check(whole(0, 65536));
}

void add_one_state_flags(CLI::App& app, BenchSubject& subject) {
  add_state_flags(app, subject.model.devices);
  show_option(app, "--defer-state-writes");
}

Result<LoadedModel> load_subject(const BenchSubject& subject, const BenchRows& rows) {
  if (!subject.write.empty()) FULMAR_TRY(check_replaceable(subject.write));
  FULMAR_ASSIGN(LoadedModel loaded,
                subject.synthetic.empty() ? read_model(subject, rows) : make_model(subject, rows));
  FULMAR_TRY(check_half_states(subject.model.devices.state_dtype == "fp16", loaded.devices));
  return loaded;
}

Status check_half_states(bool wanted, const Devices& devices) {
  if (!wanted || devices.front()->traits().half_states) return {};
  return Error{ErrorKind::unsupported, "--state-dtype fp16 needs a GPU; the CPU keeps states in fp32"};
}

}  // namespace fulmar
