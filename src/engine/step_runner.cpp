#include "engine/step_runner.h"

#include <algorithm>
#include <iterator>

#include "draft/acceptance.h"
#include "engine/next_token.h"
#include "tensor/convert.h"

namespace fulmar {

namespace {

// Returns whether feeding `count` tokens uses up what is ready and the row still wants a token drawn.
bool draws_after(const Sequence& sequence, int64_t count) {
  return sequence.phase != Sequence::Phase::closing && sequence.ask.max_tokens > 0 &&
         static_cast<size_t>(count) == sequence.ready().size();
}

}  // namespace

void RunningStep::pack() {
  drawn_.resize(parts_.size());
  start_.assign(1, 0);
  for (const StepPart& part : parts_) {
    const Sequence& sequence = *part.sequence;
    const auto ready = sequence.ready().first(static_cast<size_t>(part.count));
    const auto drafts = std::span(sequence.drafts.tokens).first(static_cast<size_t>(part.drafts));
    const auto first_row = static_cast<int32_t>(token_.size());
    const auto feed_slot = [&](int64_t slot) {
      token_.insert(token_.end(), ready.begin(), ready.end());
      token_.insert(token_.end(), drafts.begin(), drafts.end());
      start_.push_back(static_cast<int32_t>(token_.size()));
      slot_.push_back(static_cast<int32_t>(slot));
      revocable_.push_back(drafts.empty() ? 0 : 1);
      add_deltas(sequence.ask.adapter);
    };
    feed_slot(sequence.slot);
    for (const int64_t slot : sequence.more_slots) feed_slot(slot);

    Wanted wanted{.first = static_cast<int32_t>(wanted_row_.size()),
                  .draws = draws_after(sequence, part.count)};
    const bool every_row =
        sequence.phase == Sequence::Phase::prefill && (sequence.ask.score_prompt || sequence.ask.embed);
    if (every_row) {
      for (int32_t row = first_row; row < start_.back(); row++) wanted_row_.push_back(row);
    } else if (!drafts.empty()) {
      for (int32_t row = first_row + static_cast<int32_t>(part.count) - 1; row < start_.back(); row++) {
        wanted_row_.push_back(row);
      }
    } else if (wanted.draws) {
      const auto count = static_cast<int32_t>(part.count);
      for (int32_t end = first_row + count; end <= start_.back(); end += count)
        wanted_row_.push_back(end - 1);
    }
    wanted.count = static_cast<int32_t>(wanted_row_.size()) - wanted.first;
    wanted_.push_back(wanted);
  }
}

void RunningStep::add_deltas(const AdapterUse& use) {
  deltas_.push_back(use.deltas());
  if (use.adapter && (adapters_.empty() || adapters_.back() != use.adapter)) adapters_.push_back(use.adapter);
}

RunningStep::RunningStep(std::vector<StepPart> parts, std::span<const int32_t> drawn)
    : parts_(std::move(parts)), ahead_(true) {
  drawn_.resize(parts_.size());
  revocable_.assign(parts_.size(), 0);
  start_.assign(1, 0);
  for (size_t i = 0; i < parts_.size(); i++) {
    const auto row = static_cast<int32_t>(i);
    token_.push_back(-1 - drawn[i]);
    start_.push_back(row + 1);
    slot_.push_back(static_cast<int32_t>(parts_[i].sequence->slot));
    add_deltas(parts_[i].sequence->ask.adapter);
    wanted_row_.push_back(row);
    wanted_.push_back({.first = row, .count = 1, .draws = true});
  }
}

std::vector<SampleRow> RunningStep::draw_rows() {
  std::vector<SampleRow> rows;
  for (size_t i = 0; i < parts_.size(); i++) {
    if (parts_[i].sequence == nullptr) continue;
    drawing_.push_back(i);
    add_rows(parts_[i], wanted_[i].first, rows);
  }
  drawn_ahead_.resize(rows.size());
  return rows;
}

void RunningStep::take_drawn_ahead() {
  for (size_t i = 0; i < drawing_.size(); i++) drawn_[drawing_[i]].push_back(std::move(drawn_ahead_[i]));
  drawing_.clear();
}

bool RunningStep::forget(const Sequence& sequence) {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const StepPart& one) { return one.sequence == &sequence; });
  if (!ahead_ || part == parts_.end()) return false;
  part->sequence = nullptr;
  return true;
}

RunningStep::Outcome RunningStep::outcome() && {
  take_drawn_ahead();
  Outcome outcome{.rows = static_cast<int64_t>(token_.size()), .begun = begun_, .ahead = ahead_};
  for (size_t i = 0; i < parts_.size(); i++) {
    if (parts_[i].sequence == nullptr) continue;
    outcome.parts.push_back(parts_[i]);
    outcome.drawn.push_back(std::move(drawn_[i]));
  }
  return outcome;
}

void RunningStep::take(const StepOutputs& outputs) {
  if (!ahead_) {
    score(outputs);
    pool_hidden(outputs);
  }
  draw(outputs);
}

void RunningStep::draw(const StepOutputs& outputs) {
  std::vector<SampleRow> rows;
  for (size_t i = 0; i < parts_.size(); i++) {
    if (!wanted_[i].draws || parts_[i].sequence == nullptr) continue;
    const Sequence& sequence = *parts_[i].sequence;
    if (!sequence.more_slots.empty()) mix(outputs, sequence, wanted_[i].first);
    const int64_t last = wanted_[i].first + wanted_[i].count - 1;
    add_rows(parts_[i], static_cast<int32_t>(last - parts_[i].drafts), rows);
  }
  if (rows.empty()) return;
  std::vector<SampledToken> drawn(rows.size());
  outputs.sample(rows, drawn);
  size_t first = 0;
  for (size_t i = 0; i < parts_.size(); i++) {
    if (!wanted_[i].draws || parts_[i].sequence == nullptr) continue;
    const auto drafts =
        std::span(parts_[i].sequence->drafts.tokens).first(static_cast<size_t>(parts_[i].drafts));
    const auto own = std::span(drawn).subspan(first, drafts.size() + 1);
    const auto counting = own.first(accepted_drafts(drafts, own) + 1);
    drawn_[i].assign(std::make_move_iterator(counting.begin()), std::make_move_iterator(counting.end()));
    first += own.size();
  }
}

// Adds the row after what is ready, and one after each draft, drawn as if all drafts before it were accepted.
void RunningStep::add_rows(const StepPart& part, int32_t first_row, std::vector<SampleRow>& rows) {
  const Sequence& sequence = *part.sequence;
  const Ask& ask = sequence.ask;
  const PenaltyMemory* memory = &sequence.memory;
  for (int64_t i = 0; i <= part.drafts; i++) {
    if (i > 0 && ask.sampling.penalised()) {
      memory = &memories_.emplace_back(*memory);
      memories_.back().record(sequence.drafts.tokens[static_cast<size_t>(i - 1)], ask.sampling);
    }
    SampleRow row{.logits_row = first_row + static_cast<int32_t>(i),
                  .slot = static_cast<int32_t>(sequence.slot),
                  .position = sequence.drawn.size() + static_cast<uint64_t>(i),
                  .params = &ask.sampling,
                  .memory = memory};
    if (ask.mask && i == 0) mask_row(row, ask, *ask.mask);
    if (ask.mask && i > 0) {
      const RowDrafts::Behind& behind = sequence.drafts.behind[static_cast<size_t>(i - 1)];
      row.given = behind.forced, row.allowed = behind.allowed;
    }
    row.banned_here = banned_at(ask, row.position);
    row.stops = ask.stop.ids;
    rows.push_back(row);
  }
}

// Writes the weighted mean of a mixture's logits to the last of its rows. Penalties depend on the row's text
// alone, so subtracting them afterwards is the same as from each.
void RunningStep::mix(const StepOutputs& outputs, const Sequence& sequence, int64_t first_row) {
  const std::vector<MixtureMember>& members = sequence.ask.state.mixture;
  double sum = 0;
  for (const MixtureMember& member : members) sum += member.weight;
  const Tensor logits = outputs.logits();
  const auto size = static_cast<size_t>(logits.cols);
  host_row_.resize(size);
  mixed_.assign(size, 0.0);
  int64_t row = first_row;
  for (const MixtureMember& member : members) {
    outputs.ops().read(host_row_.data(), logits.row<float>(row++), size * sizeof(float));
    const double share = member.weight / sum;
    for (size_t i = 0; i < size; i++) mixed_[i] += share * static_cast<double>(host_row_[i]);
  }
  std::transform(mixed_.begin(), mixed_.end(), host_row_.begin(),
                 [](double value) { return static_cast<float>(value); });
  outputs.ops().write(logits.row<float>(row - 1), host_row_.data(), size * sizeof(float));
}

// Scores all prompt tokens of the step in one call, on the thread that has the step's logits.
void RunningStep::score(const StepOutputs& outputs) {
  std::vector<SamplingParams> params(parts_.size());
  std::vector<SampleRow> rows;
  std::vector<Sequence*> owners;
  for (size_t i = 0; i < parts_.size(); i++) {
    Sequence& sequence = *parts_[i].sequence;
    if (!sequence.ask.score_prompt || sequence.phase != Sequence::Phase::prefill) continue;
    if (sequence.fed == 0) sequence.prompt_scores.push_back({.token = sequence.feed.front()});
    params[i].top_logprobs = std::max(sequence.ask.sampling.top_logprobs, 0);
    for (int32_t j = 0; j < wanted_[i].count; j++) {
      const size_t predicted = sequence.fed + static_cast<size_t>(j) + 1;
      if (predicted >= sequence.feed.size()) break;
      rows.push_back({.logits_row = wanted_[i].first + j,
                      .slot = static_cast<int32_t>(sequence.slot),
                      .params = &params[i],
                      .given = sequence.feed[predicted]});
      owners.push_back(&sequence);
    }
  }
  if (rows.empty()) return;
  std::vector<SampledToken> scored(rows.size());
  outputs.sample(rows, scored);
  for (size_t i = 0; i < rows.size(); i++) {
    owners[i]->prompt_scores.push_back(
        {.token = scored[i].token, .logprob = scored[i].logprob, .top = std::move(scored[i].top)});
  }
}

void RunningStep::pool_hidden(const StepOutputs& outputs) {
  for (size_t i = 0; i < parts_.size(); i++) {
    Sequence& sequence = *parts_[i].sequence;
    if (!sequence.ask.embed || sequence.phase != Sequence::Phase::prefill) continue;
    const Tensor hidden = outputs.hidden();
    std::vector<std::byte> stored(static_cast<size_t>(hidden.cols) * size_of(hidden.dtype));
    host_row_.resize(static_cast<size_t>(hidden.cols));
    sequence.embedding_sum.resize(host_row_.size(), 0.0);
    for (int32_t j = 0; j < wanted_[i].count; j++) {
      outputs.ops().read(stored.data(), hidden.slice_rows(wanted_[i].first + j, 1).data, stored.size());
      to_f32(hidden.dtype, stored.data(), host_row_);
      for (size_t c = 0; c < host_row_.size(); c++) sequence.embedding_sum[c] += host_row_[c];
    }
  }
}

void StepRunner::begin(std::vector<StepPart> parts, const StatePool& states) {
  auto step = std::make_unique<RunningStep>(std::move(parts));
  for (const StepPart& part : step->parts()) {
    Sequence& sequence = *part.sequence;
    if (sequence.phase == Sequence::Phase::prefill) sequence.begun += static_cast<size_t>(part.count);
  }
  begin(std::move(step), states);
}

void StepRunner::begin(std::unique_ptr<RunningStep> begun, const StatePool& states) {
  for (const StepPart& part : begun->parts()) part.sequence->under_way++;
  steps_.push_back(std::move(begun));
  RunningStep& step = *steps_.back();
  model_.begin(step.input(), states, [&step](const StepOutputs& outputs) { step.take(outputs); });
}

std::span<const StepPart> StepRunner::parts() const {
  return steps_.empty() ? std::span<const StepPart>() : steps_.back()->parts();
}

bool StepRunner::begin_draws() {
  RunningStep& step = *steps_.back();
  const std::vector<SampleRow> rows = step.draw_rows();
  if (!rows.empty() && model_.begin_draws(rows, step.drawn_ahead())) return true;
  step.draw_in_finish();
  return false;
}

bool StepRunner::begin_ahead(const std::vector<bool>& goes_on, StatePool& states) {
  std::vector<StepPart> parts;
  std::vector<int32_t> drawn;
  int32_t draws = 0;
  const auto newest = this->parts();
  for (size_t i = 0; i < newest.size(); i++) {
    if (newest[i].sequence == nullptr) continue;
    if (goes_on[i]) parts.push_back(newest[i]), drawn.push_back(draws);
    draws++;
  }
  if (parts.empty()) return false;
  auto step = std::make_unique<RunningStep>(std::move(parts), drawn);
  states.mark(step->input().slot);
  begin(std::move(step), states);
  return true;
}

bool StepRunner::forget(Sequence& sequence) {
  bool forgotten = false;
  for (const auto& step : steps_) {
    if (!step->forget(sequence)) continue;
    sequence.under_way--;
    forgotten = true;
  }
  return forgotten;
}

RunningStep::Outcome StepRunner::finish() {
  model_.finish();
  RunningStep::Outcome outcome = std::move(*steps_.front()).outcome();
  steps_.pop_front();
  for (const StepPart& part : outcome.parts) {
    Sequence& sequence = *part.sequence;
    sequence.under_way--;
    if (sequence.phase == Sequence::Phase::prefill) {
      sequence.fed += static_cast<size_t>(part.count);
      sequence.begun -= static_cast<size_t>(part.count);
    } else {
      sequence.drawn_fed += static_cast<size_t>(part.count);
    }
  }
  return outcome;
}

void StepRunner::abandon() {
  model_.abandon();
  steps_.clear();
}

}  // namespace fulmar
