// Runs background responses. An attempt is counted on disk before any work for it, so that a response that
// crashes servers is given up after a few.
#include "server/responses/background_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/warnings.h"
#include "server/responses/family.h"
#include "server/responses/gathering_listener.h"
#include "server/responses/response_intake.h"
#include "server/responses/response_items.h"

namespace fulmar {
namespace {

// Members of a stored request that name its owner, and the adapter that was chosen for it.
constexpr std::string_view kJobOwner = "fulmar_owner";
constexpr std::string_view kJobAdapter = "fulmar_adapter";

// Writes the adapter for a later attempt, to which its name or number may mean another one.
void write_chosen(JsonWriter& json, const AdapterChoice* adapter) {
  json.key(kJobAdapter).begin_object();
  if (adapter) {
    json.member("id", adapter->id).member("version", adapter->version);
    json.member("strength", adapter->scale);
  }
  json.end_object();
}

// Returns the request's body for a later attempt, with the values of its headers but without its key.
std::string asked_again(const Call& call, const AdapterChoice* adapter) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : call.body().as_object().members()) {
    const bool again = name != "password" && name != "state_id" && name != kJobOwner && name != kJobAdapter;
    if (again) json.member(name, value);
  }
  write_chosen(json, adapter);
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

// Returns the adapter that was chosen for a job; nothing where the request's own fields say it.
std::optional<AdapterWish> adapter_of_job(const JsonValue& request) {
  const JsonValue* chosen = request.find(kJobAdapter);
  if (!chosen || !chosen->is_object()) return std::nullopt;
  AdapterWish wish;
  const JsonValue *id = chosen->find("id"), *version = chosen->find("version");
  const JsonValue* strength = chosen->find("strength");
  if (id && id->is_string()) wish.id = id->as_string();
  if (version && version->is_string()) wish.version = version->as_string();
  if (strength) wish.strength = lenient_number(*strength);
  if (wish.id.empty()) wish.list.emplace();
  return wish;
}

using FactsPtr = std::shared_ptr<const ResponseFacts>;

// Writes the answer of a job that has not ended. Needs no service.
std::string pending(const FactsPtr& facts, std::string_view status) {
  return ResponsesWriter(nullptr, facts).write_pending(status);
}

BackgroundResponses::Pending in_progress(const FactsPtr& facts) {
  return [facts] { return pending(facts, "in_progress"); };
}

// Returns the items of a job's input; none of a damaged one.
std::string input_of(const ResponseJob& job) {
  const auto body = parse_json(job.request, {.max_bytes = job.request.size() + 1});
  const JsonValue* input = body && body->is_object() ? body->find("input") : nullptr;
  return input_items_json(job.id, input ? *input : JsonValue());
}

// Makes the answer of a job that ended without one: the last answer that clients saw, with another status.
StoredResponse ended_unmade(const ResponseJob& job, std::string_view status, const ApiError* error) {
  const auto told = parse_json(job.answer, {.max_bytes = job.answer.size() + 1});
  JsonWriter json;
  json.begin_object();
  const auto write_error = [&] {
    json.key("error").begin_object().member("code", "server_error");
    json.member("message", error->text).end_object();
  };
  if (told.ok() && told->is_object()) {
    for (const auto& [name, value] : told->as_object().members()) {
      if (name == "status") {
        json.member(name, status);
      } else if (name == "error" && error) {
        write_error();
      } else {
        json.member(name, value);
      }
    }
  } else {
    json.member("id", job.id).member("object", "response").member("status", status);
    if (error) write_error();
  }
  return {.id = job.id,
          .model = {},
          .json = json.end_object().take(),
          .created = job.created,
          .input = input_of(job),
          .owner = job.owner,
          .cut = std::string(status)};
}

// ---- from a request to the engine

// A response ready for the engine.
struct ReadyJob {
  FactsPtr facts;
  ServedModelPtr model;
  Request request;
};

// Ends a job: its answer is stored or waits for another attempt to store it. Then starts a waiting job in its
// place.
void end_job(const std::shared_ptr<Service>& service, const std::string& id,
             std::optional<StoredResponse> answer, bool cut) {
  try {
    answer ? service->families.responses->background.end(id, std::move(answer), cut)
           : service->families.responses->background.lose(id);
    look_for_waiting_responses(service);
  } catch (const std::exception& failure) {
    spdlog::error("response in the background not kept id={} reason=\"{}\"", id, failure.what());
    service->families.responses->background.lose(id);
  }
}

// Prepares a job for the engine. Warnings that the client has already seen come first.
std::optional<ApiError> make_ready(const std::shared_ptr<Service>& service, PreparedResponse made,
                                   KeyShare share, ReadyJob& ready) {
  const auto split = split_of(made.submission);
  ready.model = made.submission.model;
  std::vector<std::string> warnings;
  if (auto fault = make_request(*service, std::move(made.submission), ready.request, warnings)) {
    return fault;
  }
  std::vector<std::string>& told = made.facts.warnings;
  for (std::string& warning : warnings) {
    if (std::find(told.begin(), told.end(), warning) == told.end()) told.push_back(std::move(warning));
  }
  ready.facts = std::make_shared<const ResponseFacts>(std::move(made.facts));
  ready.request.listener =
      gathering_listener(std::make_unique<ResponsesWriter>(service, ready.facts), split, std::move(share),
                         [service, id = ready.facts->id, model = std::weak_ptr(ready.model)](
                             std::optional<StoredResponse> answer, bool cut) {
                           const auto held = cut ? model.lock() : nullptr;
                           if (held) held->engine->cancel(server_itself(), id);  // a removed key's row
                           end_job(service, id, std::move(answer), cut);
                         });
  return std::nullopt;
}

std::optional<ApiError> hand_over(Service& service, ReadyJob ready) {
  auto fault = submit_request(service, *ready.model->engine, std::move(ready.request));
  if (!fault) service.families.responses->background.hand_over(ready.facts->id);
  return fault;
}

// ---- from a client

std::optional<ApiError> begin(Service& service, const ReadyJob& ready) {
  using Start = BackgroundResponses::Start;
  const FactsPtr& facts = ready.facts;
  switch (service.families.responses->background.start(facts->id, facts->owner, ready.model,
                                                       in_progress(facts))) {
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

// A job that has begun; the destructor removes it unless keep() was called.
class NewJob {
 public:
  NewJob(Service& service, std::string id) : service_(service), id_(std::move(id)) {}
  ~NewJob() {
    if (kept_) return;
    try {
      service_.families.responses->background.end(id_, std::nullopt, false);
      (void)service_.families.responses->store.drop_job(id_);
    } catch (const std::exception& failure) {
      spdlog::error("refused response not removed id={} reason=\"{}\"", id_, failure.what());
    }
  }
  NewJob(const NewJob&) = delete;
  NewJob& operator=(const NewJob&) = delete;
  void keep() { kept_ = true; }

 private:
  Service& service_;
  const std::string id_;
  bool kept_ = false;
};

// Stores the job with its first attempt counted, then submits it: a crash while it runs must find that
// attempt counted. One that no slot is free for waits for its turn, so that no crash counts against it.
std::optional<ApiError> store_and_hand_over(Service& service, const Call& call, const std::string& queued,
                                            ReadyJob ready) {
  const FactsPtr facts = ready.facts;
  NewJob job(service, facts->id);
  if (auto refused = begin(service, ready)) return refused;
  BackgroundResponses& background = service.families.responses->background;
  const bool now = background.begun() <= service.models.figures().slots_total;
  if (auto refused =
          service.families.responses->store.put_job({.id = facts->id,
                                                     .request = asked_again(call, ready.model->adapter.get()),
                                                     .answer = queued,
                                                     .created = facts->created,
                                                     .attempts = now ? 1 : 0,
                                                     .owner = facts->owner})) {
    return refused;
  }
  if (!now) {
    background.put_back(facts->id, std::nullopt);
  } else if (auto refused = hand_over(service, std::move(ready))) {
    return refused;
  }
  job.keep();
  return std::nullopt;
}

// ---- from an earlier server

// Tells whether the key that asked for a job still exists.
bool may_go_on(const Service& service, const Owner& owner) {
  const bool of_a_key = !owner.administers && owner.name != kNobody;
  return !of_a_key || !service.keys || service.keys->named(owner.name);
}

// Takes a row from the key that asked for a job; it was admitted when the job was accepted, so no limit
// applies now.
KeyShare share_taken_up(const Service& service, const Owner& owner, size_t prompt_tokens) {
  KeyShare share;
  if (!owner.administers && service.keys) share.account = service.keys->named(owner.name);
  if (!share.account) return share;
  share.account->take_up_rows(1, static_cast<int64_t>(prompt_tokens), KeyAccount::Clock::now());
  share.rows = RowLease(share.account, 1);
  return share;
}

// Returns the warnings in an answer that a client has seen.
std::vector<std::string> warnings_in(const std::string& answer) {
  std::vector<std::string> warnings;
  const auto told = parse_json(answer, {.max_bytes = answer.size() + 1});
  const JsonValue* list = told.ok() ? told->find("warnings") : nullptr;
  if (!list || !list->is_array()) return warnings;
  for (const JsonValue& warning : list->as_array()) {
    if (warning.is_string()) warnings.push_back(warning.as_string());
  }
  return warnings;
}

// Submits the request of a job again, or returns why it cannot.
std::optional<ApiError> ask_again(const std::shared_ptr<Service>& service, const ResponseJob& job) {
  const auto body = parse_json(job.request, {.max_bytes = job.request.size() + 1});
  if (!body || !body->is_object()) return ApiError{500, "The request cannot be read", {}, {}, {}};
  const Owner owner = owner_of_job(*body);
  if (!may_go_on(*service, owner)) {
    return ApiError{403, fmt::format("The key '{}' is no longer in force", owner.name), {}, {}, {}};
  }
  Fields fields(*body);
  PreparedResponse made = prepare_response(
      *service, fields,
      {.owner = owner, .id = job.id, .created = job.created, .adapter = adapter_of_job(*body)});
  if (fields.failed()) return fields.fault();
  made.facts.room = service->families.responses->store.promise_again(owner.name, made.facts.bytes());
  made.facts.warnings = warnings_in(job.answer);
  KeyShare share = share_taken_up(*service, owner, made.submission.prompts.front().size());
  ReadyJob ready;
  if (auto fault = make_ready(service, std::move(made), std::move(share), ready)) return fault;
  service->families.responses->background.show(job.id, ready.model, in_progress(ready.facts));
  return hand_over(*service, std::move(ready));
}

enum class TakenUp : uint8_t { yes, no_room };

// Returns why a job is not made at all.
std::optional<ApiError> refuse_attempt(const ResponseJob& job, int64_t attempts) {
  if (!job.readable) return ApiError{500, "What was stored of the request is damaged", {}, {}, {}};
  if (attempts <= BackgroundResponses::kMostAttempts) return std::nullopt;
  return ApiError{
      500, fmt::format("The server failed {} times while this was made", attempts - 1), {}, {}, {}};
}

// Continues a job that was taken up. Afterwards the engine has it, it is over, or it waits again.
TakenUp go_on(const std::shared_ptr<Service>& service, const std::string& id, int64_t attempts) {
  BackgroundResponses& background = service->families.responses->background;
  const bool too_many = attempts > BackgroundResponses::kMostAttempts;
  const bool counted = too_many || service->families.responses->store.count_attempt(id, attempts);
  const auto found = service->families.responses->store.find_job(id);
  const auto answered = service->families.responses->store.find(id);
  if (!counted || !found.ok() || !answered.ok()) {
    background.put_back(id, std::nullopt);
    return TakenUp::no_room;
  }
  // A stored answer means that the job had ended, and only its removal was not written.
  if (!*found || *answered) {
    background.end(id, std::nullopt, false);
    (void)service->families.responses->store.drop_job(id);
    return TakenUp::yes;
  }
  const ResponseJob& job = **found;
  std::optional<ApiError> fault;
  try {
    fault = refuse_attempt(job, attempts);
    if (!fault) fault = ask_again(service, job);
  } catch (const std::exception& failure) {
    fault = ApiError{500, fmt::format("The response could not be begun: {}", failure.what()), {}, {}, {}};
  }
  if (!fault) {
    spdlog::info("response taken up id={} attempt={}", id, attempts);
    return TakenUp::yes;
  }
  if (fault->status == 503) {  // there is no room, or no model, or the server ends
    background.put_back(id, ended_unmade(job, "cancelled", nullptr));
    return TakenUp::no_room;
  }
  spdlog::warn("response not taken up id={}: {}", id, fault->text);
  background.end(id, ended_unmade(job, "failed", &*fault), false);
  return TakenUp::yes;
}

TakenUp take_up(const std::shared_ptr<Service>& service, const std::string& id) {
  const auto attempts = service->families.responses->background.take_up(id);
  if (!attempts) return TakenUp::yes;
  try {
    return go_on(service, id, *attempts);
  } catch (const WorkEnded&) {  // the server ends
    service->families.responses->background.put_back(id, std::nullopt);
    return TakenUp::no_room;
  } catch (const std::exception& failure) {
    spdlog::error("response not taken up id={} reason=\"{}\"", id, failure.what());
    service->families.responses->background.lose(id);
    return TakenUp::yes;
  }
}

}  // namespace

void answer_in_background(Call& call, PreparedResponse made) {
  const std::shared_ptr<Service> service = call.shared_service();
  KeyShare share;
  if (const auto refused = call.share_key(made.submission.prompts.front().size(), share)) {
    return call.fail(*refused);
  }
  ReadyJob ready;
  if (const auto refused = make_ready(service, std::move(made), std::move(share), ready)) {
    return call.fail(*refused);
  }
  HttpResponse response;
  response.body = pending(ready.facts, "queued");
  add_warning_headers(response.headers, ready.facts->warnings);
  if (const auto refused = store_and_hand_over(*service, call, response.body, std::move(ready))) {
    return call.fail(*refused);
  }
  call.respond(std::move(response));
}

Status find_background_responses(Service& service) {
  ResponseFamily& family = *service.families.responses;
  FULMAR_ASSIGN(const std::vector<ResponseJob> jobs, family.store.jobs());
  for (const ResponseJob& job : jobs) family.background.wait(job.id, job.owner, job.attempts);
  return {};
}

void take_up_background_responses(const std::shared_ptr<Service>& service) {
  BackgroundResponses& background = service->families.responses->background;
  for (const std::string& id : background.waiting()) {
    if (service->draining || service->models.empty()) return;
    // Waits here for a slot instead of in the engine, so that a crash counts only against jobs that ran.
    if (background.begun() >= service->models.figures().slots_total) return;
    if (take_up(service, id) == TakenUp::no_room) return;
  }
}

void look_for_waiting_responses(const std::shared_ptr<Service>& service) {
  if (!service->post_job || service->loading || !service->families.responses->background.any_waits()) return;
  if (service->families.responses->looking.exchange(true)) return;
  const auto take_up_all = [service] {
    service->families.responses->looking = false;
    take_up_background_responses(service);
  };
  bool posted = false;
  try {
    posted = service->post_job(ThreadKind::pool,
                               {.share = {}, .meter = std::make_shared<Meter>(), .run = take_up_all});
  } catch (const std::exception& failure) {
    spdlog::error("waiting responses not looked for reason=\"{}\"", failure.what());
  }
  if (!posted) service->families.responses->looking = false;
}

Result<std::optional<std::string>> present_answer(Service& service, const std::string& id) {
  if (const auto look = service.families.responses->background.look(id)) {
    if (look->state.wish == JobState::Wish::deleted) return std::optional<std::string>();
    if (look->pending) return std::optional<std::string>(look->pending());
    FULMAR_ASSIGN(std::optional<ResponseJob> job, service.families.responses->store.find_job(id));
    if (job && !job->readable) return std::optional(ended_unmade(*job, "queued", nullptr).json);
    if (job) return std::optional<std::string>(std::move(job->answer));
  }
  FULMAR_ASSIGN(auto stored, service.families.responses->store.find(id));
  return stored ? std::optional<std::string>(std::move(stored->json)) : std::nullopt;
}

Result<std::optional<std::string>> present_input(Service& service, const std::string& id) {
  if (const auto look = service.families.responses->background.look(id)) {
    if (look->state.wish == JobState::Wish::deleted) return std::optional<std::string>();
    FULMAR_ASSIGN(const std::optional<ResponseJob> job, service.families.responses->store.find_job(id));
    if (job) return std::optional(input_of(*job));
  }
  FULMAR_ASSIGN(auto stored, service.families.responses->store.find(id));
  return stored ? std::optional<std::string>(std::move(stored->input)) : std::nullopt;
}

std::optional<ApiError> cancel_waiting(Service& service, const std::string& id) {
  const auto job = service.families.responses->store.find_job(id);
  if (!job.ok()) return store_failed("responses");
  if (!*job) return std::nullopt;  // over meanwhile
  if (!service.families.responses->store.end_job(ended_unmade(**job, "cancelled", nullptr)).ok())
    return store_failed("responses");
  service.families.responses->background.cancel(id);
  return std::nullopt;
}

}  // namespace fulmar
