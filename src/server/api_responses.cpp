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

// How often a server begins with a response in the background, should it end each time before that does.
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
  std::vector<JsonObject::Member> members;
  for (const auto& [name, value] : call.body().as_object().members()) {
    if (name != "password" && name != "state_id" && name != kJobOwner) members.emplace_back(name, value);
  }
  const JsonValue* state = call.body().find("state_id");
  const std::string header(call.request().headers.get("X-RWKV-State-Id"));
  if (holds_something(state)) {
    members.emplace_back("state_id", *state);
  } else if (!header.empty()) {
    members.emplace_back("state_id", JsonValue(header));
  }
  members.emplace_back(kJobOwner, call.owner().name);
  return json_text(JsonValue(JsonObject(std::move(members))));
}

Owner owner_of_job(const JsonValue& request) {
  const JsonValue* name = request.find(kJobOwner);
  if (!name || !name->is_string() || name->as_string().empty()) return server_itself();
  return {.name = name->as_string()};
}

// Hands over the row of a response that runs. When it is done the answer is where clients ask for it; a
// server that ends before keeps the job for the next one.
std::optional<ApiError> hand_over(const std::shared_ptr<Service>& service, PreparedResponse made,
                                  KeyShare share) {
  const std::string id = made.facts.id;
  const auto split = made.submission.split;
  const ServedModelPtr model = made.submission.model;
  auto listener = gathering_listener(
      std::make_unique<ResponsesWriter>(service, std::move(made.facts)), split,
      [service, id](std::string json, bool cancelled) {
        if (!cancelled || !service->background.interrupted(id)) service->responses.drop_job(id);
        service->background.finish(id, std::move(json));
      },
      std::move(share));
  auto fault = submit_to(*service, std::move(made.submission), std::move(listener));
  if (!fault && !service->background.wanted(id)) model->engine->cancel(server_itself(), id);
  return fault;
}

std::string pending(const std::shared_ptr<Service>& service, const PreparedResponse& made,
                    std::string_view status) {
  return ResponsesWriter(service, made.facts).write_pending(status);
}

// Answers once the job is stored; clients ask again for the rest.
void answer_in_background(Call& call, PreparedResponse made) {
  const std::shared_ptr<Service> service = call.shared_service();
  const std::string id = made.facts.id;
  KeyShare share;
  if (const auto refused = call.share_key(made.submission.prompts.front().size(), share)) {
    return call.fail(*refused);
  }
  if (!service->background.start(id, made.submission.model, pending(service, made, "in_progress"))) {
    return call.fail({503, "Too many responses are made in the background", {}, "queue_full", {}});
  }
  const std::string queued = pending(service, made, "queued");
  const Status stored = service->responses.put_job({.id = id,
                                                    .request = asked_again(call),
                                                    .answer = queued,
                                                    .created = made.facts.created,
                                                    .attempts = 1});
  std::optional<ApiError> fault;
  if (!stored.ok()) {
    spdlog::error("response in the background not stored id={}: {}", id, stored.error().text);
    fault = {503,
             "The response cannot be stored, so that a stop would lose it; the server's log says why",
             {},
             "store_failed",
             {}};
  }
  if (!fault) fault = hand_over(service, std::move(made), std::move(share));
  if (!fault) return call.respond_json(queued);
  service->background.forget(id);
  service->responses.drop_job(id);
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

// Goes on with a job that a server before has left, unless a client no longer wants it.
void take_up(const std::shared_ptr<Service>& service, ResponseJob job) {
  const auto give_up = [&] {
    service->background.forget(job.id);
    service->responses.drop_job(job.id);
  };
  const auto body = parse_json(job.request, {.max_bytes = job.request.size() + 1});
  // One that is stored was over, and that server ended before it could say so.
  if (!body || !body->is_object() || service->responses.find(job.id)) return give_up();
  Fields fields(*body);
  PreparedResponse made = prepare_response(*service, fields, {owner_of_job(*body), job.id, job.created, {}});
  made.facts.id = job.id;  // also where it could not be prepared
  made.facts.created = job.created;
  made.facts.background = true;
  if (fields.failed() && service->models.empty()) {  // the next start may have one
    return spdlog::warn("response waits for a model id={}", job.id);
  }
  const Owner owner = owner_of_job(*body);
  std::optional<ApiError> fault;
  if (fields.failed()) fault = fields.fault();
  if (!fault && !may_go_on(*service, owner)) {
    fault = ApiError{403, fmt::format("The key '{}' is no longer in force", owner.name), {}, {}, {}};
  }
  if (!fault && job.attempts >= kMostAttempts) {
    fault =
        ApiError{500, fmt::format("The server ended {} times while this was made", job.attempts), {}, {}, {}};
  }
  const ResponseFacts facts = made.facts;
  if (!service->background.begin(job.id, made.submission.model, pending(service, made, "in_progress")))
    return;
  if (!fault) {
    ++job.attempts;
    (void)service->responses.put_job(job);  // in vain: it is tried once more than others
    KeyShare share = share_taken_up(*service, owner, made.submission.prompts.front().size());
    fault = hand_over(service, std::move(made), std::move(share));
    --job.attempts;
  }
  if (!fault) return spdlog::info("response taken up again id={} attempt={}", job.id, job.attempts + 1);
  if (fault->status == 503) {  // the server ends, or is full: the next one may have room
    (void)service->responses.put_job(job);
    service->background.put_back(job.id, job.answer);
    return spdlog::warn("response waits for the next start id={}: {}", job.id, fault->text);
  }
  spdlog::warn("response not taken up again id={}: {}", job.id, fault->text);
  std::string json = ResponsesWriter(service, facts).write_failure(*fault);  // stores it
  service->responses.drop_job(job.id);
  service->background.finish(job.id, std::move(json));
}

// An answer with another status.
std::string with_status(const std::string& answer, std::string_view status) {
  const auto parsed = parse_json(answer, {.max_bytes = answer.size() + 1});
  if (!parsed || !parsed->is_object()) return answer;
  std::vector<JsonObject::Member> members = parsed->as_object().members();
  for (auto& [name, value] : members) {
    if (name == "status") value = JsonValue(std::string(status));
  }
  return json_text(JsonValue(JsonObject(std::move(members))));
}

// One that waits has no row that could end.
void cancel_waiting(Service& service, const std::string& id) {
  const auto queued = service.background.find(id);
  if (!queued) return;
  std::string json = with_status(*queued, "cancelled");
  service.responses.put({.id = id, .model = {}, .json = json, .created = unix_seconds()});
  service.responses.drop_job(id);
  service.background.finish(id, std::move(json));
}

}  // namespace

void find_background_responses(Service& service) {
  for (const ResponseJob& job : service.responses.jobs()) service.background.wait(job.id, job.answer);
}

void take_up_background_responses(const std::shared_ptr<Service>& service) {
  using Stage = BackgroundResponses::Stage;
  for (ResponseJob& job : service->responses.jobs()) {
    if (service->background.stage(job.id) == Stage::waits) take_up(service, std::move(job));
  }
}

void create_response(std::shared_ptr<Call> call) {
  Service& service = call->service();
  for (const StoredResponse& old : service.responses.take_expired()) forget(service, old);
  Fields fields(call->body());
  PreparedResponse made = prepare_response(service, fields, origin_of(*call));
  if (fields.failed()) return call->fail(fields.fault());
  if (made.facts.background) return answer_in_background(*call, std::move(made));
  auto writer = std::make_unique<ResponsesWriter>(call->shared_service(), std::move(made.facts));
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
  const Stage stage = background.cancel(id);
  if (stage == Stage::waits) cancel_waiting(call->service(), id);
  if (stage != Stage::unknown) {  // what it is in the end is said once it has come to that
    background.when_over(id, [call, id](const std::string* json) {
      json ? call->respond_json(*json) : call->fail(not_stored(id));
    });
    return;
  }
  const auto stored = call->service().responses.find(id);
  if (!stored) return call->fail(not_stored(id));
  call->fail(bad_value("Only responses with background=true can be cancelled", {}, "invalid_value"));
}

void show_response(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  if (const auto known = call->service().background.find(id)) return call->respond_json(*known);
  const auto stored = call->service().responses.find(id);
  if (!stored) return call->fail(not_stored(id));
  call->respond_json(stored->json);
}

void delete_response(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  const bool known = call->service().background.cancel(id) != BackgroundResponses::Stage::unknown;
  call->service().background.forget(id);
  call->service().responses.drop_job(id);
  const auto stored = call->service().responses.take(id);
  if (!stored && !known) return call->fail(not_stored(id));
  if (stored) forget(call->service(), *stored);
  JsonWriter json;
  json.begin_object().member("id", id).member("object", "response").member("deleted", true);
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
