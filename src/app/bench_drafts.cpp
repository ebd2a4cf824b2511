#include "app/bench_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "draft/draft_length.h"
#include "model/state_pool.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShortestRun = 0.5;  // seconds
constexpr int kCostSteps = 5;         // timed for each number of drafts

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class DraftBench {
 public:
  DraftBench(Ops& ops, Model& model, StatePool& states, const DraftBenchOptions& options)
      : ops_(ops), model_(model), states_(states), options_(options) {
    params_.temperature = 0;
  }

  DraftLine line(int64_t sequences) {
    DraftLine line{.sequences = sequences};
    StepCost cost;
    for (int64_t drafts = 0; drafts <= options_.most; drafts++) {
      line.step_costs.push_back(least_time(sequences, drafts));
      cost.record(sequences * (1 + drafts), line.step_costs.back());
    }
    const std::vector<DraftOffer> offers(static_cast<size_t>(sequences),
                                         {.rate = options_.acceptance, .most = options_.most});
    const auto lengths = choose_draft_lengths(
        offers, {.rows = sequences, .sequences = sequences, .most_rows = sequences * options_.most}, cost);
    line.drafts = *std::max_element(lengths.begin(), lengths.end());
    std::vector<double> plain, drafted;
    const auto begin = Clock::now();
    do {
      plain.push_back(tokens_per_second(sequences, 0));
      drafted.push_back(tokens_per_second(sequences, line.drafts));
    } while (static_cast<int>(plain.size()) < options_.repeats && seconds_since(begin) < options_.seconds);
    line.plain = spread_of(std::move(plain));
    line.drafted = spread_of(std::move(drafted));
    return line;
  }

 private:
  double least_time(int64_t sequences, int64_t drafts) {
    double least = 0;
    for (int i = 0; i <= kCostSteps; i++) {  // the first one warms
      const auto start = Clock::now();
      step(sequences, drafts);
      const double seconds = seconds_since(start);
      if (i == 1 || (i > 1 && seconds < least)) least = seconds;
    }
    return least;
  }

  double tokens_per_second(int64_t sequences, int64_t drafts) {
    const auto start = Clock::now();
    int64_t tokens = 0;
    do {
      tokens += step(sequences, drafts);
    } while (seconds_since(start) < kShortestRun);
    return static_cast<double>(tokens) / seconds_since(start);
  }

  // Feeds, draws and rolls back as the engine does; returns the tokens that count.
  int64_t step(int64_t sequences, int64_t drafts) {
    const auto each = static_cast<size_t>(1 + drafts), rows = each * static_cast<size_t>(sequences);
    token_.resize(rows);
    for (int32_t& token : token_)
      token = static_cast<int32_t>(random_() % static_cast<uint64_t>(model_.config().vocab));
    wanted_.resize(rows);
    std::iota(wanted_.begin(), wanted_.end(), 0);
    slot_.resize(static_cast<size_t>(sequences));
    std::iota(slot_.begin(), slot_.end(), 0);
    start_.clear();
    for (int64_t s = 0; s <= sequences; s++) start_.push_back(static_cast<int32_t>(s * (1 + drafts)));
    revocable_.assign(slot_.size(), drafts > 0 ? 1 : 0);
    const Tensor logits = model_.forward(
        {.token = token_, .start = start_, .slot = slot_, .wanted = wanted_, .revocable = revocable_},
        states_.view());
    std::vector<SampleRow> draws(rows);
    for (size_t i = 0; i < rows; i++) draws[i] = {.logits_row = static_cast<int32_t>(i), .params = &params_};
    std::vector<SampledToken> drawn(rows);
    ops_.sample(logits, draws, drawn);
    int64_t tokens = 0;
    for (int64_t s = 0; s < sequences; s++) {
      int64_t right = 0;
      while (right < drafts && share_(random_) < options_.acceptance) right++;
      if (right < drafts) states_.roll_back(s, drafts - right);
      tokens += 1 + right;
    }
    return tokens;
  }

  Ops& ops_;
  Model& model_;
  StatePool& states_;
  const DraftBenchOptions& options_;
  SamplingParams params_;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> share_{0, 1};
  std::vector<int32_t> token_, start_, slot_, wanted_;
  std::vector<uint8_t> revocable_;
};

}  // namespace

Result<std::vector<DraftLine>> bench_drafts(Ops& ops, Model& model, const DraftBenchOptions& options) {
  const int64_t most = *std::max_element(options.sequences.begin(), options.sequences.end());
  const int64_t rows = most * (1 + options.most), room = std::min(model.max_rows(), model.max_wanted());
  if (rows > room) {
    return Error{ErrorKind::invalid,
                 fmt::format("{} sequences with {} drafts each are {} rows; the model was loaded for {}",
                             most, options.most, rows, room)};
  }
  const StateWrites writes{.every = ops.state_writes().every, .revocable = options.most + 1};
  const RingLayout ring = ring_layout_of(model.config(), ops, writes);
  if (most_revocable(ring) < options.most + 1) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{} cannot roll this model's states back; drafts need that", ops.name())};
  }
  FULMAR_ASSIGN(StatePool states, StatePool::make(ops, model.state_layout(), most, ring));
  DraftBench bench(ops, model, states, options);
  std::vector<DraftLine> lines;
  for (const int64_t sequences : options.sequences) lines.push_back(bench.line(sequences));
  return lines;
}

std::string drafts_table(const std::vector<DraftLine>& lines, const DraftBenchOptions& options) {
  std::string table = fmt::format(
      "drafted tokens are right with probability {:.2f}; tokens a second, median (least to most) of runs by "
      "turns\n"
      "{:>9} {:>7} {:>26} {:>26} {:>6}   ms of a step with 0, 1, ... drafts\n",
      options.acceptance, "sequences", "drafts", "without", "with", "gain");
  for (const DraftLine& line : lines) {
    const auto rates = [](const Spread& spread) {
      return fmt::format("{:.1f} ({:.1f} to {:.1f})", spread.median, spread.least, spread.most);
    };
    std::string costs;
    for (const double seconds : line.step_costs) costs += fmt::format(" {:.2f}", seconds * 1e3);
    table +=
        fmt::format("{:>9} {:>7} {:>26} {:>26} {:>6.2f}  {}\n", line.sequences, line.drafts,
                    rates(line.plain), rates(line.drafted), line.drafted.median / line.plain.median, costs);
  }
  return table;
}

std::string drafts_json(const std::vector<DraftLine>& lines, const DraftBenchOptions& options) {
  JsonWriter json;
  json.begin_object().member("acceptance", options.acceptance).key("lines").begin_array();
  for (const DraftLine& line : lines) {
    json.begin_object()
        .member("sequences", line.sequences)
        .member("drafts", line.drafts)
        .member("tokens_per_second_without", line.plain.median)
        .member("tokens_per_second_with", line.drafted.median)
        .key("step_seconds")
        .begin_array();
    for (const double seconds : line.step_costs) json.value(seconds);
    json.end_array().end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace fulmar
