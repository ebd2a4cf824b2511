// fulmar bench steps and bench kernels: a model's steps, whole and by their parts.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "app/bench/bench_commands.h"
#include "app/bench/bench_islands.h"
#include "app/bench/bench_report.h"
#include "app/bench/bench_subject.h"
#include "app/bench/bench_sums.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"

namespace fulmar {

namespace {

struct StepsFlags {
  BenchSubject subject;
  std::string decode = "1,4,16", prefill = "1x512", mixed;
  std::string states = "fp32", defer = "auto";
  std::string json;
  BenchOptions options;
};

// Parses "fp32,fp16".
Result<std::vector<DType>> parse_states(const std::string& text) {
  std::vector<DType> types;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    if (name != "fp32" && name != "fp16") {
      return Error{ErrorKind::invalid, fmt::format("--state-dtype names '{}'; wanted fp32 or fp16", name)};
    }
    types.push_back(name == "fp32" ? DType::f32 : DType::f16);
    at = comma + 1;
  }
  return types;
}

// Parses "1,4", or "auto" for none.
Result<std::vector<int64_t>> parse_defer(const std::string& text) {
  if (text == "auto") return std::vector<int64_t>();
  FULMAR_ASSIGN(auto numbers, parse_counts(text));
  const auto most = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
  if (most >= 1 && most <= kMostDeferred) return numbers;
  return Error{
      ErrorKind::invalid,
      fmt::format("--defer-state-writes is '{}'; wanted auto or numbers from 1 to {}", text, kMostDeferred)};
}

Result<BenchOptions> parse_options(const StepsFlags& flags) {
  BenchOptions options = flags.options;
  FULMAR_ASSIGN(options.decode, parse_counts(flags.decode));
  FULMAR_ASSIGN(options.prefill, parse_prefills(flags.prefill));
  FULMAR_ASSIGN(options.mixed, parse_mixed(flags.mixed));
  FULMAR_ASSIGN(options.states, parse_states(flags.states));
  FULMAR_ASSIGN(options.defer, parse_defer(flags.defer));
  options.zeros = flags.subject.zeros;
  return options;
}

// Returns the sequences of the widest step.
int64_t widest(const BenchOptions& options) {
  int64_t rows = 1;
  for (const int64_t sequences : options.decode) rows = std::max(rows, sequences);
  for (const PrefillShape& shape : options.prefill) rows = std::max(rows, shape.sequences);
  for (const MixedShape& shape : options.mixed) rows = std::max(rows, shape.decode + shape.prompts.sequences);
  return rows;
}

// Returns the sum of the ceilings of all devices, each counted once.
Result<Ceilings> ceilings_of(const Devices& devices) {
  Ceilings sum;
  std::set<std::optional<int>> counted;
  for (const auto& device : devices) {
    if (!counted.insert(device->traits().gpu).second) continue;
    FULMAR_ASSIGN(const Ceilings one, device->measure_ceilings());
    sum.read_gbs += one.read_gbs;
    sum.copy_gbs += one.copy_gbs;
    sum.gflops += one.gflops;
  }
  return sum;
}

// Returns every shape of the workloads that fits in one step.
std::vector<PrefillShape> island_shapes(const BenchOptions& options, const Model& model) {
  std::vector<PrefillShape> shapes;
  for (const int64_t sequences : options.decode) shapes.push_back({sequences, 1});
  for (const PrefillShape& shape : options.prefill) {
    shapes.push_back({shape.sequences, std::min(shape.tokens, model.max_rows() / shape.sequences)});
  }
  return shapes;
}

// Measures a single device's islands, or the all-reduces of ranks that share every layer.
Result<std::vector<IslandLine>> kernels_of(const BenchOptions& options, const LoadedModel& loaded) {
  const ModelConfig& config = loaded.model->config();
  if (!loaded.model->spread()) {
    return bench_islands(*loaded.devices.front(), config, options.zeros,
                         island_shapes(options, *loaded.model));
  }
  const auto ranks = static_cast<int64_t>(loaded.devices.size()) / loaded.model->pipeline_stages();
  if (ranks == 1) {
    return Error{ErrorKind::invalid,
                 "bench kernels times one device, or the sums of several with --tp; it does not go with "
                 "a pipeline alone"};
  }
  std::vector<Ops*> group;
  for (int64_t i = 0; i < ranks; i++) group.push_back(loaded.devices[static_cast<size_t>(i)].get());
  return bench_sums(group, config.n_embd);
}

Result<int> bench_steps(const StepsFlags& flags, bool kernels) {
  FULMAR_ASSIGN(const BenchOptions options, parse_options(flags));
  FULMAR_TRY(check_report(flags.json));
  const auto before = std::chrono::steady_clock::now();
  FULMAR_ASSIGN(const LoadedModel loaded,
                load_subject(flags.subject, {.widest = widest(options), .wanted = widest(options)}));
  const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - before;
  const auto& states = options.states;
  FULMAR_TRY(
      check_half_states(std::find(states.begin(), states.end(), DType::f16) != states.end(), loaded.devices));
  FULMAR_ASSIGN(BenchReport report, bench_model(*loaded.model, options));
  report.model = loaded.path.filename().string();
  report.load_seconds = load_time.count();
  if (kernels) {
    FULMAR_ASSIGN(report.islands, kernels_of(options, loaded));
  }
  if (loaded.tokenizer != nullptr) report.tokenizer_mbs = bench_tokenizer(*loaded.tokenizer);
  // After the model's runs, so that the large buffer is not counted as the model's memory.
  FULMAR_ASSIGN(report.ceilings, ceilings_of(loaded.devices));
  fmt::print("{}", bench_table(report));
  FULMAR_TRY(write_report(flags.json, bench_json(report)));
  return 0;
}

// Adds the options of the table's lines and of their timing.
void add_case_flags(CLI::App& command, StepsFlags& flags) {
  add_decode_flag(command, flags.decode);
  command.add_option("--prefill", flags.prefill, "prompts to process, as sequences x tokens")
      ->check(may_be_empty())
      ->capture_default_str();
  command.add_option("--mixed", flags.mixed,
                     "steps in which prompts are fed beside sequences that decode, as sequences + prompts x "
                     "tokens, such as 320+4x64");
  command
      .add_option("--state-dtype", flags.states,
                  "how states are kept between tokens: fp32, fp16 (GPU only) or both, as fp32,fp16")
      ->capture_default_str();
  command
      .add_option(
          "--defer-state-writes", flags.defer,
          "write states after every M-th token only: a number, several as 1,2,4, or auto as serve does")
      ->capture_default_str();
  add_timing_flags(command, flags.options.repeats, flags.options.seconds);
  command
      .add_option("--delay", flags.options.delay,
                  "seconds of rest before each line, so that heat does not count")
      ->check(within(0.0, 60.0))
      ->capture_default_str();
  add_report_flag(command, flags.json);
}

void add_steps(CLI::App& command, Command& chosen, bool kernels) {
  auto flags = std::make_shared<StepsFlags>();
  flags->subject.model.needs_vocab = false;
  add_subject_flags(command, flags->subject);
  add_case_flags(command, *flags);
  command.callback([flags, kernels, &chosen] {
    chosen = [flags, kernels] { return exit_code(bench_steps(*flags, kernels)); };
  });
}

}  // namespace

void add_bench_steps(CLI::App& bench, Command& chosen) {
  add_steps(*bench.add_subcommand("steps", "a model's steps: decode, prefill and both at once"), chosen,
            false);
}

void add_bench_kernels(CLI::App& bench, Command& chosen) {
  add_steps(*bench.add_subcommand(
                "kernels",
                "the same, and every island of a layer alone at every shape; with --tp the sums instead"),
            chosen, true);
}

}  // namespace fulmar
