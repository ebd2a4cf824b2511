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
  const auto place = queue_.insert(queue_.end(), {.request = rows.front()->request});
  const bool fresh = place_.emplace(place->request.get(), place).second;
  FULMAR_CHECK(fresh);
  rows_ += static_cast<int64_t>(rows.size());
  for (SequencePtr& row : rows) {
    add_up(place->sums, row->ask);
    place->sums.session = row->ask.state.write_session;
    place->rows.push_back(std::move(row));
  }
}

std::vector<SequencePtr> WaitingRows::take(const RequestRecord& request) {
  const auto found = place_.find(&request);
  if (found == place_.end()) return {};
  const Queue::iterator place = found->second;
  std::deque<SequencePtr> rows = std::move(place->rows);
  forget(place);
  rows_ -= static_cast<int64_t>(rows.size());
  std::erase(rows, nullptr);  // taken by an offering that did not get to its end
  passed_ = 0;
  return {std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end())};
}

std::vector<SequencePtr> WaitingRows::take_all() {
  std::vector<SequencePtr> rows;
  while (!queue_.empty()) {
    for (SequencePtr& row : take(*queue_.front().request)) rows.push_back(std::move(row));
  }
  return rows;
}

void WaitingRows::offer(FunctionRef<Offer(SequencePtr&)> offer) {
  size_t skip = std::exchange(passed_, 0);
  size_t stayed = 0;  // rows in front of the one that is looked at
  size_t looks = 0;
  bool closed = false;
  for (auto place = queue_.begin(); place != queue_.end() && !closed && looks < kMostLooks;) {
    std::deque<SequencePtr>& rows = place->rows;
    const size_t first = std::min(skip, rows.size());
    skip -= first;
    stayed += first;
    bool taken = false;
    for (size_t i = first; i < rows.size() && looks < kMostLooks; i++, looks++) {
      RequestStatus row_alone;
      add_up(row_alone, rows[i]->ask);
      const Offer answer = offer(rows[i]);
      closed = answer == Offer::closed;
      if (closed) break;
      if (answer == Offer::passed) stayed++;
      if (answer != Offer::taken) continue;
      taken = true;
      place->sums.prompt_tokens -= row_alone.prompt_tokens;
      place->sums.max_tokens -= row_alone.max_tokens;
    }
    if (taken) rows_ -= static_cast<int64_t>(std::erase(rows, nullptr));
    place = rows.empty() ? forget(place) : std::next(place);
  }
  if (looks == kMostLooks && !closed && stayed < static_cast<size_t>(rows_)) passed_ = stayed;
}

WaitingRows::Queue::iterator WaitingRows::forget(Queue::iterator place) {
  place_.erase(place->request.get());
  return queue_.erase(place);
}

void WaitingRows::each_request(FunctionRef<void(const RequestRecord&, const RequestStatus&)> visit) const {
  for (const Waiting& waiting : queue_) visit(*waiting.request, waiting.sums);
}

}  // namespace fulmar
