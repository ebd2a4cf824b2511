#include "engine/waiting_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fulmar {

namespace {

int64_t bytes_in(const std::vector<std::string>& texts) {
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<int64_t>(sizeof(text) + text.size());
  return bytes;
}

int64_t bytes_in(const std::vector<int32_t>& ids) {
  return static_cast<int64_t>(ids.size() * sizeof(int32_t));
}

void add_up(RequestStatus& sums, const Ask& ask) {
  sums.prompt_tokens += static_cast<int64_t>(ask.prompt.size());
  sums.max_tokens += ask.max_tokens;
}

}  // namespace

int64_t bytes_of(const Ask& ask) {
  int64_t bytes = static_cast<int64_t>(sizeof(Sequence));
  bytes += bytes_in(ask.prompt) + bytes_in(ask.prediction) + bytes_in(ask.state.continuing) +
           bytes_in(ask.stop.ids) + bytes_in(ask.sampling.banned) + bytes_in(ask.stop.texts);
  for (const BannedAt& banned : ask.banned_at) {
    bytes += static_cast<int64_t>(sizeof(banned)) + bytes_in(banned.ids);
  }
  for (const std::string* name : {&ask.request_id, &ask.state.read_session, &ask.state.write_session}) {
    bytes += static_cast<int64_t>(name->size());
  }
  return bytes + static_cast<int64_t>(ask.sampling.logit_bias.size() * sizeof(std::pair<int32_t, float>));
}

void WaitingRows::add(std::vector<SequencePtr> rows) {
  FULMAR_CHECK(!rows.empty());
  const std::string& owner = rows.front()->request->owner;
  auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& one) { return one.owner == owner; });
  if (lane == lanes_.end()) lane = lanes_.insert(lanes_.end(), Lane{.owner = owner});
  const auto place =
      lane->queue.insert(lane->queue.end(), {.request = rows.front()->request, .number = ++arrivals_});
  const bool fresh = known_.emplace(place->request.get(), Known{lane, place}).second;
  FULMAR_CHECK(fresh);
  rows_ += static_cast<int64_t>(rows.size());
  for (SequencePtr& row : rows) {
    add_up(place->sums, row->ask);
    place->sums.session = row->ask.state.write_session;
    place->rows.push_back(std::move(row));
  }
  lane->by_size.emplace(place->size(), place);
}

std::vector<SequencePtr> WaitingRows::take(const RequestRecord& request) {
  const auto found = known_.find(&request);
  if (found == known_.end()) return {};
  const auto [lane, place] = found->second;
  std::deque<SequencePtr> rows = std::move(place->rows);
  forget(*lane, place);
  if (lane->queue.empty()) lanes_.erase(lane);
  rows_ -= static_cast<int64_t>(rows.size());
  std::erase(rows, nullptr);  // taken by an offer() that did not reach its end
  return {std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end())};
}

std::vector<SequencePtr> WaitingRows::take_all() {
  std::vector<SequencePtr> rows;
  while (!lanes_.empty()) {
    for (SequencePtr& row : take(*lanes_.front().queue.front().request)) rows.push_back(std::move(row));
  }
  return rows;
}

void WaitingRows::offer(FunctionRef<Offer(SequencePtr&)> offer) {
  size_t looks = 0;
  size_t idle = 0;  // lanes in a row that had nothing to take
  Turn turn = Turn::taken;
  while (idle < lanes_.size() && turn != Turn::closed && looks < kMostLooks) {
    Lane& lane = lanes_.front();
    turn = take_turn(lane, looks, offer);
    if (turn == Turn::closed) break;  // it gets the next slot
    idle = turn == Turn::nothing_to_take ? idle + 1 : 0;
    if (lane.queue.empty()) {
      lanes_.pop_front();
    } else {
      lanes_.splice(lanes_.end(), lanes_, lanes_.begin());
    }
  }
  const bool goes_on = looks == kMostLooks && turn != Turn::closed;
  for (Lane& lane : lanes_) {
    const bool keeps = goes_on && lane.place && lane.place->request != lane.queue.end();
    if (!keeps) lane.place.reset();
  }
}

// Offers rows of the lane until one is taken.
WaitingRows::Turn WaitingRows::take_turn(Lane& lane, size_t& looks, FunctionRef<Offer(SequencePtr&)> offer) {
  const bool least = std::exchange(lane.least_next, !lane.least_next) && lane.queue.size() > 1;
  if (!lane.place) lane.place = NextRow{lane.queue.begin()};
  const auto turn_of = [&](Offer answer) {
    // A lane that found no free slot has not had its turn.
    if (answer == Offer::closed) lane.least_next = !lane.least_next;
    return answer == Offer::closed ? Turn::closed : Turn::taken;
  };
  if (least) {
    const Offer answer = look_at(lane, {lane.by_size.begin()->second}, offer);
    looks++;
    if (answer != Offer::passed) return turn_of(answer);
  }
  while (lane.place->request != lane.queue.end()) {
    if (looks >= kMostLooks) return Turn::out_of_looks;
    const Offer answer = look_at(lane, *lane.place, offer);
    looks++;
    if (answer != Offer::passed) return turn_of(answer);
    if (++lane.place->row == lane.place->request->rows.size()) lane.place = NextRow{++lane.place->request};
  }
  return Turn::nothing_to_take;
}

WaitingRows::Offer WaitingRows::look_at(Lane& lane, NextRow at, FunctionRef<Offer(SequencePtr&)> offer) {
  RequestStatus row_alone;
  add_up(row_alone, at.request->rows[at.row]->ask);
  const Offer answer = offer(at.request->rows[at.row]);
  if (answer != Offer::taken) return answer;
  lane.by_size.erase(at.request->size());
  at.request->sums.prompt_tokens -= row_alone.prompt_tokens;
  at.request->sums.max_tokens -= row_alone.max_tokens;
  lane.by_size.emplace(at.request->size(), at.request);
  took(lane, at);
  return answer;
}

// Updates the lane after the row at a place was taken.
void WaitingRows::took(Lane& lane, NextRow at) {
  rows_--;
  at.request->rows.erase(at.request->rows.begin() + static_cast<ptrdiff_t>(at.row));
  if (at.request->rows.empty()) return forget(lane, at.request);
  NextRow& next = *lane.place;
  if (next.request != at.request) return;
  if (at.row < next.row) next.row--;
  if (next.row == next.request->rows.size()) next = NextRow{std::next(next.request)};
}

void WaitingRows::forget(Lane& lane, Queue::iterator request) {
  if (lane.place && lane.place->request == request) lane.place = NextRow{std::next(request)};
  known_.erase(request->request.get());
  lane.by_size.erase(request->size());
  lane.queue.erase(request);
}

void WaitingRows::each_request(FunctionRef<void(const RequestRecord&, const RequestStatus&)> visit) const {
  for (const Lane& lane : lanes_) {
    for (const Waiting& waiting : lane.queue) visit(*waiting.request, waiting.sums);
  }
}

}  // namespace fulmar
