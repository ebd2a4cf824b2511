// Looks for requests on every loaded model: request ids are unique in the process.
#include "server/native/steering.h"

#include <fmt/format.h>

#include "server/generate/intake.h"
#include "server/native/native_writer.h"
#include "server/status/status.h"

namespace fulmar {
namespace {

bool cancel_anywhere(const Call& call, const std::string& id) {
  bool found = false;
  call.service().models.each_engine(
      [&](Engine& engine) { found = found || engine.cancel(call.owner(), id); });
  return found;
}

bool cancel_everything(const Call& call) {
  int64_t stopped = 0;
  call.service().models.each_engine([&](Engine& engine) { stopped += engine.cancel_all(call.owner()); });
  return stopped > 0;
}

// Finds the model of a paused request, and the request's session.
ServedModelPtr model_with_paused(const Call& call, const std::string& id, std::string& session) {
  for (ServedModelPtr& model : call.service().models.all()) {
    const EngineStats stats = model->engine->stats();
    for (const RequestStatus& request : stats.paused) {
      if (request.id == id && call.owner().sees(request.owner)) {
        session = request.session;
        return model;
      }
    }
  }
  return nullptr;
}

}  // namespace

void cancel_request(std::shared_ptr<Call> call) {
  if (!cancel_anywhere(*call, call->argument())) {
    return call->fail({404, "Request not found", {}, "not_found", {}});
  }
  JsonWriter json;
  json.begin_object().member("status", "cancelled").member("request_id", call->argument()).end_object();
  call->respond_json(json.take());
}

void stop_requests(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = fields.text(kRequestFields["request_id"]).value_or(std::string());
  if (fields.failed()) return call->fail(fields.fault());
  const EngineStats before = stats_seen_by(*call);
  const bool stopped = id.empty() ? cancel_everything(*call) : cancel_anywhere(*call, id);
  JsonWriter json;
  json.begin_object().member("ok", true).member("stopped", stopped).key("active_request");
  write_active_request(json, before);
  call->respond_json(json.end_object().take());
}

void pause_request(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = fields.text(kRequestFields["request_id"]).value_or(std::string());
  if (fields.failed()) return call->fail(fields.fault());
  const EngineStats before = stats_seen_by(*call);
  std::string paused;
  for (const ServedModelPtr& model : call->service().models.all()) {
    if (const Result<std::string> found = model->engine->pause(call->owner(), id)) {
      paused = *found;
      break;
    }
  }
  JsonWriter json;
  json.begin_object().member("ok", true).member("paused", !paused.empty());
  if (!paused.empty()) json.member("request_id", paused);
  json.key("active_request");
  write_active_request(json, before);
  call->respond_json(json.end_object().take());
}

void resume_request(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  std::string id = fields.text(kResumeFields["request_id"]).value_or(std::string());
  const std::string session = session_id_field(fields, kResumeFields["session_id"]);
  if (id.empty()) id = session;
  const int64_t limit = call->service().options.limits.max_tokens;
  const int64_t max_tokens = std::min(fields.integer(kResumeFields["max_tokens"]).value_or(-1), limit);
  const int64_t chunk_size = std::max<int64_t>(1, fields.count(kResumeFields["chunk_size"]));
  if (!fields.failed() && id.empty()) fields.fail(bad_value("Missing request_id"));
  const std::string name = model_name(fields, "rwkv7");
  if (fields.failed()) return call->fail(fields.fault());
  std::string own_session;
  const ServedModelPtr model = model_with_paused(*call, id, own_session);
  if (!model) return call->fail({404, "Paused request not found", {}, "not_found", {}});
  if (!session.empty() && session != id && session != own_session) {
    return call->fail(bad_value(fmt::format("'session_id' is '{}', but the request '{}' has {}", session, id,
                                            own_session.empty() ? "no session" : "'" + own_session + "'"),
                                "session_id"));
  }

  if (const auto refused = call->take_rows(1, 0)) return call->fail(*refused);
  ReplyOptions options;
  options.request_id = id;
  options.stream = true;
  options.chunk_size = chunk_size;
  auto writer = std::make_unique<NativeWriter>(AnswerHead{id, {}, unix_seconds(), name}, kBatchShape, false);
  const auto reply = std::make_shared<Reply>(call, std::move(options), std::move(writer), model);
  if (const Status resumed = model->engine->resume(call->owner(), id, max_tokens, reply); !resumed) {
    const ErrorKind kind = resumed.error().kind;
    if (kind == ErrorKind::not_found) {
      return call->fail({404, "Paused request not found", {}, "not_found", {}});
    }
    // No free slot, or its session is in use: the request is still there.
    if (kind == ErrorKind::unavailable || kind == ErrorKind::conflict) {
      return call->fail(api_error(resumed.error()));
    }
    return call->fail({500, "Paused request state is incomplete", {}, "internal_error", {}});
  }
  reply->watch_client();
}

}  // namespace fulmar
