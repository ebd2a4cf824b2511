// fulmar bench: how fast a model runs on a device, against what the device could do.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <set>

#include "app/bench/bench_drafts.h"
#include "app/bench/bench_islands.h"
#include "app/bench/bench_report.h"
#include "app/bench/bench_structured.h"
#include "app/bench/bench_sums.h"
#include "app/bench/load_bench.h"
#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/model_source.h"
#include "app/core/within.h"
#include "app/served/served_engine.h"
#include "files/safetensors.h"
#include "files/strategy.h"
#include "files/synthetic.h"
#include "text/locate_vocabulary.h"

namespace fulmar {

namespace {

struct BenchFlags {
  ModelFlags model;
  std::string synthetic, json;
  std::string write;  // where a synthetic model goes, too
  std::string decode = "1,4,16", prefill = "1x512", mixed;
  std::string states = "fp32", defer = "auto";
  bool kernels = false;
  bool structured = false;
  std::string speculate;  // empty: steps without drafts
  std::string draft_model, draft_synthetic;
  DraftBenchOptions drafts;
  BenchOptions options;
  LoadFlags load;

  // Rows of a decoding sequence in one step.
  int64_t rows_each() const { return speculate.empty() ? 1 : 1 + drafts.most; }
};

// Rows of one step of prefill; wider steps gain nothing on a CPU and keep more memory busy.
constexpr int64_t kHostRows = 512, kDeviceRows = 4096;

std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string_view name_of_kind(const std::optional<Quantisation>& kind) { return kind ? kind->name : ""; }

// "rwkv7-0.4b", or "rwkv7-0.4b:bf16" for another type than the preset's, or ":q4_k" for quantised matrices.
Result<SyntheticSpec> synthetic_spec(const std::string& text, double zeros) {
  const size_t colon = std::min(text.find(':'), text.size());
  auto spec = synthetic_preset(text.substr(0, colon));
  if (!spec) {
    return Error{ErrorKind::invalid, fmt::format("--synthetic names '{}'; wanted one of {}",
                                                 text.substr(0, colon), join(synthetic_preset_names()))};
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
  if (name_of_kind(strategy->time_mix) == name_of_kind(strategy->channel_mix)) return *spec;
  return Error{ErrorKind::invalid,
               fmt::format("--synthetic asks for type '{}'; wanted one for both mixes", strategy->name)};
}

int64_t widest(const BenchOptions& options, int64_t at_least) {
  int64_t rows = at_least;
  for (const int64_t sequences : options.decode) rows = std::max(rows, sequences);
  for (const PrefillShape& shape : options.prefill) rows = std::max(rows, shape.sequences);
  for (const MixedShape& shape : options.mixed) rows = std::max(rows, shape.decode + shape.prompts.sequences);
  return rows;
}

int64_t most_wanted(const BenchFlags& flags) { return widest(flags.options, 1) * flags.rows_each(); }

Result<LoadedModel> load_synthetic(const BenchFlags& flags) {
  FULMAR_ASSIGN(const SyntheticSpec spec, synthetic_spec(flags.synthetic, flags.options.zeros));
  LoadedModel loaded;
  loaded.path = flags.synthetic;
  FULMAR_ASSIGN(loaded.devices, open_devices(flags.model.devices));
  auto checkpoint = synthetic_checkpoint(spec);
  if (checkpoint == nullptr) {
    return Error{ErrorKind::resource, fmt::format("not enough memory to make {}", flags.synthetic)};
  }
  if (!flags.write.empty()) {
    FULMAR_TRY(write_safetensors(flags.write, checkpoint->tensors(), checkpoint->metadata()));
  }
  LoadOptions options;
  options.max_rows = flags.model.max_rows;
  options.steps_under_way = flags.model.devices.pp_steps;
  options.collective_timeout = collective_timeout_of(flags.model.devices);
  options.allow_nonfinite = true;  // nothing to find in weights made by arithmetic
  options.max_wanted = most_wanted(flags);
  if (options.max_rows == 0) {
    const DeviceTraits traits = loaded.devices.front()->traits();
    const int64_t measured = traits.gpu ? kDeviceRows : kHostRows;
    options.max_rows = std::max(flags.load.wanted() ? traits.suitable_rows : widest(flags.options, measured),
                                options.max_wanted);
  }
  FULMAR_ASSIGN(const auto stages, place_on(loaded.devices, flags.model.devices, *checkpoint, options));
  FULMAR_ASSIGN(loaded.model, Model::load(std::move(checkpoint), stages, options));
  return loaded;
}

Result<LoadedModel> load_file(const BenchFlags& flags) {
  ModelFlags model = flags.model;
  model.needs_vocab = flags.load.wanted() || flags.structured;
  model.least_rows = std::max(flags.load.wanted() ? 0 : widest(flags.options, kHostRows), most_wanted(flags));
  model.max_wanted = std::max(model.max_wanted, most_wanted(flags));
  return load_model(model);
}

// "fp32,fp16"
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

// "1,4", or "auto" for none
Result<std::vector<int64_t>> parse_defer(const std::string& text) {
  if (text == "auto") return std::vector<int64_t>();
  FULMAR_ASSIGN(auto numbers, parse_counts(text));
  const auto most = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
  if (most >= 1 && most <= kMostDeferred) return numbers;
  return Error{
      ErrorKind::invalid,
      fmt::format("--defer-state-writes is '{}'; wanted auto or numbers from 1 to {}", text, kMostDeferred)};
}

Status check_states(const std::vector<DType>& states, const Devices& devices) {
  const bool halves = std::find(states.begin(), states.end(), DType::f16) != states.end();
  if (!halves || devices.front()->traits().half_states) return {};
  return Error{ErrorKind::unsupported, "--state-dtype fp16 needs a GPU; the CPU keeps states in fp32"};
}

// Of all devices together, each counted once.
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

// Every shape of the workloads, as far as one step has room for it.
std::vector<PrefillShape> island_shapes(const BenchOptions& options, const Model& model) {
  std::vector<PrefillShape> shapes;
  for (const int64_t sequences : options.decode) shapes.push_back({sequences, 1});
  for (const PrefillShape& shape : options.prefill) {
    shapes.push_back({shape.sequences, std::min(shape.tokens, model.max_rows() / shape.sequences)});
  }
  return shapes;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << "\n";
  file.close();
  if (!file) return Error{ErrorKind::io, fmt::format("'{}' cannot be written", path)};
  return {};
}

Result<LoadedModel> load_any(const BenchFlags& flags) {
  return flags.synthetic.empty() ? load_file(flags) : load_synthetic(flags);
}

// Servers under load and drafts are measured with one type of states, written in one way: it becomes the
// device's. Returns the types.
Result<std::vector<DType>> keep_one_state(BenchFlags& flags, std::string_view what) {
  FULMAR_ASSIGN(const auto states, parse_states(flags.states));
  if (states.size() > 1) {
    return Error{ErrorKind::invalid,
                 fmt::format("--state-dtype is '{}'; wanted one type for {}", flags.states, what)};
  }
  FULMAR_ASSIGN(const auto defer, parse_defer(flags.defer));
  if (defer.size() > 1) {
    return Error{ErrorKind::invalid,
                 fmt::format("--defer-state-writes is '{}'; wanted one number for {}", flags.defer, what)};
  }
  flags.model.devices.state_dtype = flags.states;
  flags.model.devices.defer = defer.empty() ? 0 : defer.front();
  return states;
}

// With --load or --serve the shape follows from the load.
Result<int> bench_under_load(BenchFlags flags) {
  FULMAR_ASSIGN(const auto states, keep_one_state(flags, "a server under load"));
  flags.load.quiet = flags.model.quiet;
  flags.load.json = flags.json;
  flags.options.decode.assign(1, wanted_rows(flags.load.rows(), flags.model.devices));
  flags.options.prefill.clear();
  const auto load = [&]() -> Result<LoadedModel> {
    FULMAR_ASSIGN(LoadedModel loaded, load_any(flags));
    FULMAR_TRY(check_states(states, loaded.devices));
    return loaded;
  };
  if (!flags.load.serve) return bench_load(flags.load, load);
  flags.options.decode.assign(1, flags.load.streams);
  FULMAR_ASSIGN(LoadedModel model, load());
  return bench_serve(flags.load, std::move(model), flags.options);
}

// The model that drafts, on the target's device, loaded for the same sequences.
Result<LoadedModel> load_draft(BenchFlags flags) {
  flags.model.model = flags.draft_model;
  flags.synthetic = flags.draft_synthetic;
  return load_any(flags);
}

Status check_decode(const BenchFlags& flags, std::string_view what) {
  if (!flags.options.decode.empty()) return {};
  return Error{ErrorKind::invalid,
               fmt::format("{} measures --decode, which is empty; wanted a number at least", what)};
}

Status check_speculation(const BenchFlags& flags) {
  const bool by_model = flags.speculate == "model";
  if (spreads(flags.model.devices)) {
    return Error{ErrorKind::invalid, "--drafts measures one device; --devices names several"};
  }
  FULMAR_TRY(check_decode(flags, "--drafts"));
  if (by_model == (flags.draft_model.empty() && flags.draft_synthetic.empty())) {
    return Error{ErrorKind::invalid,
                 fmt::format("--drafts is {}; wanted {}", flags.speculate,
                             by_model ? "--draft-model FILE or --draft-synthetic NAME with it"
                                      : "model beside --draft-model or --draft-synthetic")};
  }
  return {};
}

Result<int> bench_speculation(BenchFlags flags, const LoadedModel& loaded) {
  flags.drafts.sequences = flags.options.decode;
  flags.drafts.repeats = flags.options.repeats;
  flags.drafts.seconds = flags.options.seconds;
  const BenchedModel target{*loaded.devices.front(), *loaded.model};
  std::optional<LoadedModel> draft;
  std::optional<BenchedModel> draft_model;
  if (flags.speculate == "model") {
    FULMAR_ASSIGN(draft, load_draft(flags));
    draft_model.emplace(BenchedModel{*draft->devices.front(), *draft->model});
  }
  FULMAR_ASSIGN(const auto lines, bench_drafts(target, draft_model ? &*draft_model : nullptr, flags.drafts));
  fmt::print("{}{}, {}\n{}", loaded.path.filename().string(),
             draft ? " drafted for by " + draft->path.filename().string() : "", loaded.model->device(),
             drafts_table(lines, flags.drafts));
  if (!flags.json.empty()) FULMAR_TRY(write_file(flags.json, drafts_json(lines, flags.drafts)));
  return 0;
}

// A synthetic model's tokens are those of the World vocabulary, or of another one that is named.
Result<int> bench_structured(const BenchFlags& flags, LoadedModel loaded) {
  if (loaded.tokenizer == nullptr) {
    FULMAR_ASSIGN(loaded.tokenizer, choose_tokenizer({.explicit_vocabulary = flags.model.vocab,
                                                      .model_rows = loaded.model->config().vocab}));
  }
  FULMAR_ASSIGN(const auto lines, bench_structured(*loaded.model, *loaded.tokenizer,
                                                   {.sequences = flags.options.decode,
                                                    .repeats = flags.options.repeats,
                                                    .seconds = flags.options.seconds}));
  fmt::print("{}, {}\n{}", loaded.path.filename().string(), loaded.model->device(), structured_table(lines));
  if (!flags.json.empty()) FULMAR_TRY(write_file(flags.json, structured_json(lines)));
  return 0;
}

// Of one device its islands; of ranks that share every layer the sums through which they do.
Result<std::vector<IslandLine>> kernels_of(const BenchFlags& flags, const LoadedModel& loaded) {
  const ModelConfig& config = loaded.model->config();
  if (!loaded.model->spread()) {
    return bench_islands(*loaded.devices.front(), config, flags.options.zeros,
                         island_shapes(flags.options, *loaded.model));
  }
  const auto ranks = static_cast<int64_t>(loaded.devices.size()) / loaded.model->pipeline_stages();
  if (ranks == 1) {
    return Error{ErrorKind::invalid,
                 "--kernels times one device, or the sums of several with --tp; it does not go with "
                 "a pipeline alone"};
  }
  std::vector<Ops*> group;
  for (int64_t i = 0; i < ranks; i++) group.push_back(loaded.devices[static_cast<size_t>(i)].get());
  return bench_sums(group, config.n_embd);
}

Result<int> bench(BenchFlags flags) {
  FULMAR_ASSIGN(flags.options.decode, parse_counts(flags.decode));
  FULMAR_ASSIGN(flags.options.prefill, parse_prefills(flags.prefill));
  FULMAR_ASSIGN(flags.options.mixed, parse_mixed(flags.mixed));
  FULMAR_ASSIGN(flags.options.states, parse_states(flags.states));
  FULMAR_ASSIGN(flags.options.defer, parse_defer(flags.defer));
  if (!flags.speculate.empty()) {
    FULMAR_TRY(check_speculation(flags));
    FULMAR_TRY(keep_one_state(flags, "--drafts"));
  }
  if (flags.structured) {
    FULMAR_TRY(keep_one_state(flags, "--structured"));
    FULMAR_TRY(check_decode(flags, "--structured"));
  }
  const auto before = std::chrono::steady_clock::now();
  FULMAR_ASSIGN(LoadedModel loaded, load_any(flags));
  const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - before;
  FULMAR_TRY(check_states(flags.options.states, loaded.devices));
  if (!flags.speculate.empty()) return bench_speculation(std::move(flags), loaded);
  if (flags.structured) return bench_structured(flags, std::move(loaded));
  FULMAR_ASSIGN(BenchReport report, bench_model(*loaded.model, flags.options));
  report.model = loaded.path.filename().string();
  report.load_seconds = load_time.count();
  if (flags.kernels) {
    FULMAR_ASSIGN(report.islands, kernels_of(flags, loaded));
  }
  if (loaded.tokenizer != nullptr) report.tokenizer_mbs = bench_tokenizer(*loaded.tokenizer);
  // After the model's runs, so that the large buffer does not count as the model's memory.
  FULMAR_ASSIGN(report.ceilings, ceilings_of(loaded.devices));
  fmt::print("{}", bench_table(report));
  if (!flags.json.empty()) FULMAR_TRY(write_file(flags.json, bench_json(report)));
  return 0;
}

// Adds what a model made in memory is.
void add_made_model_flags(CLI::App* command, BenchFlags& flags) {
  auto* synthetic = command->add_option(
      "--synthetic", flags.synthetic,
      "make a model in memory instead: NAME or NAME:TYPE, such as rwkv7-0.4b:bf16 or rwkv7-7.2b:q4_k");
  for (const char* of_files : {"--model", "--quantize", "--quantize-keep-head", "--allow-nonfinite"}) {
    synthetic->excludes(of_files);
  }
  command
      ->add_option("--write", flags.write,
                   "also write the model of --synthetic to a .safetensors file, for another program to read")
      ->needs("--synthetic");
  command->add_option("--zeros", flags.options.zeros, "share of zeros behind relu² in a synthetic model")
      ->needs("--synthetic")
      ->check(within(0.0, 0.99));
}

// Adds the lines of the table and how each is timed.
void add_case_flags(CLI::App* command, BenchFlags& flags) {
  command->add_option("--decode", flags.decode, "numbers of sequences to decode together")
      ->capture_default_str();
  command->add_option("--mixed", flags.mixed,
                      "steps in which prompts are fed beside sequences that decode, as sequences + prompts x "
                      "tokens, such as 320+4x64");
  command->add_option("--prefill", flags.prefill, "prompts to process, as sequences x tokens")
      ->capture_default_str();
  command->add_option("--rows", flags.model.max_rows, "rows of one step; 0: suited to the device")
      ->check(CLI::Range(0, 65536));
  command->add_option("--repeats", flags.options.repeats, "timed runs of each line")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seconds", flags.options.seconds, "begin no further run after so long")
      ->check(within(0.001, 1e6))
      ->capture_default_str();
  command
      ->add_option("--delay", flags.options.delay,
                   "seconds of rest before each line, so that heat does not count")
      ->check(within(0.0, 60.0))
      ->capture_default_str();
}

// Adds what is drafted, and by whom.
void add_draft_flags(CLI::App* command, BenchFlags& flags) {
  command
      ->add_option("--drafts", flags.speculate,
                   "what drafts bring to each --decode, of which each token is right with --acceptance: "
                   "ngram, which cost "
                   "nothing, or model, each of which is a step of the draft model")
      ->check(CLI::IsMember({"ngram", "model"}));
  auto* file = command->add_option("--draft-model", flags.draft_model, "drafts, with --drafts model");
  command
      ->add_option("--draft-synthetic", flags.draft_synthetic, "the same, made in memory as --synthetic is")
      ->excludes(file);
  command->add_option("--acceptance", flags.drafts.acceptance, "of drafted tokens, with --drafts")
      ->check(within(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--speculate-most", flags.drafts.most, "most drafted tokens of a sequence and step")
      ->check(CLI::Range(int64_t{1}, kMostDeferred - 1))
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  static BenchFlags flags;
  CLI::App* command = app.add_subcommand("bench", "measure speed against the machine's own limits");
  add_model_flags(*command, flags.model);
  show_pretend(*command);
  command->remove_option(command->get_option("--state-dtype"));
  command
      ->add_option("--state-dtype", flags.states,
                   "how states are kept between tokens: fp32, fp16 (GPU only) or both, as fp32,fp16")
      ->capture_default_str();
  command->remove_option(command->get_option("--defer-state-writes"));
  command
      ->add_option(
          "--defer-state-writes", flags.defer,
          "write states after every M-th token only: a number, several as 1,2,4, or auto as serve does")
      ->capture_default_str();
  command->add_flag("--kernels", flags.kernels,
                    "also time every island of a layer alone, at every shape; with --tp the sums instead");
  add_made_model_flags(command, flags);
  add_case_flags(command, flags);
  add_draft_flags(command, flags);
  command->add_flag("--structured", flags.structured,
                    "what fast-forward brings to calls of a tool, for each --decode at once");
  command->add_option("--json", flags.json, "also write the result to this file");
  add_load_flags(*command, flags.load);
  command->footer(
      "Examples:\n  fulmar bench --synthetic rwkv7-0.4b --threads 2\n"
      "  fulmar bench --load conrwkv --rate 4 --num-prompts 1200 --url http://127.0.0.1:8000\n"
      "  fulmar bench --serve --streams 320 --tokens 256\n"
      "  fulmar bench --model my.safetensors --decode 1,32 --prefill 1x512,8x512 --json result.json");
  command->callback([&chosen] {
    chosen = [] { return exit_code(flags.load.wanted() ? bench_under_load(flags) : bench(flags)); };
  });
}

}  // namespace fulmar
