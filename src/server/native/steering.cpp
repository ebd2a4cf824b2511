// Looks for requests on every loaded model: request ids are unique in the process.
#include "server/native/steering.h"

#include <fmt/format.h>

#include "server/generate/intake.h"
#include "server/native/branch_writer.h"
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

bool forget_anywhere(const Call& call, const std::string& id) {
  bool found = false;
  call.service().models.each_engine(
      [&](Engine& engine) { found = found || engine.forget_paused(call.owner(), id); });
  return found;
}

// Makes the writer of a stream that is resumed.
std::unique_ptr<Writer> resumed_writer(const Call& call, const std::string& id, const std::string& model) {
  const AnswerHead head{id, {}, unix_seconds(), model};
  auto branch = call.service().families.branches->held_by(id);
  if (!branch) return std::make_unique<NativeWriter>(head, kBatchShape, false);
  return std::make_unique<BranchWriter>(head, kBatchShape, false,
                                        BranchTurn{.from = 0, .to = std::move(branch)});
}

}  // namespace

void cancel_request(std::shared_ptr<Call> call) {
  if (!cancel_anywhere(*call, call->argument()) && !forget_anywhere(*call, call->argument())) {
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
  const bool stopped =
      id.empty() ? cancel_everything(*call) : cancel_anywhere(*call, id) || forget_anywhere(*call, id);
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
    const Result<std::string> found = model->engine->pause(call->owner(), id);
    if (found.ok()) {
      paused = *found;
      break;
    }
    if (found.error().kind == ErrorKind::resource) {
      return call->fail({429, found.error().text, {}, "paused_full", {}, 1});
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
  const auto reply =
      std::make_shared<Reply>(call, std::move(options), resumed_writer(*call, id, name), model);
  auto listener = call->service().families.resumed(call->shared_service(), id, reply);
  if (const Status resumed = model->engine->resume(call->owner(), id, max_tokens, std::move(listener));
      !resumed) {
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
