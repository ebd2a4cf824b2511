#include "app/bench/bench_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <span>

#include "base/function_ref.h"
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

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

void draw_all(Ops& ops, Tensor logits) {
  static const SamplingParams params = greedy();
  std::vector<SampleRow> draws(static_cast<size_t>(logits.rows));
  for (size_t i = 0; i < draws.size(); i++) {
    draws[i] = {.logits_row = static_cast<int32_t>(i), .params = &params};
  }
  std::vector<SampledToken> drawn(draws.size());
  ops.sample(logits, draws, drawn);
}

// Feeds `count` random tokens to each slot, and draws from the logits of all rows or of each slot's last.
class DraftFeeder {
 public:
  DraftFeeder(const BenchedModel& on, StatePool& states) : on_(on), states_(states) {}

  enum class Wanted : uint8_t { all, last };
  void feed(std::span<const int64_t> counts, int64_t first_slot, Wanted wanted, bool revocable) {
    token_.clear(), wanted_.clear(), slot_.clear();
    start_.assign(1, 0);
    for (size_t s = 0; s < counts.size(); s++) {
      for (int64_t i = 0; i < counts[s]; i++) {
        if (wanted == Wanted::all || i + 1 == counts[s])
          wanted_.push_back(static_cast<int32_t>(token_.size()));
        token_.push_back(static_cast<int32_t>(random_() % static_cast<uint64_t>(on_.model.config().vocab)));
      }
      start_.push_back(static_cast<int32_t>(token_.size()));
      slot_.push_back(static_cast<int32_t>(first_slot) + static_cast<int32_t>(s));
    }
    revocable_.assign(slot_.size(), revocable ? 1 : 0);
    draw_all(
        on_.ops,
        on_.model.forward(
            {.token = token_, .start = start_, .slot = slot_, .wanted = wanted_, .revocable = revocable_},
            states_));
  }

 private:
  const BenchedModel& on_;
  StatePool& states_;
  std::mt19937_64 random_{1};
  std::vector<int32_t> token_, start_, slot_, wanted_;
  std::vector<uint8_t> revocable_;
};

// A draft model's part of a step, as in the engine's DraftModel: it reads the tokens accepted in the last
// step, and feeds its guesses to copies of the states.
class Drafter {
 public:
  // Drafts with `states` for twice as many slots as sequences.
  Drafter(const BenchedModel& on, StatePool& states) : states_(states), feeder_(on, states) {}

  void draft(std::span<const int64_t> counted, int64_t drafts) {
    const auto sequences = static_cast<int64_t>(counted.size());
    feeder_.feed(counted, 0, DraftFeeder::Wanted::last, false);
    if (drafts > 1) {
      for (int64_t s = 0; s < sequences; s++) states_.copy(s, sequences + s);
    }
    const std::vector<int64_t> one(counted.size(), 1);
    for (int64_t i = 1; i < drafts; i++) feeder_.feed(one, sequences, DraftFeeder::Wanted::last, false);
  }

 private:
  StatePool& states_;
  DraftFeeder feeder_;
};

class DraftBench {
 public:
  // Measures with `drafter`, or null if drafts cost nothing.
  DraftBench(const BenchedModel& target, StatePool& states, Drafter* drafter,
             const DraftBenchOptions& options)
      : states_(states), feeder_(target, states), drafter_(drafter), options_(options) {}

  DraftLine line(int64_t sequences) {
    counted_.assign(static_cast<size_t>(sequences), 1);
    DraftLine line{.sequences = sequences};
    StepCost cost;
    for (int64_t drafts = 0; drafts <= options_.most; drafts++) {
      line.step_costs.push_back(least_time([&] { verify(drafts); }));
      cost.record(sequences * (1 + drafts), line.step_costs.back());
    }
    counted_.assign(static_cast<size_t>(sequences), 1);
    if (drafter_ != nullptr) line.draft_cost = least_time([&] { drafter_->draft(counted_, 1); });
    const std::vector<DraftOffer> offers(
        static_cast<size_t>(sequences),
        {.rate = options_.acceptance, .most = options_.most, .by_model = drafter_ != nullptr});
    const auto lengths = choose_draft_lengths(offers,
                                              {.rows = sequences,
                                               .sequences = sequences,
                                               .most_rows = sequences * options_.most,
                                               .draft_seconds = line.draft_cost},
                                              cost);
    line.drafts = *std::max_element(lengths.begin(), lengths.end());
    std::vector<double> plain, drafted;
    const auto begin = Clock::now();
    do {
      plain.push_back(tokens_per_second(0));
      drafted.push_back(tokens_per_second(line.drafts));
    } while (static_cast<int>(plain.size()) < options_.repeats && seconds_since(begin) < options_.seconds);
    line.plain = spread_of(std::move(plain));
    line.drafted = spread_of(std::move(drafted));
    return line;
  }

 private:
  static double least_time(FunctionRef<void()> work) {
    double least = 0;
    for (int i = 0; i <= kCostSteps; i++) {  // the first one warms up
      const auto start = Clock::now();
      work();
      const double seconds = seconds_since(start);
      if (i == 1 || (i > 1 && seconds < least)) least = seconds;
    }
    return least;
  }

  double tokens_per_second(int64_t drafts) {
    const auto start = Clock::now();
    int64_t tokens = 0;
    do {
      if (drafter_ != nullptr && drafts > 0) drafter_->draft(counted_, drafts);
      tokens += verify(drafts);
    } while (seconds_since(start) < kShortestRun);
    return static_cast<double>(tokens) / seconds_since(start);
  }

  // Feeds, draws and rolls back as the engine does; returns the number of accepted tokens.
  int64_t verify(int64_t drafts) {
    const std::vector<int64_t> rows(counted_.size(), 1 + drafts);
    feeder_.feed(rows, 0, DraftFeeder::Wanted::all, drafts > 0);
    int64_t tokens = 0;
    for (size_t s = 0; s < counted_.size(); s++) {
      const int64_t right = right_of(drafts);
      if (right < drafts) states_.roll_back(static_cast<int64_t>(s), drafts - right);
      counted_[s] = 1 + right;
      tokens += counted_[s];
    }
    return tokens;
  }

  // Returns how many of the next drafts are accepted. Numbers that fill [0, 1) evenly replace random ones: a
  // run is short, and chance alone would change its tokens by some percent.
  int64_t right_of(int64_t drafts) {
    constexpr double kGoldenShare = 0.6180339887498949;
    share_ += kGoldenShare;
    share_ -= std::floor(share_);
    int64_t right = 0;
    for (double least = options_.acceptance; right < drafts && share_ < least; least *= options_.acceptance) {
      right++;
    }
    return right;
  }

  StatePool& states_;
  DraftFeeder feeder_;
  Drafter* const drafter_;
  const DraftBenchOptions& options_;
  std::vector<int64_t> counted_;  // tokens accepted in each sequence's last step
  double share_ = 0;              // in [0, 1)
};

Status check_room(const Model& model, std::string_view which, int64_t sequences, int64_t each) {
  const int64_t rows = sequences * each, room = std::min(model.max_rows(), model.max_wanted());
  if (rows <= room) return {};
  return Error{ErrorKind::invalid,
               fmt::format("{} sequences of {} rows each are {} rows; the {} was loaded for {}", sequences,
                           each, rows, which, room)};
}

}  // namespace

Result<std::vector<DraftLine>> bench_drafts(const BenchedModel& target, const BenchedModel* draft_model,
                                            const DraftBenchOptions& options) {
  const int64_t most = *std::max_element(options.sequences.begin(), options.sequences.end());
  Model& model = target.model;
  FULMAR_TRY(check_room(model, "model", most, 1 + options.most));
  const StateWrites writes{.every = target.ops.state_writes().every, .revocable = options.most + 1};
  if (most_revocable(ring_layout_of(model.config(), target.ops, writes)) < options.most + 1) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{} cannot roll this model's states back; drafts need that", target.ops.name())};
  }
  FULMAR_ASSIGN(StatePool states, model.make_states(model.state_layout(), most, writes));
  std::optional<StatePool> draft_states;
  std::optional<Drafter> drafter;
  if (draft_model != nullptr) {
    FULMAR_TRY(check_room(draft_model->model, "draft model", most, 1 + options.most));
    FULMAR_ASSIGN(draft_states,
                  StatePool::make(draft_model->ops, draft_model->model.state_layout(), 2 * most));
    drafter.emplace(*draft_model, *draft_states);
  }
  DraftBench bench(target, states, drafter ? &*drafter : nullptr, options);
  std::vector<DraftLine> lines;
  for (const int64_t sequences : options.sequences) lines.push_back(bench.line(sequences));
  return lines;
}

std::string drafts_table(const std::vector<DraftLine>& lines, const DraftBenchOptions& options) {
  std::string table = fmt::format(
      "drafted tokens are right with probability {:.2f}; tokens a second, median (least to most) of "
      "alternating runs\n"
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
    if (line.draft_cost > 0) {
      table += fmt::format("{:>17} a step of the draft model: {:.2f} ms\n", "", line.draft_cost * 1e3);
    }
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
        .member("draft_step_seconds", line.draft_cost)
        .key("step_seconds")
        .begin_array();
    for (const double seconds : line.step_costs) json.value(seconds);
    json.end_array().end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace fulmar
