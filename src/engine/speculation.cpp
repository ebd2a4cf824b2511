#include "engine/speculation.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/count.h"
#include "engine/next_token.h"

namespace fulmar {

namespace {

// Steps after which a step without drafts is measured again.
constexpr int64_t kStaleSteps = 256;
// Expected rate of right tokens before any was seen, by kind.
constexpr std::array<double, kNgramKinds> kExpected{0.4, 0.5, 0.6, 0.7, 0.8};
constexpr double kExpectedOfModel = 0.6;
// Lower bounds on expectations from other rows, so that a row at least tries. N-grams show how good they are
// without being fed; a draft model has to be tried, so its bound is higher.
constexpr double kLeastExpected = 0.1, kLeastExpectedOfModel = 0.4;

size_t kind_of(const NgramDrafter::Match& match) {
  if (match.predicted) return 4;
  if (match.length < 4) return match.length - kShortestMatch;
  return match.length < 8 ? 2 : 3;
}

// Returns whether a row on which mask_row() was called may draw the token.
bool may_draw(const SampleRow& row, int32_t token) {
  if (row.given >= 0) return token == row.given;
  const auto id = static_cast<size_t>(token);
  return row.allowed.empty() ||
         (id / 64 < row.allowed.size() && (row.allowed[id / 64] >> (id % 64) & 1) != 0);
}

}  // namespace

void keep_to_mask(Sequence& sequence) {
  RowDrafts& drafts = sequence.drafts;
  const Ask& ask = sequence.ask;
  if (!ask.mask || drafts.tokens.empty()) return;
  const auto ahead = ask.mask->fork();
  SampleRow row{.position = sequence.drawn.size(), .params = &ask.sampling};
  mask_row(row, ask, *ahead);
  size_t kept = 0;
  for (; kept < drafts.tokens.size() && may_draw(row, drafts.tokens[kept]); kept++) {
    ahead->accept(drafts.tokens[kept]);
    row = {.position = row.position + 1, .params = &ask.sampling};
    if (ahead->complete() || !is_at_hand(row, ask, *ahead)) break;
    mask_row(row, ask, *ahead);
    drafts.behind.push_back({row.given, {row.allowed.begin(), row.allowed.end()}});
  }
  drafts.tokens.resize(kept);
}

// Returns how many tokens of the row a step can feed beyond ready ones.
int64_t Speculation::most_drafts(const Sequence& sequence) const {
  const Ask& ask = sequence.ask;
  if (!ask.speculate || !sequence.more_slots.empty() || sequence.waits_for_mask > 0) return 0;
  const auto ready = static_cast<int64_t>(sequence.ready().size());
  const int64_t remaining = (Count(ask.max_tokens) - sequence.drawn.size()).value();
  return std::max<int64_t>(0, std::min({options_.most, room_.revocable - ready, remaining - 1}));
}

void Speculation::look_up(Sequence& sequence, int64_t most) {
  RowDrafts& drafts = sequence.drafts;
  if (!drafts.ngrams) drafts.ngrams.emplace(sequence.ask.prediction, sequence.feed);
  for (; drafts.known < sequence.drawn.size(); drafts.known++) {
    drafts.ngrams->append(sequence.drawn[drafts.known]);
  }
  const auto match = drafts.ngrams->propose(static_cast<size_t>(most), drafts.proposal);
  if (!drafts.proposal.empty()) drafts.kind = kind_of(match);
}

double Speculation::ngram_rate(const Sequence& sequence) const {
  const size_t kind = sequence.drafts.kind;
  const double expected = std::max(rates_[kind].value(kExpected[kind]), kLeastExpected);
  return sequence.drafts.rates[kind].value(expected);
}

double Speculation::model_rate(const Sequence& sequence) const {
  const double expected = std::max(model_rate_.value(kExpectedOfModel), kLeastExpectedOfModel);
  return sequence.drafts.model_rate.value(expected);
}

// Returns an offer from the source that is right more often.
DraftOffer Speculation::offer(Sequence& sequence) {
  RowDrafts& drafts = sequence.drafts;
  const int64_t most = most_drafts(sequence);
  if (options_.ngrams) look_up(sequence, most);
  DraftOffer offer{.rate = drafts.proposal.empty() ? 0 : ngram_rate(sequence),
                   .most = static_cast<int64_t>(drafts.proposal.size())};
  drafts.source = drafts.kind + 1 == kNgramKinds ? DraftSource::prediction : DraftSource::ngram;
  if (!model_ || !model_->has_place(sequence) || offer.rate >= model_rate(sequence)) return offer;
  drafts.source = DraftSource::model;
  return {.rate = model_rate(sequence), .most = most, .by_model = true};
}

Speculation::Choice Speculation::choose(std::span<const std::unique_ptr<Sequence>> running) {
  DraftBudget budget;
  Choice choice;
  bool prompts = false;
  for (const auto& sequence : running) {
    RowDrafts& drafts = sequence->drafts;
    drafts.tokens.clear();
    drafts.behind.clear();
    drafts.proposal.clear();
    const auto ready = static_cast<int64_t>(sequence->ready().size());
    budget.rows += ready * (1 + static_cast<int64_t>(sequence->more_slots.size()));
    prompts |= sequence->phase == Sequence::Phase::prefill && ready > 0;
    if (sequence->phase != Sequence::Phase::decode) continue;
    budget.sequences++;
    if (most_drafts(*sequence) > 0) choice.rows.push_back(sequence.get());
  }
  if (prompts || running.size() > kMostRows) choice.rows.clear();
  if (choice.rows.empty()) return choice;
  budget.most_rows = std::min(room_.rows - budget.rows, room_.wanted - budget.rows);
  int64_t by_model = 0;
  for (Sequence* sequence : choice.rows) {
    choice.offers.push_back(offer(*sequence));
    by_model += choice.offers.back().by_model ? 1 : 0;
  }
  choice.lengths.assign(choice.rows.size(), 0);
  if (options_.always) {
    std::transform(choice.offers.begin(), choice.offers.end(), choice.lengths.begin(),
                   [](const DraftOffer& offer) { return offer.most; });
  } else if (cost_.age(budget.rows) <= kStaleSteps) {
    budget.draft_seconds = model_cost_.of(by_model);
    choice.lengths = choose_draft_lengths(choice.offers, budget, cost_);
  }
  return choice;
}

void Speculation::prepare(std::span<const std::unique_ptr<Sequence>> running) {
  if (!on()) return;
  const Choice choice = choose(running);
  std::vector<DraftModel::Job> jobs;
  for (size_t i = 0; i < choice.rows.size(); i++) {
    Sequence* const row = choice.rows[i];
    RowDrafts& drafts = row->drafts;
    if (choice.offers[i].by_model) {
      // More rows may offer than the model has slots.
      if (choice.lengths[i] > 0 && model_->take_place(drafts)) jobs.push_back({row, choice.lengths[i]});
      continue;
    }
    const auto end = drafts.proposal.begin() + static_cast<ptrdiff_t>(choice.lengths[i]);
    drafts.tokens.assign(drafts.proposal.begin(), end);
    keep_to_mask(*row);
  }
  if (!jobs.empty()) draft_by_model(jobs);
}

bool Speculation::would_draft(std::span<const std::unique_ptr<Sequence>> running) {
  if (!on()) return false;
  const Choice choice = choose(running);
  return std::any_of(choice.lengths.begin(), choice.lengths.end(), [](int64_t length) { return length > 0; });
}

void Speculation::draft_by_model(std::span<const DraftModel::Job> jobs) {
  const auto before = std::chrono::steady_clock::now();
  const int64_t steps = model_->draft(jobs);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - before;
  if (steps > 1)
    model_cost_.record(static_cast<int64_t>(jobs.size()), taken.count() / static_cast<double>(steps));
  for (const DraftModel::Job& job : jobs) keep_to_mask(*job.sequence);
}

void Speculation::leave(Sequence& sequence) {
  if (model_) model_->leave(sequence.drafts);
}

void Speculation::timed(int64_t rows, double seconds) {
  if (on()) cost_.record(rows, seconds);
}

void Speculation::learn(Sequence& sequence, int64_t drafted, std::span<const SampledToken> drawn) {
  RowDrafts& drafts = sequence.drafts;
  if (!drafts.proposal.empty()) {
    const size_t judged = std::min(drafts.proposal.size(), drawn.size());
    size_t right = 0;
    while (right < judged && drawn[right].token == drafts.proposal[right]) right++;
    for (AcceptanceRate* rate : {&drafts.rates[drafts.kind], &rates_[drafts.kind]}) {
      rate->observe(static_cast<int64_t>(right), right < judged);
    }
    drafts.proposal.clear();  // a step that is begun ahead may have no proposal
  }
  if (drafted == 0) return;
  const auto accepted = static_cast<int64_t>(drawn.size()) - 1;
  if (drafts.source == DraftSource::model) {
    for (AcceptanceRate* rate : {&drafts.model_rate, &model_rate_})
      rate->observe(accepted, accepted < drafted);
  }
  DraftCount& count = counts_[static_cast<size_t>(drafts.source)];
  count.drafted += drafted;
  count.accepted += accepted;
  sequence.usage.accepted_draft_tokens += accepted;
  sequence.usage.rejected_draft_tokens += drafted - accepted;
}

}  // namespace fulmar
