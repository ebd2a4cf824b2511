#include "app/bench/bench_model.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <span>
#include <thread>

#include "engine/plan.h"
#include "model/state_pool.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostSequences = 65536;
constexpr double kShortestRun = 0.2;  // seconds; a run repeats decode steps until it lasts about this long
constexpr int64_t kMostStepsPerRun = 512;
constexpr size_t kMostQueued = 4;  // steps of one stage under way
constexpr int64_t kWarmSteps = 3;  // until a backend replays what it has captured

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns a token; successive ones have no pattern that a cache could profit from.
int32_t some_token(int64_t index, int64_t vocabulary) {
  return static_cast<int32_t>((index * 7919 + 12289) % vocabulary);
}

// `count` tokens for each of `sequences` slots, from `first_slot` on.
struct TimedPart {
  int64_t first_slot = 0, sequences = 0, count = 0;
};

// A step over some parts; its first token is number first_index.
class Step {
 public:
  Step(std::initializer_list<TimedPart> parts, int64_t vocabulary, int64_t first_index) {
    start_.push_back(0);
    for (const TimedPart& part : parts) {
      for (int64_t s = 0; s < part.sequences; ++s) {
        slot_.push_back(static_cast<int32_t>(part.first_slot + s));
        start_.push_back(start_.back() + static_cast<int32_t>(part.count));
        last_.push_back(start_.back() - 1);
      }
    }
    token_.resize(static_cast<size_t>(start_.back()));
    for (size_t i = 0; i < token_.size(); ++i) {
      token_[i] = some_token(first_index + static_cast<int64_t>(i), vocabulary);
    }
  }

  int64_t rows() const { return static_cast<int64_t>(token_.size()); }
  // Returns the step's input. wants: whether the logits of every sequence's last row are computed.
  StepInput input(bool wants) const {
    return {token_, start_, slot_, wants ? std::span<const int32_t>(last_) : std::span<const int32_t>()};
  }

 private:
  std::vector<int32_t> token_, start_, slot_, last_;
};

// A contiguous group of sequences that one step advances; groups are stepped one after the other.
struct Group {
  int64_t first = 0;
  int64_t count = 0;
};
std::vector<Group> groups_of(int64_t sequences, int64_t most) {
  std::vector<Group> groups;
  for (int64_t first = 0; first < sequences; first += most) {
    groups.push_back({first, std::min(most, sequences - first)});
  }
  return groups;
}

class StepBench {
 public:
  StepBench(Model& model, StatePool& states, const BenchOptions& options)
      : model_(model), states_(states), options_(options) {}

  StepWork work(const StepRows& shape) const {
    return step_work(model_.config(), states_.layout(), shape, options_.zeros, states_.view().ring);
  }

  BenchLine decode(int64_t sequences) {
    std::vector<Step> group_steps;
    const int64_t most = std::min(sequences, share({.decoding = sequences}).max_decoding);
    for (const Group& group : groups_of(sequences, most)) {
      group_steps.push_back(Step({{group.first, group.count, 1}}, model_.config().vocab, group.first));
    }
    BenchLine line;
    line.workload = "decode";
    line.sequences = sequences;
    line.tokens = 1;
    line.work = work({sequences, sequences, sequences});
    measure_steps(line, group_steps);
    return line;
  }

  // Measures a mixed step, which is not divided among a pipeline's stages.
  BenchLine mixed(const MixedShape& shape) {
    const auto& [sequences, tokens] = shape.prompts;
    const Step step({{0, shape.decode, 1}, {shape.decode, sequences, tokens}}, model_.config().vocab, 0);
    BenchLine line;
    line.workload = "mixed";
    line.sequences = sequences;
    line.tokens = tokens;
    line.decoding = shape.decode;
    line.work = work({step.rows(), shape.decode + sequences, shape.decode + sequences});
    measure_steps(line, {&step, 1});
    return line;
  }

  BenchLine prefill(const PrefillShape& shape) {
    rest();
    // As in the engine: as many tokens of each prompt as one step has room for, and in a pipeline as many
    // pieces as keep the stages busy, of prompts or of a single one.
    const PlanTotal all{.prompt_rows = shape.sequences * shape.tokens};
    const int64_t piece = share(all).prefill_chunk;
    const int64_t pieces = model_.steps_under_way() > 1 ? (all.prompt_rows + piece - 1) / piece : 1;
    const auto groups = groups_of(shape.sequences, (shape.sequences + pieces - 1) / pieces);
    const int64_t widest = groups.front().count;
    const int64_t most = pieces > 1 && groups.size() == 1 ? piece : model_.max_rows();
    const int64_t chunk = std::min(shape.tokens, std::max<int64_t>(1, most / widest));
    std::vector<Step> group_steps;
    for (int64_t first = 0; first < shape.tokens; first += chunk) {
      const int64_t count = std::min(chunk, shape.tokens - first);
      for (const Group& group : groups) {
        group_steps.push_back(Step({{group.first, group.count, count}}, model_.config().vocab, first));
      }
    }
    const size_t last = group_steps.size() - groups.size();  // the first of the prompts' last steps
    const auto run = [&] {
      for (size_t i = 0; i < group_steps.size(); ++i)
        begin(group_steps[i], i >= last, static_cast<int64_t>(group_steps.size()));
      finish();
    };
    run();
    BenchLine line;
    line.workload = "prefill";
    line.sequences = shape.sequences;
    line.tokens = shape.tokens;
    for (int64_t first = 0; first < shape.tokens; first += chunk) {
      const int64_t count = std::min(chunk, shape.tokens - first);
      line.work += work(
          {shape.sequences * count, shape.sequences, first + count == shape.tokens ? shape.sequences : 0});
    }
    measure(line, 1, run);
    return line;
  }

 private:
  // Returns the limits of one of the steps that are to be under way together.
  PlanLimits share(const PlanTotal& total) const {
    return share_limits({.max_rows = model_.max_rows(), .prefill_chunk = model_.max_rows()}, total,
                        model_.steps_under_way(), [this](int64_t rows) { return model_.padded_rows(rows); });
  }
  // Begins a step. On one device steps follow one another in its stream, and on ranks that share every layer
  // in those of all of them. In a pipeline a group's step waits for its last one, and for its logits, where a
  // token would be drawn from them: `together` steps do not wait for one another.
  void begin(const Step& step, bool wants, int64_t together) {
    if (!model_.spread()) {
      model_.forward(step.input(wants), states_);
      return;
    }
    if (model_.pipeline_stages() == 1) {
      while (model_.under_way() >= kMostQueued) model_.finish();
      return model_.begin(step.input(wants), states_, {});
    }
    const auto most = static_cast<size_t>(std::min(together, model_.steps_under_way()));
    while (model_.under_way() >= most) model_.finish();
    model_.begin(step.input(wants), states_, [](const StepOutputs& outputs) { outputs.ops().synchronise(); });
  }
  void finish() {
    while (model_.under_way() > 0) model_.finish();
    model_.synchronise();
  }

  // Times the steps of all groups together, round after round. A pipeline stays full from one run to the
  // next: a step begins when the oldest is over.
  void measure_steps(BenchLine& line, std::span<const Step> group_steps) {
    rest();
    const auto groups = static_cast<int64_t>(group_steps.size());
    const auto steps = [&](int64_t count) {
      for (int64_t i = 0; i < count * groups; ++i)
        begin(group_steps[static_cast<size_t>(i % groups)], true, groups);
      if (model_.pipeline_stages() == 1) finish();
    };
    steps(kWarmSteps);
    const auto start = Clock::now();
    steps(1);
    const double once = std::max(seconds_since(start), 1e-6);
    int64_t count = std::clamp<int64_t>(static_cast<int64_t>(kShortestRun / once), 1, kMostStepsPerRun);
    // Whole rounds, so that all states of a run are written by the same steps.
    const int64_t every = states_.view().ring.write_every;
    count = (count + every - 1) / every * every;
    measure(line, static_cast<double>(count), [&] { steps(count); });
    finish();
  }

  void rest() const { std::this_thread::sleep_for(std::chrono::duration<double>(options_.delay)); }

  // Times `run`, which has `parts` times the work of the line.
  void measure(BenchLine& line, double parts, const std::function<void()>& run) {
    std::vector<double> times;
    do {
      const auto start = Clock::now();
      run();
      times.push_back(seconds_since(start) / parts);
    } while (static_cast<int>(times.size()) < options_.repeats && seconds_since(begin_) < options_.seconds);
    line.state = states_.layout().wkv_dtype;
    line.defer = states_.view().ring.write_every;
    line.runs = static_cast<int>(times.size());
    line.seconds = spread_of(std::move(times));
    line.tokens_per_second =
        static_cast<double>(line.decoding + line.sequences * line.tokens) / line.seconds.median;
  }

  Model& model_;
  StatePool& states_;
  const BenchOptions& options_;
  Clock::time_point begin_ = Clock::now();
};

// Returns the most sequences of any line, after checking that each line fits into a step.
Result<int64_t> check_shapes(const BenchOptions& options, const Model& model) {
  int64_t most = 1;
  const int64_t limit = std::min(model.max_rows(), model.max_wanted());
  const auto check = [&](int64_t sequences) -> Status {
    most = std::max(most, sequences);
    if (sequences <= limit) return {};
    return Error{ErrorKind::invalid,
                 fmt::format("{} sequences do not fit into a step of {} rows", sequences, limit)};
  };
  for (const int64_t sequences : options.decode) FULMAR_TRY(check(sequences));
  for (const PrefillShape& shape : options.prefill) FULMAR_TRY(check(shape.sequences));
  for (const MixedShape& shape : options.mixed) {
    const auto& [sequences, tokens] = shape.prompts;
    FULMAR_TRY(check(shape.decode + sequences));
    if (shape.decode + sequences * tokens <= model.max_rows()) continue;
    return Error{ErrorKind::invalid, fmt::format("{} + {} x {} tokens do not fit into a step of {} rows",
                                                 shape.decode, sequences, tokens, model.max_rows())};
  }
  return most;
}

size_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

double load_of_last_minute() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

Result<int64_t> parse_count(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostSequences) {
    return Error{ErrorKind::invalid, fmt::format("'{}' is not a number from 1 to {}", text, kMostSequences)};
  }
  return count;
}

Result<PrefillShape> parse_prefill(std::string_view text) {
  const size_t times = text.find('x');
  if (times == std::string_view::npos) {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' is no prefill; wanted sequences x tokens, as in 8x512", text)};
  }
  FULMAR_ASSIGN(const int64_t sequences, parse_count(text.substr(0, times)));
  FULMAR_ASSIGN(const int64_t tokens, parse_count(text.substr(times + 1)));
  return PrefillShape{sequences, tokens};
}

// Calls take(part) for every part between commas.
Status for_each_part(std::string_view text, const std::function<Status(std::string_view)>& take) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    FULMAR_TRY(take(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Result<std::vector<int64_t>> parse_counts(std::string_view text) {
  std::vector<int64_t> counts;
  FULMAR_TRY(for_each_part(text, [&](std::string_view part) -> Status {
    FULMAR_ASSIGN(const int64_t count, parse_count(part));
    counts.push_back(count);
    return {};
  }));
  return counts;
}

Result<std::vector<PrefillShape>> parse_prefills(std::string_view text) {
  std::vector<PrefillShape> shapes;
  FULMAR_TRY(for_each_part(text, [&](std::string_view part) -> Status {
    FULMAR_ASSIGN(const PrefillShape shape, parse_prefill(part));
    shapes.push_back(shape);
    return {};
  }));
  return shapes;
}

Result<std::vector<MixedShape>> parse_mixed(std::string_view text) {
  std::vector<MixedShape> shapes;
  FULMAR_TRY(for_each_part(text, [&](std::string_view part) -> Status {
    const size_t plus = part.find('+');
    if (plus == std::string_view::npos) {
      return Error{
          ErrorKind::invalid,
          fmt::format("'{}' is no mixed step; wanted sequences that decode + prompts x tokens, as in "
                      "320+4x64",
                      part)};
    }
    FULMAR_ASSIGN(const int64_t decode, parse_count(part.substr(0, plus)));
    FULMAR_ASSIGN(const PrefillShape prompts, parse_prefill(part.substr(plus + 1)));
    shapes.push_back({decode, prompts});
    return {};
  }));
  return shapes;
}

Result<BenchReport> bench_model(Model& model, const BenchOptions& options) {
  FULMAR_ASSIGN(const int64_t sequences, check_shapes(options, model));
  std::vector<DType> types = options.states;
  if (types.empty()) types.push_back(model.state_layout().wkv_dtype);
  BenchReport report;
  report.device = model.device();
  report.load_average = load_of_last_minute();
  for (const DType type : types) {
    std::vector<int64_t> deferrals = options.defer;
    if (deferrals.empty())
      deferrals.push_back(type == model.state_layout().wkv_dtype ? model.state_writes().every : 1);
    for (const int64_t every : deferrals) {
      StateLayout layout = model.state_layout();
      layout.wkv_dtype = type;
      FULMAR_ASSIGN(StatePool states, model.make_states(layout, sequences, {.every = every}));
      StepBench bench(model, states, options);
      for (const int64_t count : options.decode) report.lines.push_back(bench.decode(count));
      for (const MixedShape& shape : options.mixed) report.lines.push_back(bench.mixed(shape));
      if (type != types.front() || every != deferrals.front()) continue;
      for (const PrefillShape& shape : options.prefill) report.lines.push_back(bench.prefill(shape));
      report.state_dtype = name_of(type);
      report.weight_bytes = static_cast<size_t>(bench.work({1, 1, 1}).weight_bytes());
      report.state_bytes = layout.slot_bytes();
    }
  }
  report.peak_rss = peak_memory();
  return report;
}

double bench_tokenizer(const Tokenizer& tokenizer) {
  constexpr std::string_view kText =
      "The ferry left at seven, an hour late, with forty passengers and a crate of oranges on deck. Nobody "
      "complained: the wind had dropped, and in 1923 a calm crossing was worth the wait. \"We'll be home by "
      "midnight,\" said the captain, who hadn't looked at his watch since Tuesday.\n";
  constexpr size_t kBytes = size_t{1} << 20;
  std::string text;
  while (text.size() < kBytes) text += kText;
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    ids.clear();
    const auto start = Clock::now();
    tokenizer.encode(text, ids);
    times.push_back(seconds_since(start));
  }
  return static_cast<double>(text.size()) / spread_of(std::move(times)).median / 1e6;
}

}  // namespace fulmar
