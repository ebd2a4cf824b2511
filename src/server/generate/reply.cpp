// The listener of every generating route.
#include "server/generate/reply.h"

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "server/core/warnings.h"

namespace fulmar {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Reply::Reply(std::shared_ptr<Call> call, ReplyOptions options, std::unique_ptr<Writer> writer,
             ServedModelPtr model)
    : call_(std::move(call)),
      options_(std::move(options)),
      writer_(std::move(writer)),
      model_(std::move(model)),
      rows_(static_cast<size_t>(options_.rows)),
      unfinished_(options_.rows) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].pending.index = static_cast<int32_t>(i);
    if (options_.split) rows_[i].splitter.emplace(*options_.split);
  }
}

void Reply::watch_client() const {
  call_->exchange()->on_disconnect([model = model_, owner = call_->owner(), id = options_.request_id] {
    model->engine->cancel(owner, id);
  });
}

// Passes events on. Catches every exception, because this runs on the engine's thread: a failure ends this
// request alone.
void Reply::deliver(std::vector<Event> events) {
  try {
    take_all(std::move(events));
  } catch (const std::exception& failure) {
    spdlog::error("answer failed request={} reason=\"{}\"", options_.request_id, failure.what());
    model_->engine->cancel(call_->owner(), options_.request_id);
    if (closed_) return;
    closed_ = true;
    call_->guard([&] { fail(Error{ErrorKind::resource, "the answer could not be written; try again"}); });
  }
}

void Reply::take_all(std::vector<Event> events) {
  for (Event& event : events) {
    if (closed_) return;
    if (const auto revoked = call_->revoked()) return fail(*revoked, unfinished_ > 0);
    take(std::move(event));
  }
  if (closed_) return;
  // The last events are held back, because finish() adds warnings to the very last one.
  if (streaming_ && unfinished_ > 0) send_events();
  if (unfinished_ == 0) finish();
}

void Reply::take(Event event) {
  Row& row = rows_[static_cast<size_t>(event.index)];
  if (event.kind == Event::Kind::admitted) {
    admitted_ = true;
    if (options_.stream) open(row, event.index);
    return;
  }
  if (event.kind == Event::Kind::finished && event.reason == FinishReason::failed) {
    return fail(event.error.value_or(Error{ErrorKind::internal, "generation failed"}));
  }
  measure(row, event);
  take_text(row, event);
  if (event.kind == Event::Kind::finished) take_end(row, event);
  if (options_.stream && (row.finished || row.tokens_since_flush >= options_.chunk_size)) flush(row);
}

void Reply::take_text(Row& row, Event& event) {
  row.tokens_since_flush += event.sampled;
  std::string& content = options_.stream ? row.pending.content : row.choice.content;
  std::string& reasoning = options_.stream ? row.pending.reasoning : row.choice.reasoning;
  if (row.splitter) {
    if (row.splitter->thinking()) row.reasoning_tokens += event.sampled;
    SplitText split = row.splitter->feed(event.text);
    reasoning += split.reasoning;
    content += split.content;
  } else {
    content += event.text;
  }
  append(options_.stream ? row.pending.tokens : row.choice.tokens, std::move(event.tokens));
}

void Reply::take_end(Row& row, Event& event) {
  if (event.reason == FinishReason::paused && options_.stream) {
    flush(row);
    writer_->keep_paused({row.splitter, row.reasoning_tokens});
  }
  if (row.splitter) {
    const SplitText rest = row.splitter->finish();
    Piece& pending = row.pending;
    (options_.stream ? pending.reasoning : row.choice.reasoning) += rest.reasoning;
    (options_.stream ? pending.content : row.choice.content) += rest.content;
  }
  row.choice.ending = {event.reason, event.stop_id, std::move(event.stop_text), event.wrote_session};
  row.choice.usage = event.usage;
  row.choice.prompt_scores = std::move(event.prompt_scores);
  row.pending.ending = row.choice.ending;
  row.finished = true;
  --unfinished_;
}

void Reply::measure(Row& row, const Event& event) {
  if (event.sampled == 0) return;
  call_->charge_generated(event.sampled);
  Metrics& metrics = call_->service().metrics;
  if (row.last_token) {
    const double gap = seconds_between(*row.last_token, event.at) / event.sampled;
    for (int32_t i = 0; i < event.sampled; ++i) metrics.observe_token_gap(gap);
  } else {
    metrics.observe_first_token(seconds_between(call_->arrived(), event.at));
  }
  row.last_token = event.at;
}

void Reply::add_headers(Headers& headers) const {
  headers.set("X-Request-Id", options_.request_id);
  add_warning_headers(headers, options_.warnings);
}

void Reply::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  HttpResponse head;
  head.content_type = content_type_of(writer_->framing());
  head.headers.set("Cache-Control", "no-cache");
  head.headers.set("X-Accel-Buffering", "no");
  add_headers(head.headers);
  call_->add_common_headers(head.headers);
  call_->exchange()->begin_stream(std::move(head));
}

void Reply::open(Row& row, int32_t index) {
  begin_stream();
  if (row.opened) return;
  row.opened = true;
  writer_->write_opening(index, events_);
}

void Reply::flush(Row& row) {
  row.tokens_since_flush = 0;
  Piece& pending = row.pending;
  if (!row.finished && pending.content.empty() && pending.reasoning.empty() && pending.tokens.empty()) return;
  const bool may_be_refused =
      options_.refuse_if_never_run || row.choice.ending.reason == FinishReason::stopping;
  if (row.finished && may_be_refused && !admitted_) return;
  open(row, pending.index);
  writer_->write_piece(pending, events_);
  pending.reasoning.clear();
  pending.content.clear();
  pending.tokens.clear();
}

void Reply::tell_warnings(std::string& json) const {
  if (writer_->family() != Family::anthropic) add_warnings(json, options_.warnings);
}

void Reply::send_events() {
  for (const std::string& event : events_) call_->exchange()->write(framed(writer_->framing(), event));
  events_.clear();
}

void Reply::finish() {
  closed_ = true;
  call_->give_back_rows();
  const double whole = seconds_between(call_->arrived(), std::chrono::steady_clock::now());
  call_->service().metrics.observe_request(whole);
  if (const auto refused = refusal()) return call_->fail(*refused);
  if (options_.stream) {
    writer_->write_closing(totals(), events_);
    if (!events_.empty()) tell_warnings(events_.back());
    std::vector<std::string> last;
    for (const std::string& event : events_) last.push_back(framed(writer_->framing(), event));
    last.emplace_back(end_mark(writer_->framing()));
    return send_last([how = outcome(), last = std::move(last)](Call& call) {
      call.count(how);
      for (const std::string& text : last) call.exchange()->write(text);
      call.exchange()->end();
    });
  }
  const Totals sums = totals();
  const Outcome how = outcome();
  std::vector<Choice> choices;
  choices.reserve(rows_.size());
  for (Row& row : rows_) choices.push_back(std::move(row.choice));
  auto response = std::make_shared<HttpResponse>();
  response->body = writer_->write_whole(std::move(choices), sums);
  tell_warnings(response->body);
  add_headers(response->headers);
  send_last([how, response](Call& call) { call.respond(std::move(*response), how); });
}

// Sends the last part of an answer at once or, if the answer is being stored under its request's id, as soon
// as that was tried: the client may ask for it next.
void Reply::send_last(std::function<void(Call&)> send) {
  Service& service = call_->service();
  service.families.when_stored(service, options_.request_id,
                               [call = call_, send = std::move(send)] { call->guard([&] { send(*call); }); });
}

void Reply::fail(const Error& error) { fail(api_error(error), unfinished_ > 1); }

void Reply::fail(const ApiError& fault, bool rows_go_on) {
  closed_ = true;
  call_->give_back_rows();
  if (rows_go_on) model_->engine->cancel(call_->owner(), options_.request_id);
  if (!streaming_) {
    HttpResponse response = error_response(writer_->family(), fault);
    response.body = writer_->write_failure(fault);
    return call_->respond(std::move(response));
  }
  send_events();
  call_->exchange()->write(framed(writer_->framing(), writer_->write_failed_event(fault)));
  call_->count(Outcome::server_error);
  call_->exchange()->write(std::string(end_mark(writer_->framing())));
  call_->exchange()->end();
}

bool Reply::never_run() const {
  return !admitted_ && std::all_of(rows_.begin(), rows_.end(),
                                   [](const Row& row) { return is_cut(row.choice.ending.reason); });
}

// Returns the error that goes out in place of an answer: one that never ran, or does not tell that it was
// cut.
std::optional<ApiError> Reply::refusal() const {
  const auto cut = std::find_if(rows_.begin(), rows_.end(),
                                [](const Row& row) { return is_cut(row.choice.ending.reason); });
  if (cut == rows_.end()) return std::nullopt;
  const bool stopping = cut->choice.ending.reason == FinishReason::stopping;
  const bool refuses = never_run() && (stopping || options_.refuse_if_never_run);
  if (!refuses && writer_->tells_cuts()) return std::nullopt;
  if (stopping) return ApiError{503, "Server is shutting down", {}, "shutting_down", {}};
  return ApiError{409, "Request cancelled", {}, "cancelled", {}};
}

Totals Reply::totals() const {
  Totals sums;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Usage& usage = rows_[i].choice.usage;
    sums.completion_tokens += usage.completion_tokens;
    sums.adapter = usage.adapter;
    sums.reasoning_tokens += rows_[i].reasoning_tokens;
    sums.accepted_draft_tokens += usage.accepted_draft_tokens;
    sums.rejected_draft_tokens += usage.rejected_draft_tokens;
    if (i % static_cast<size_t>(options_.rows_per_prompt) != 0) continue;
    sums.prompt_tokens += std::max<int64_t>(0, usage.prompt_tokens - (options_.padded ? 1 : 0));
    sums.cached_tokens += usage.cached_tokens;
  }
  return sums;
}

Outcome Reply::outcome() const {
  if (call_->exchange()->disconnected()) return Outcome::disconnected;
  const bool cancelled = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
    const FinishReason reason = row.choice.ending.reason;
    return is_cut(reason) && reason != FinishReason::paused;
  });
  return cancelled ? Outcome::cancelled : Outcome::ok;
}

}  // namespace fulmar
