// The routes of stored responses.
#include "server/responses/responses.h"

#include <fmt/format.h>

#include "base/log.h"
#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/session_ids.h"
#include "server/responses/background_jobs.h"
#include "server/responses/family.h"
#include "server/responses/response_intake.h"
#include "server/responses/response_items.h"

namespace fulmar {
namespace {

ResponseOrigin origin_of(const Call& call) {
  return {call.owner(), new_response_id(call.owner()), unix_seconds(),
          std::string(call.request().headers.get("X-RWKV-State-Id")), call.other_site_fault()};
}

// Erases the state after a response, whether or not its model is loaded: the store of responses does not
// remove sessions itself.
Status forget_state(const Service& service, const std::string& id) {
  const std::string session = response_session(id);
  FULMAR_ASSIGN(const int64_t gone, service.models.erase_session(server_itself(), session, false));
  return gone == 0 && service.admin ? service.admin->forget_session(session) : Status();
}

void forget_expired(Service& service) {
  for (const StoredResponse& old : service.families.responses->store.take_expired()) {
    const Status gone = forget_state(service, old.id);
    if (!gone.ok()) spdlog::error("state of response {} not erased: {}", old.id, gone.error().text);
  }
}

bool made_in_background(const std::string& answer) {
  const auto parsed = parse_json(answer, {.max_bytes = answer.size() + 1});
  const JsonValue* background = parsed ? parsed->find("background") : nullptr;
  return background && background->is_bool() && background->as_bool();
}

// Ends what still makes a response that was deleted: its request is paused, or was resumed.
void end_request(Service& service, const std::string& id) {
  const auto paused = service.families.responses->paused.find(id);
  if (!paused) return;
  paused->remove();
  service.models.each_engine([&](Engine& engine) {
    engine.forget_paused(server_itself(), id);
    engine.cancel(server_itself(), id);
  });
}

}  // namespace

void create_response(std::shared_ptr<Call> call) {
  Service& service = call->service();
  forget_expired(service);
  Fields fields(call->body());
  refuse_session(fields, call->request().headers);
  if (call->unkept().fault) fields.fail(*call->unkept().fault);
  PreparedResponse made = prepare_response(service, fields, origin_of(*call));
  if (fields.failed()) return call->fail(fields.fault());
  ResponseFacts& facts = made.facts;
  if (facts.store) {
    if (const auto refused =
            service.families.responses->store.promise(facts.owner, facts.bytes(), facts.room)) {
      return call->fail(*refused);
    }
  }
  if (facts.background) facts.warnings = call->unkept().warnings;
  if (facts.background) {
    const ServedModelPtr model = made.submission.model;
    // Shared, because std::function has to be copyable.
    const auto shared = std::make_shared<PreparedResponse>(std::move(made));
    return with_adapter_ready(
        call, model, [call, shared](const AdapterUse&) { answer_in_background(*call, std::move(*shared)); });
  }
  std::shared_ptr<PausedResponse> paused;
  if (facts.store) paused = service.families.responses->paused.add(facts.id);
  made.submission.held = paused;
  auto writer = std::make_unique<ResponsesWriter>(
      call->shared_service(), std::make_shared<const ResponseFacts>(std::move(facts)), std::move(paused));
  submit(std::move(call), std::move(made.submission), std::move(writer));
}

void count_response_tokens(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  if (call->unkept().fault) fields.fail(*call->unkept().fault);
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
  const auto items = present_input(call->service(), id);
  if (!items.ok()) return call->fail(store_failed("responses"));
  if (!*items) return call->fail(not_stored(id));
  ItemPage page;
  const auto& query = call->request().query;
  if (const std::string* order = query.find("order")) {
    page.ascending = *order == "asc";
    if (!page.ascending && *order != "desc") {
      return call->fail(
          bad_value(fmt::format("'order' is '{}'; wanted asc or desc", order->substr(0, 40)), "order"));
    }
  }
  if (const std::string* after = query.find("after")) page.after = *after;
  if (const std::string* limit = query.find("limit")) {
    const auto count = lenient_int(JsonValue(*limit));
    if (!count || *count < 1 || *count > 100) {
      return call->fail(bad_value(fmt::format("'limit' is '{}'; wanted 1 to 100", *limit), "limit"));
    }
    page.limit = *count;
  }
  auto list = items_page_json(**items, page);
  if (!list) {
    return call->fail(
        bad_value(fmt::format("'after' is '{}'; wanted the id of an item of this response's input",
                              page.after.substr(0, 80)),
                  "after"));
  }
  call->respond_json(std::move(*list));
}

void cancel_response(std::shared_ptr<Call> call) {
  const std::string id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  BackgroundResponses& background = call->service().families.responses->background;
  const auto look = background.look(id);
  if (look && look->state.phase == JobState::Phase::waits) {
    if (const auto fault = cancel_waiting(call->service(), id)) return call->fail(*fault);
  }
  // Answers once the response has ended and is written.
  const auto tell = [call, id](const std::string& json) {
    call->service().families.responses->store.when_tried(id, [call, json](bool written) {
      call->guard([&] { written ? call->respond_json(json) : call->fail(store_failed("responses")); });
    });
  };
  const auto tell_stored = [call, id, tell] {
    const auto stored = call->service().families.responses->store.find(id);
    if (!stored.ok()) return call->fail(store_failed("responses"));
    const bool runs = call->service().families.responses->paused.find(id) != nullptr;
    if (!*stored && !runs) return call->fail(not_stored(id));
    if (*stored && made_in_background((*stored)->json)) return tell((*stored)->json);
    call->fail(bad_value("Only responses with background=true can be cancelled", {}, "invalid_value"));
  };
  const bool told = background.when_over(
      id, [tell, tell_stored](const std::string* json) { json ? tell(*json) : tell_stored(); });
  told ? background.cancel(id) : tell_stored();
}

// Answers with a response. An end in the background is reported only once it is written: before that, a crash
// would make the response again, with another answer.
void show_response(std::shared_ptr<Call> call) {
  const std::string id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  auto answer = present_answer(call->service(), id);
  if (!answer.ok()) return call->fail(store_failed("responses"));
  if (!*answer) return call->fail(not_stored(id));
  call->service().families.responses->store.when_tried(id, [call, json = std::move(**answer)](bool written) {
    call->guard([&] {
      written || !made_in_background(json) ? call->respond_json(json) : call->fail(store_failed("responses"));
    });
  });
}

void delete_response(std::shared_ptr<Call> call) {
  const std::string& id = call->argument();
  if (!sees_response(call->owner(), id)) return call->fail(not_stored(id));
  Service& service = call->service();
  const auto look = service.families.responses->background.look(id);
  auto stored = service.families.responses->store.find(id);
  if (!stored.ok()) return call->fail(store_failed("responses"));
  if (!*stored && !look) return call->fail(not_stored(id));
  // A refusal changes nothing: what is done before the last step that may fail is put back. A job that is
  // dropped stores no answer any more, so nothing is left to refuse.
  ResponseStore& store = service.families.responses->store;
  if (!store.drop_job(id).ok()) return call->fail(store_failed("responses"));
  service.families.responses->background.remove(id);
  const auto taken = store.take(id);
  if (!taken.ok() && *stored) return call->fail(store_failed("responses"));
  const bool removed = look && look->state.wish == JobState::Wish::deleted;
  if (removed || (!look && !*taken)) return call->fail(not_stored(id));
  if (!forget_state(service, id).ok()) {
    if (!*stored) {
      store.forget_later(id);
    } else {
      store.put(std::move(**stored));
      return call->fail(store_failed("sessions"));
    }
  }
  end_request(service, id);
  JsonWriter json;
  json.begin_object().member("id", id).member("object", "response").member("deleted", true);
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
