// Routes over stored responses, and those that are made while nobody waits.
#include "server/api_responses.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/response_intake.h"
#include "server/response_items.h"

namespace fulmar {
namespace {

// How often a server may crash while a response in the background runs.
constexpr int64_t kMostAttempts = 3;
// Of a request that is to be asked again: whose it is.
constexpr std::string_view kJobOwner = "fulmar_owner";

ResponseOrigin origin_of(const Call& call) {
  return {call.owner(), new_response_id(call.owner()), unix_seconds(),
          std::string(call.request().headers.get("X-RWKV-State-Id"))};
}

// The engine's sessions outlive what the store forgets unless they are told.
void forget(const Service& service, const StoredResponse& response) {
  const ServedModelPtr model = service.models.find({}, response.model, true);
  if (model) model->engine->erase_session({}, response_session(response.id), false);
}

// A request as it can be asked again: with what its headers said, and without its key.
std::string asked_again(const Call& call) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : call.body().as_object().members()) {
    if (name != "password" && name != "state_id" && name != kJobOwner) json.member(name, value);
  }
  const JsonValue* state = call.body().find("state_id");
  const std::string_view header = call.request().headers.get("X-RWKV-State-Id");
  if (holds_something(state)) {
    json.member("state_id", *state);
  } else if (!header.empty()) {
    json.member("state_id", header);
  }
  return json.member(kJobOwner, call.owner().name).end_object().take();
}

Owner owner_of_job(const JsonValue& request) {
  const JsonValue* name = request.find(kJobOwner);
  if (!name || !name->is_string() || name->as_string().empty()) return server_itself();
  return {.name = name->as_string()};
}

using FactsPtr = std::shared_ptr<const ResponseFacts>;

// The answer before there is one: what is written so knows of no service.
std::string pending(const FactsPtr& facts, std::string_view status) {
  return ResponsesWriter(nullptr, facts).write_pending(status);
}

BackgroundResponses::Pending in_progress(const FactsPtr& facts) {
  return [facts] { return pending(facts, "in_progress"); };
}

// An answer with another status.
std::string with_status(const std::string& answer, std::string_view status) {
  const auto parsed = parse_json(answer, {.max_bytes = answer.size() + 1});
  if (!parsed || !parsed->is_object()) return answer;
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : parsed->as_object().members()) {
    name == "status" ? json.member(name, status) : json.member(name, value);
  }
  return json.end_object().take();
}

// One that waits has no row that could end.
void cancel_waiting(Service& service, const std::string& id) {
  const auto found = service.responses.find_job(id);
  const std::optional<ResponseJob> job = found.ok() ? *found : std::nullopt;
  if (!job) return service.background.forget(id);
  std::string json = with_status(job->answer, "cancelled");
  service.responses.put(
      {.id = id, .model = {}, .json = json, .created = unix_seconds(), .owner = job->owner});
  if (!service.background.finish(id, json)) (void)service.responses.take(id);
}

// The server ends before a response does: that is no attempt, and the job stays for the next server unless a
// client does not want it.
void leave_to_the_next(Service& service, const std::string& id, int64_t attempts) {
  service.responses.note_attempts(id, attempts);
  if (service.background.put_back(id)) return;
  if (service.background.stage(id) == BackgroundResponses::Stage::waits) return cancel_waiting(service, id);
  (void)service.responses.drop_job(id);
}

// Hands over the row of a response that runs. When it is done the answer is where clients ask for it; its job
// ends with that. `attempts`: those before.
std::optional<ApiError> hand_over(const std::shared_ptr<Service>& service, Submission submission,
                                  const FactsPtr& facts, KeyShare share, int64_t attempts) {
  const std::string id = facts->id;
  const auto split = split_of(submission);
  const ServedModelPtr model = submission.model;
  GatheringEnds ends;
  ends.admitted = [service, id, attempts] { service->responses.note_attempts(id, attempts + 1); };
  ends.done = [service, id, attempts](const std::string& json, bool cancelled) {
    if (cancelled && service->background.interrupted(id)) return leave_to_the_next(*service, id, attempts);
    if (service->background.finish(id, json)) return;
    (void)service->responses.take(id);  // deleted while it was put
    (void)service->responses.drop_job(id);
  };
  auto listener = gathering_listener(std::make_unique<ResponsesWriter>(service, facts), split,
                                     std::move(ends), std::move(share));
  auto fault = submit_to(*service, std::move(submission), std::move(listener));
  if (!fault && !service->background.wanted(id)) model->engine->cancel(server_itself(), id);
  return fault;
}

std::optional<ApiError> begin_in_background(Service& service, const FactsPtr& facts, ServedModelPtr model) {
  using Start = BackgroundResponses::Start;
  switch (service.background.start(facts->id, facts->owner, std::move(model), in_progress(facts))) {
    case Start::begun:
      return std::nullopt;
    case Start::owner_has_many:
      return ApiError{429,
                      fmt::format("{} of your responses in the background have not ended; more are not taken",
                                  BackgroundResponses::kMostOfOwner),
                      {},
                      "queue_full",
                      {},
                      1};
    case Start::all_have_many:
      break;
  }
  return ApiError{503,
                  fmt::format("{} responses in the background have not ended; more are not taken",
                              BackgroundResponses::kMost),
                  {},
                  "queue_full",
                  {}};
}

// Answers once the job is stored; clients ask again for the rest.
void answer_in_background(Call& call, PreparedResponse made) {
  const std::shared_ptr<Service> service = call.shared_service();
  const auto facts = std::make_shared<const ResponseFacts>(std::move(made.facts));
  KeyShare share;
  if (const auto refused = call.share_key(made.submission.prompts.front().size(), share)) {
    return call.fail(*refused);
  }
  if (const auto refused = begin_in_background(*service, facts, made.submission.model)) {
    return call.fail(*refused);
  }
  std::string queued = pending(facts, "queued");
  auto fault = service->responses.put_job({.id = facts->id,
                                           .request = asked_again(call),
                                           .answer = queued,
                                           .created = facts->created,
                                           .owner = facts->owner});
  if (!fault) fault = hand_over(service, std::move(made.submission), facts, std::move(share), 0);
  if (!fault) return call.respond_json(std::move(queued));
  service->background.forget(facts->id);
  (void)service->responses.drop_job(facts->id);
  call.fail(*fault);
}

// Whether the key that has asked for a job is still in force.
bool may_go_on(const Service& service, const Owner& owner) {
  const bool of_a_key = !owner.administers && owner.name != kNobody;
  return !of_a_key || !service.keys || service.keys->named(owner.name);
}

// What a job goes on to use of the key that has asked for it, as when it was accepted.
KeyShare share_taken_up(const Service& service, const Owner& owner, size_t prompt_tokens) {
  KeyShare share;
  if (!owner.administers && service.keys) share.account = service.keys->named(owner.name);
  if (!share.account) return share;
  share.account->take_up_rows(1, static_cast<int64_t>(prompt_tokens), KeyAccount::Clock::now());
  share.rows = RowLease(share.account, 1);
  return share;
}

// Why a job that can be prepared is not gone on with.
std::optional<ApiError> refuse_job(const Service& service, const Owner& owner, int64_t attempts) {
  if (!may_go_on(service, owner)) {
    return ApiError{403, fmt::format("The key '{}' is no longer in force", owner.name), {}, {}, {}};
  }
  if (attempts >= kMostAttempts) {
    return ApiError{500, fmt::format("The server failed {} times while this was made", attempts), {}, {}, {}};
  }
  return std::nullopt;
}

// Goes on with a job that a server before has left, unless a client no longer wants it.
void take_up(const std::shared_ptr<Service>& service, ResponseJob job) {
  const auto give_up = [&] {
    service->background.forget(job.id);
    (void)service->responses.drop_job(job.id);
  };
  const auto body = parse_json(job.request, {.max_bytes = job.request.size() + 1});
  // One that is stored was over, and that server ended before it could say so.
  if (!body || !body->is_object() || service->responses.find(job.id)) return give_up();
  Fields fields(*body);
  const Owner owner = owner_of_job(*body);
  PreparedResponse made = prepare_response(*service, fields, {owner, job.id, job.created, {}});
  made.facts.id = job.id;  // also where it could not be prepared
  made.facts.owner = owner.name;
  made.facts.created = job.created;
  made.facts.background = true;
  if (fields.failed() && service->models.empty()) {  // the next start may have one
    return spdlog::warn("response waits for a model id={}", job.id);
  }
  made.facts.room = service->responses.promise_again(owner.name, made.facts.bytes());
  auto fault =
      fields.failed() ? std::optional<ApiError>(fields.fault()) : refuse_job(*service, owner, job.attempts);
  const auto facts = std::make_shared<const ResponseFacts>(std::move(made.facts));
  if (!service->background.begin(job.id, made.submission.model, in_progress(facts))) return;
  if (!fault) {
    KeyShare share = share_taken_up(*service, owner, made.submission.prompts.front().size());
    fault = hand_over(service, std::move(made.submission), facts, std::move(share), job.attempts);
  }
  if (!fault) return spdlog::info("response taken up again id={} attempts={}", job.id, job.attempts);
  if (fault->status == 503) {  // the server ends, or is full: the next one may have room
    if (!service->background.put_back(job.id)) cancel_waiting(*service, job.id);
    return spdlog::warn("response waits for the next start id={}: {}", job.id, fault->text);
  }
  spdlog::warn("response not taken up again id={}: {}", job.id, fault->text);
  const std::string json = ResponsesWriter(service, facts).write_failure(*fault);  // stores it
  if (!service->background.finish(job.id, json)) (void)service->responses.take(job.id);
}

// The present answer of one that is in the background, or stored.
std::optional<std::string> present_answer(Service& service, const std::string& id) {
  if (auto running = service.background.find(id)) return running;
  if (service.background.stage(id) == BackgroundResponses::Stage::waits) {
    if (auto job = service.responses.find_job(id); job.ok() && *job) return std::move((*job)->answer);
  }
  auto stored = service.responses.find(id);
  return stored ? std::optional<std::string>(std::move(stored->json)) : std::nullopt;
}

bool made_in_background(const std::string& answer) {
  const auto parsed = parse_json(answer, {.max_bytes = answer.size() + 1});
  const JsonValue* background = parsed ? parsed->find("background") : nullptr;
  return background && background->is_bool() && background->as_bool();
}

}  // namespace

void find_background_responses(Service& service) {
  for (const ResponseJob& job : service.responses.jobs()) service.background.wait(job.id, job.owner);
}

void take_up_background_responses(const std::shared_ptr<Service>& service) {
  using Stage = BackgroundResponses::Stage;
  for (const ResponseJob& left : service->responses.jobs()) {
    if (service->background.stage(left.id) != Stage::waits) continue;
    if (auto job = service->responses.find_job(left.id); job.ok() && *job) take_up(service, std::move(**job));
  }
}

void create_response(std::shared_ptr<Call> call) {
  Service& service = call->service();
  for (const StoredResponse& old : service.responses.take_expired()) forget(service, old);
  Fields fields(call->body());
  PreparedResponse made = prepare_response(service, fields, origin_of(*call));
  if (fields.failed()) return call->fail(fields.fault());
  ResponseFacts& facts = made.facts;
  if (facts.store) {
    if (const auto refused = service.responses.promise(facts.owner, facts.bytes(), facts.room)) {
      return call->fail(*refused);
    }
  }
  if (facts.background) return answer_in_background(*call, std::move(made));
  auto writer = std::make_unique<ResponsesWriter>(call->shared_service(),
                                                  std::make_shared<const ResponseFacts>(std::move(facts)));
  submit(std::move(call), std::move(made.submission), std::move(writer));
}

void count_response_tokens(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const PreparedResponse made = prepare_response(call->service(), fields, origin_of(*call));
  if (fields.failed()) return call->fail(fields.fault());
  const StateLink& state = made.submission.state;
  const auto tokens =
      state.read_session.empty() ? made.submission.prompts.front().size() : state.continuing.size();
  JsonWriter json;
  json.begin_object().member("object", "response.input_tokens").member("input_tokens", tokens);
  call->respond_json(json.end_object().take());
}

void list_input_items(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  const auto stored = call->service().responses.find(id);
  if (!stored) return call->fail(not_stored(id));
  ItemPage page;
  const auto& query = call->request().query;
  if (const std::string* order = query.find("order")) page.ascending = *order == "asc";
  if (const std::string* after = query.find("after")) page.after = *after;
  if (const std::string* limit = query.find("limit")) {
    const auto count = lenient_int(JsonValue(*limit));
    if (!count || *count < 1 || *count > 100) {
      return call->fail(bad_value(fmt::format("'limit' is '{}'; wanted 1 to 100", *limit), "limit"));
    }
    page.limit = *count;
  }
  call->respond_json(items_page_json(stored->input, page));
}

void cancel_response(std::shared_ptr<Call> call) {
  using Stage = BackgroundResponses::Stage;
  const std::string id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  BackgroundResponses& background = call->service().background;
  // What it is in the end is said once it has come to that.
  const bool told = background.when_over(id, [call, id](const std::string* json) {
    json ? call->respond_json(*json) : call->fail(not_stored(id));
  });
  if (told) {
    if (background.cancel(id) == Stage::waits) cancel_waiting(call->service(), id);
    return;
  }
  auto stored = call->service().responses.find(id);
  if (!stored) return call->fail(not_stored(id));
  if (made_in_background(stored->json)) return call->respond_json(std::move(stored->json));
  call->fail(bad_value("Only responses with background=true can be cancelled", {}, "invalid_value"));
}

void show_response(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  auto answer = present_answer(call->service(), id);
  answer ? call->respond_json(std::move(*answer)) : call->fail(not_stored(id));
}

void delete_response(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  const bool known = call->service().background.cancel(id) != BackgroundResponses::Stage::unknown;
  call->service().background.forget(id);
  (void)call->service().responses.drop_job(id);
  const auto taken = call->service().responses.take(id);
  const std::optional<StoredResponse> stored = taken.ok() ? *taken : std::nullopt;
  if (!stored && !known) return call->fail(not_stored(id));
  if (stored) forget(call->service(), *stored);
  JsonWriter json;
  json.begin_object().member("id", id).member("object", "response").member("deleted", true);
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
