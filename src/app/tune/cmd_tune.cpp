// fulmar tune: trains an initial state or an adapter of a model from lines of JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/option_checks.h"
#include "app/tune/tune_settings.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/version.h"
#include "base/write_file.h"
#include "cpu/cpu_backend.h"
#include "files/identify.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "tune/tuning.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t interrupted = 0;

// Checks that a new run's folder holds nothing, and makes it.
Status make_folder(const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder, failed) && !fs::is_empty(folder, failed)) {
    return Error{ErrorKind::conflict,
                 fmt::format("{} is not empty; give another --output, or --resume {} to take up its run",
                             folder.string(), folder.string())};
  }
  fs::create_directories(folder, failed);
  return check_writable(folder / "tune.jsonl");
}

// Returns the checksum of all weights, whatever file they came from.
std::string weights_sum(const ModelParameters<float>& parameters) {
  Sha256 sum;
  for (const auto& [name, parameter] : parameters.all) {
    const std::vector<float>& values = parameter.value.values;
    sum.add(name);
    sum.add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  return sum.hex();
}

// Returns those lines of a run's log that tell steps up to `steps`: others are run again.
std::string lines_up_to(const std::string& log, int64_t steps) {
  std::string kept;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    const auto json = parse_json(line);
    const auto step = json.ok() ? get_int(*json, "step") : Result<std::optional<int64_t>>(std::nullopt);
    if (step.ok() && *step && **step <= steps) kept += line + "\n";
    begin = end + 1;
  }
  return kept;
}

std::string log_line(const TuneStep& step, double seconds) {
  JsonWriter json;
  json.begin_object().member("step", step.step).member("loss", step.loss).member("lr", step.rate);
  json.member("grad_norm", step.gradient_norm).member("tokens", step.tokens);
  json.member("tok_s", static_cast<double>(step.tokens) / std::max(seconds, 1e-9)).end_object();
  return json.text() + "\n";
}

// Runs steps to the end, or until the user interrupts: then a checkpoint holds what was done. Returns the
// last loss.
Result<double> run_steps(Tuning& tuning, const TuneFlags& flags, const fs::path& run, int64_t total) {
  const fs::path log = run / "tune.jsonl";
  double loss = 0;
  while (!tuning.finished() && interrupted == 0) {
    const auto started = std::chrono::steady_clock::now();
    const Result<TuneStep> step = tuning.step();
    if (!step.ok()) {
      if (tuning.done() > 0) FULMAR_TRY(tuning.save(checkpoint_folder(run, tuning.done())));
      return step.error();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    loss = step->loss;
    FULMAR_TRY(append_to_file(log, log_line(*step, seconds)));
    if (!flags.quiet) {
      fmt::print("step {}/{}  loss {:.4f}  lr {:.3g}  {:.0f} tok/s  {:.0f} s left\n", step->step, total, loss,
                 step->rate, static_cast<double>(step->tokens) / std::max(seconds, 1e-9),
                 seconds * static_cast<double>(total - step->step));
      std::fflush(stdout);
    }
    const bool due = flags.save_every > 0 && tuning.done() % flags.save_every == 0;
    if (due || interrupted != 0) FULMAR_TRY(tuning.save(checkpoint_folder(run, tuning.done())));
  }
  return loss;
}

// Checks that the run fits in memory before any weight is read.
Status check_memory(const Checkpoint& model, const ModelConfig& config, const TuneSettings& settings,
                    int64_t rows) {
  TuneSizes sizes{0, rows};
  for (const StoredTensor& tensor : model.tensors()) sizes.numbers += tensor.count();
  const auto needed = static_cast<uint64_t>(tuning_bytes(config, settings, sizes));
  const uint64_t free = make_cpu_ops({.threads = 1})->memory_free();
  if (needed <= free) return {};
  return Error{ErrorKind::resource,
               fmt::format("tuning needs about {}, {} are free; a smaller --ctx, --batch or model needs less",
                           size_text(needed), size_text(free))};
}

Result<int> tune(const TuneFlags& flags) {
  FULMAR_ASSIGN(TuneSettings settings, settings_of(flags));
  const fs::path run = flags.resume.empty() ? flags.output : flags.resume;
  fs::path saved;
  if (!flags.resume.empty()) {
    FULMAR_ASSIGN(saved, last_checkpoint(run));
  }
  FULMAR_ASSIGN(const fs::path path, find_model(flags.model));
  FULMAR_ASSIGN(const std::unique_ptr<Checkpoint> model, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*model));
  FULMAR_ASSIGN(const auto tokenizer, tokenizer_of(*model, path, config.vocab, flags.vocab));
  const PromptTemplate& form = template_of(flags.chat_template, *model, path);
  FULMAR_ASSIGN(const std::string data, read_file(flags.data, kMostFileBytes));
  const auto samples = read_samples(data, {.tokenizer = *tokenizer,
                                           .prompt_template = form,
                                           .vocab = config.vocab,
                                           .context = flags.context,
                                           .answers_only = flags.mask == "answers"});
  if (!samples.ok())
    return Error{samples.error().kind, fmt::format("{}: {}", flags.data, samples.error().text)};
  const auto count = static_cast<int64_t>(samples->samples.size());
  if (flags.steps == 0) settings.steps = flags.epochs.value_or(1) * steps_of_epoch(count, settings.batch);
  FULMAR_TRY(check_memory(*model, config, settings, largest_batch(*samples, settings.batch)));

  FULMAR_ASSIGN(ModelParameters<float> parameters, load_parameters<float>(*model));
  settings.base = weights_sum(parameters);
  settings.data = sha256_hex(fmt::format("{} {} {}\n{}", flags.context, flags.mask, form.name, data));
  Tuning tuning(parameters, *samples, settings);
  if (saved.empty()) {
    FULMAR_TRY(make_folder(run));
  } else {
    FULMAR_TRY(tuning.resume(saved));
    const std::string log = read_if_there(run / "tune.jsonl", kMostFileBytes);
    FULMAR_TRY(write_whole_file(run / "tune.jsonl", lines_up_to(log, tuning.done())));
  }
  fmt::print("{} samples ({} cut to the context, {} skipped), steps {} to {}\n", count, samples->cut,
             samples->skipped, tuning.done() + 1, settings.steps);
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, [](int) { interrupted = 1; });
  FULMAR_ASSIGN(const double loss, run_steps(tuning, flags, run, settings.steps));
  if (!tuning.finished()) {
    fmt::print("stopped; go on with --resume {}\n", run.string());
    return 0;
  }
  FULMAR_ASSIGN(const fs::path result,
                tuning.write_result(run, {{"template", std::string(form.name)},
                                          {"context", fmt::to_string(flags.context)},
                                          {"loss", fmt::to_string(loss)},
                                          {"fulmar", std::string(program_version())}}));
  fmt::print("wrote {}\n", result.string());
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<TuneFlags>();
  auto* command =
      app.add_subcommand("tune", "Train an initial state or an adapter from lines of JSON, on the CPU");
  add_tune_flags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return exit_code(tune(*flags)); }; });
}

}  // namespace fulmar
