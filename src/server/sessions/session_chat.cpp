// The session routes. The states themselves are kept by the engine.
#include "server/sessions/session_chat.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "server/core/warnings.h"
#include "server/generate/session_ids.h"
#include "server/native/native_batch.h"

namespace fulmar {
namespace {

using Level = SessionInfo::Level;

std::string_view level_name(Level level) {
  switch (level) {
    case Level::device:
      return "L1 (VRAM)";
    case Level::host:
      return "L2 (RAM)";
    case Level::store:
      break;
  }
  return "Database (Disk)";
}

std::string local_time(double when) {
  const auto seconds = static_cast<std::time_t>(when);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return std::string(text, length);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Lists the sessions of all models: by level, newest first within one as the engine lists them.
Result<std::vector<SessionInfo>> all_sessions(const Call& call) {
  std::vector<SessionInfo> sessions;
  for (const ServedModelPtr& model : call.service().models.one_per_ladder()) {
    FULMAR_ASSIGN(auto of_model, model->engine->sessions(call.owner()));
    for (SessionInfo& session : of_model) {
      if (!is_servers_session(session.id)) sessions.push_back(std::move(session));
    }
  }
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const SessionInfo& a, const SessionInfo& b) { return a.level < b.level; });
  return sessions;
}

void write_session(JsonWriter& json, const SessionInfo& session, const Owner& reader) {
  const bool stored = session.level == Level::store;
  json.begin_object()
      .member("session_id", session.id)
      .member("cache_level", level_name(session.level))
      .member("last_updated", stored ? local_time(session.updated) : std::string("In Memory"))
      .member("timestamp", stored ? session.updated : now_seconds());
  if (!session.owner.empty() && reader.administers) json.member("owner", session.owner);
  json.end_object();
}

}  // namespace

void session_chat(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  NativeRoute route{.defaults = kNativeDefaults, .endpoint = "state.chat.completions"};
  route.session = read_session(*call, fields);
  if (!fields.failed() && !route.session) fields.fail(bad_value("Missing session_id parameter"));
  const auto contents = fields.texts(kContentsFields["contents"]);
  if (!fields.failed() && contents.size() != 1) {
    fields.fail(bad_value("Request must contain exactly one prompt"));
  }
  submit_native(std::move(call), fields, route, contents);
}

void list_sessions(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  const auto listed = all_sessions(*call);
  if (!listed.ok()) return call->fail(store_failed("sessions"));
  const std::vector<SessionInfo>& sessions = *listed;
  const auto count = [&](Level level) {
    return std::count_if(sessions.begin(), sessions.end(),
                         [&](const SessionInfo& session) { return session.level == level; });
  };
  JsonWriter json;
  json.begin_object()
      .member("status", "success")
      .member("total_sessions", sessions.size())
      .member("l1_cache_count", count(Level::device))
      .member("l2_cache_count", count(Level::host))
      .member("database_count", count(Level::store));
  json.key("sessions").begin_array();
  for (const SessionInfo& session : sessions) write_session(json, session, call->owner());
  std::string text = json.end_array().end_object().take();
  add_warnings(text, warnings_of_sessions(call->service().options));
  call->respond_json(std::move(text));
}

void delete_session(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  Fields fields(call->body());
  const std::string id = session_id_field(fields, kDropFields["session_id"]);
  const bool branches = fields.flag(kDropFields["delete_prefix"]);
  if (!fields.failed() && id.empty()) fields.fail(bad_value("Missing session_id parameter"));
  if (fields.failed()) return call->fail(fields.fault());
  const auto gone = call->service().models.erase_session(call->owner(), id, branches);
  if (!gone.ok()) return call->fail(store_failed("sessions"));
  const bool found = *gone > 0 || branches;
  JsonWriter json;
  json.begin_object()
      .member("status", found ? "success" : "not_found")
      .member("message", "Session " + id + (found ? " deleted successfully" : " not found in database"))
      .end_object();
  call->respond_json(json.take(), found ? 200 : 404);
}

}  // namespace fulmar
