#include "engine/draft_model.h"

#include <algorithm>

#include "engine/next_token.h"

namespace fulmar {

namespace {

// The most tokens, over all rows, that one step reads, so that a long prompt delays no other row.
constexpr int64_t kMostRead = 256;

size_t length_of(const Sequence& sequence) { return sequence.feed.size() + sequence.drawn.size(); }

int32_t token_at(const Sequence& sequence, size_t at) {
  return at < sequence.feed.size() ? sequence.feed[at] : sequence.drawn[at - sequence.feed.size()];
}

}  // namespace

Result<std::unique_ptr<DraftModel>> DraftModel::make(Model& model, Ops& ops, int64_t rows) {
  rows = std::min({rows, model.max_rows(), model.max_wanted()});
  FULMAR_ASSIGN(StatePool pool, StatePool::make(ops, model.state_layout(), 2 * rows));
  return std::unique_ptr<DraftModel>(new DraftModel(model, ops, std::move(pool), rows));
}

DraftModel::DraftModel(Model& model, Ops& ops, StatePool pool, int64_t rows)
    : model_(model), ops_(ops), pool_(std::move(pool)), rows_(rows) {
  for (int64_t slot = rows; slot-- > 0;) free_.push_back(slot);
}

bool DraftModel::take_place(RowDrafts& drafts) {
  if (drafts.model_slot >= 0) return true;
  if (free_.empty()) return false;
  drafts.model_slot = free_.back();
  drafts.model_read = 0;
  free_.pop_back();
  pool_.zero(drafts.model_slot);
  return true;
}

void DraftModel::leave(RowDrafts& drafts) {
  if (drafts.model_slot >= 0) free_.push_back(drafts.model_slot);
  drafts.model_slot = -1;
  drafts.model_read = 0;
}

// Feeds the rows' new tokens. Returns the rows that are read to their end, ready for the first guess, with
// the step's logits in their order.
std::vector<DraftModel::Live> DraftModel::catch_up(std::span<const Job> jobs) {
  std::vector<Live> live;
  token_.clear();
  start_.assign(1, 0);
  slot_.clear();
  wanted_.clear();
  int64_t remaining = std::min(kMostRead, model_.max_rows());
  for (const Job& job : jobs) {
    RowDrafts& drafts = job.sequence->drafts;
    const auto behind = static_cast<int64_t>(length_of(*job.sequence) - drafts.model_read);
    const int64_t count = std::min(behind, remaining);
    if (count == 0) continue;
    for (int64_t i = 0; i < count; i++) token_.push_back(token_at(*job.sequence, drafts.model_read++));
    remaining -= count;
    start_.push_back(static_cast<int32_t>(token_.size()));
    slot_.push_back(static_cast<int32_t>(drafts.model_slot));
    if (count < behind) continue;
    wanted_.push_back(static_cast<int32_t>(token_.size()) - 1);
    const Ask& ask = job.sequence->ask;
    Live& row =
        live.emplace_back(Live{job.sequence, job.tokens, job.sequence->memory, nullptr, ask.sampling});
    row.params.top_logprobs = -1;
    if (ask.mask) row.mask = ask.mask->fork();
  }
  return live;
}

// Draws one guess for each row, as the large model would at its position.
void DraftModel::draw(std::span<Live* const> rows, Tensor logits) {
  std::vector<SampleRow> draws;
  for (size_t i = 0; i < rows.size(); i++) {
    const Live& row = *rows[i];
    const Sequence& sequence = *row.sequence;
    SampleRow& draw = draws.emplace_back();
    draw.logits_row = static_cast<int32_t>(i);
    draw.slot = static_cast<int32_t>(sequence.drafts.model_slot);
    draw.position = sequence.drawn.size() + sequence.drafts.tokens.size();
    draw.params = &row.params;
    draw.memory = &row.memory;
    if (row.mask) mask_row(draw, sequence.ask, *row.mask);
    draw.banned_here = banned_at(sequence.ask, draw.position);
    draw.stops = sequence.ask.stop.ids;
  }
  std::vector<SampledToken> drawn(rows.size());
  ops_.sample(logits, draws, drawn);
  for (size_t i = 0; i < rows.size(); i++) {
    Live& row = *rows[i];
    std::vector<int32_t>& guesses = row.sequence->drafts.tokens;
    row.over = drawn[i].stops;
    if (row.over) continue;
    guesses.push_back(drawn[i].token);
    row.memory.record(drawn[i].token, row.params);
    if (row.mask) row.mask->accept(drawn[i].token);
    const SampleRow next{.position = draws[i].position + 1, .params = &row.params};
    row.over = static_cast<int64_t>(guesses.size()) >= row.tokens ||
               (row.mask && (row.mask->complete() || !is_at_hand(next, row.sequence->ask, *row.mask)));
  }
}

// Feeds each row's last guess to its copy of the state.
Tensor DraftModel::feed_guesses(std::span<Live* const> rows) {
  token_.clear();
  start_.assign(1, 0);
  slot_.clear();
  wanted_.clear();
  for (const Live* row : rows) {
    wanted_.push_back(static_cast<int32_t>(token_.size()));
    token_.push_back(row->sequence->drafts.tokens.back());
    start_.push_back(static_cast<int32_t>(token_.size()));
    slot_.push_back(static_cast<int32_t>(copy_of(*row->sequence)));
  }
  return model_.forward({.token = token_, .start = start_, .slot = slot_, .wanted = wanted_}, pool_);
}

int64_t DraftModel::draft(std::span<const Job> jobs) {
  std::vector<Live> live = catch_up(jobs);
  if (token_.empty()) return 0;
  Tensor logits = model_.forward({.token = token_, .start = start_, .slot = slot_, .wanted = wanted_}, pool_);
  int64_t steps = 1;
  std::vector<Live*> rows;
  for (Live& row : live) rows.push_back(&row);
  if (rows.empty()) return steps;
  draw(rows, logits);
  std::erase_if(rows, [](const Live* row) { return row->over; });
  for (const Live* row : rows) pool_.copy(row->sequence->drafts.model_slot, copy_of(*row->sequence));
  for (; !rows.empty(); steps++) {
    logits = feed_guesses(rows);
    draw(rows, logits);
    std::erase_if(rows, [](const Live* row) { return row->over; });
  }
  return steps;
}

}  // namespace fulmar
