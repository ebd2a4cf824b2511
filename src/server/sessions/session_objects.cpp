// Passes states between clients and the engine.
#include "server/sessions/session_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/utf8.h"
#include "cache/state_blob.h"
#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/core/warnings.h"
#include "server/generate/intake.h"
#include "server/generate/named_model.h"
#include "server/generate/session_ids.h"
#include "server/generate/writer_parts.h"

namespace fulmar {
namespace {

constexpr std::string_view kStore = "sessions";  // what a failure is said of

std::string_view level_name(SessionInfo::Level level) {
  switch (level) {
    case SessionInfo::Level::device:
      return "device";
    case SessionInfo::Level::host:
      return "host";
    case SessionInfo::Level::store:
      break;
  }
  return "store";
}

ApiError unknown_session(const std::string& id) {
  return {404, "The session '" + id + "' does not exist", "session_id", "session_not_found", {}};
}

// Returns the session id in the path. For an invalid id answers the call and returns nothing. Reading one of
// the server's own sessions is answered as for an unknown one.
std::optional<std::string> addressed_session(Call& call) {
  const std::string& id = call.argument();
  if (is_session_id(id)) return id;
  const bool looks = call.request().method != "PUT";
  call.fail(looks && is_servers_session(id) ? unknown_session(id) : *session_id_fault(id));
  return std::nullopt;
}

// Returns the model of the query's `model`, else the default one.
ServedModelPtr addressed_model(const Call& call) {
  const std::string* name = call.request().query.find("model");
  return named_model(call.service(), call.owner(), name ? std::string_view(*name) : std::string_view(),
                     call.service().options.strict_model);
}

// A session that exists, and where it was found.
struct Found {
  ServedModelPtr model;
  Owner owner;
};

// Returns the owner's session on the addressed model, else on any.
Result<std::optional<Found>> owned_session(const Call& call, const Owner& owner, const std::string& id) {
  std::vector<ServedModelPtr> models = call.service().models.all();
  if (call.request().query.find("model")) models = {addressed_model(call)};
  for (const ServedModelPtr& model : models) {
    if (!model) continue;
    FULMAR_ASSIGN(const bool there, model->engine->has_session(owner, id));
    if (there) return std::optional(Found{model, owner});
  }
  return std::optional<Found>();
}

// Returns who has a session of that id, of those that the caller sees.
Result<std::set<std::string>> owners_of(const Call& call, const std::string& id) {
  std::set<std::string> owners;
  for (const ServedModelPtr& model : call.service().models.one_per_ladder()) {
    FULMAR_ASSIGN(const auto sessions, model->engine->sessions(call.owner()));
    for (const SessionInfo& session : sessions) {
      if (session.id == id) owners.insert(session.owner);
    }
  }
  return owners;
}

// Finds the caller's own session of that id; an administrator without one gets that of another owner. Answers
// the call and returns nothing when there is none, when several owners have one, or when the store fails.
std::optional<Found> find_session(Call& call, const std::string& id) {
  auto own = owned_session(call, call.owner(), id);
  const bool asks_others = own.ok() && !*own && call.owner().administers && call.service().keys;
  const auto asked = asks_others ? owners_of(call, id) : std::set<std::string>();
  if (!own.ok() || !asked.ok()) {
    call.fail(store_failed(kStore));
    return std::nullopt;
  }
  if (*own) return std::move(*own);
  const std::set<std::string>& owners = *asked;
  if (owners.size() > 1) {
    call.fail({409,
               fmt::format("{} owners have a session '{}'; name one by the header {}", owners.size(), id,
                           kOwnerHeader),
               "session_id",
               "conflict",
               {}});
    return std::nullopt;
  }
  if (!owners.empty()) own = owned_session(call, Owner{.name = *owners.begin()}, id);
  if (own.ok() && *own) return std::move(*own);
  call.fail(own.ok() ? unknown_session(id) : store_failed(kStore));
  return std::nullopt;
}

// Returns the error for a session that could not be read though it was found before.
ApiError unread(const Error& error) {
  return error.kind == ErrorKind::not_found ? api_error(error) : store_failed(kStore);
}

// Returns the error for a state that was refused.
ApiError untaken(const Error& error) {
  return error.kind == ErrorKind::unavailable ? store_failed(kStore) : api_error(error);
}

void respond_session(Call& call, const std::string& id, const ServedModel& model, const StateBlob& blob) {
  JsonWriter json;
  json.begin_object()
      .member("id", id)
      .member("object", "session")
      .member("model", model.id)
      .member("tokens", blob.tokens)
      .end_object();
  call.respond_json(json.take());
}

struct ListPage {
  std::string after;  // the id after which the page begins
  int64_t limit = 0;
};

constexpr int64_t kMostListed = 1000;

Result<ListPage> read_page(const Call& call) {
  const auto& query = call.request().query;
  ListPage page{.limit = kMostListed};
  if (const std::string* after = query.find("after")) page.after = *after;
  const std::string* limit = query.find("limit");
  if (limit == nullptr) return page;
  const auto [end, fault] = std::from_chars(limit->data(), limit->data() + limit->size(), page.limit);
  const bool whole = fault == std::errc() && end == limit->data() + limit->size();
  if (whole && page.limit >= 1 && page.limit <= kMostListed) return page;
  return Error{ErrorKind::invalid,
               fmt::format("'limit' is '{}'; wanted 1 to {}", limit->substr(0, 20), kMostListed)};
}

struct Listed {
  SessionInfo session;
  ServedModelPtr model;
};

// Lists the sessions of all models with ids after `after`, sorted by id, except the server's own.
Result<std::vector<Listed>> sessions_behind(const Call& call, const std::string& after) {
  std::vector<Listed> sessions;
  for (const ServedModelPtr& model : call.service().models.one_per_ladder()) {
    FULMAR_ASSIGN(auto of_model, model->engine->sessions(call.owner()));
    for (SessionInfo& session : of_model) {
      const bool told = session.id > after && !is_servers_session(session.id);
      if (told) sessions.push_back({std::move(session), model});
    }
  }
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const Listed& one, const Listed& other) { return one.session.id < other.session.id; });
  return sessions;
}

}  // namespace

void list_session_objects(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  const auto page = read_page(*call);
  if (!page.ok()) return call->fail(bad_value(page.error().text, "limit"));
  auto listed = sessions_behind(*call, page->after);
  if (!listed.ok()) return call->fail(store_failed(kStore));
  std::vector<Listed>& sessions = *listed;
  size_t end = std::min(sessions.size(), static_cast<size_t>(page->limit));
  // Extends the page to the last session of an id, since several models or owners may have that id, and to an
  // id that is UTF-8 without NUL, as a URL can hold it and old ids may not be: the next page begins after it.
  const auto goes_on = [&](const std::string& last) {
    return sessions[end].session.id == last || last.find('\0') != std::string::npos || !is_utf8(last);
  };
  while (end < sessions.size() && goes_on(sessions[end - 1].session.id)) ++end;
  const bool more = end < sessions.size();
  sessions.resize(end);
  JsonWriter json = begin_list();
  for (const Listed& one : sessions) {
    json.begin_object()
        .member("id", one.session.id)
        .member("object", "session")
        .member("model", one.model->id)
        .member("level", level_name(one.session.level))
        .member("tokens", one.session.tokens);
    const std::string& owner = one.session.owner;
    if (!owner.empty() && call->owner().administers) json.member("owner", owner);
    json.end_object();
  }
  json.end_array().member("has_more", more);
  std::string text = json.end_object().take();
  add_warnings(text, warnings_of_sessions(call->service().options));
  call->respond_json(std::move(text));
}

void export_session(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  const auto id = addressed_session(*call);
  if (!id) return;
  const auto found = find_session(*call, *id);
  if (!found) return;
  const Result<StateBlob> blob = found->model->engine->export_session(found->owner, *id);
  if (!blob) return call->fail(unread(blob.error()));
  const std::vector<std::byte> bytes = encode_blob(*blob);
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  call->respond(std::move(response));
}

void import_session(std::shared_ptr<Call> call) {
  const auto id = addressed_session(*call);
  if (!id) return;
  const ServedModelPtr model = addressed_model(*call);
  if (!model) return call->fail(no_model_loaded());
  const Result<StateBlob> blob = decode_blob(std::as_bytes(std::span(call->bytes())));
  if (!blob) return call->fail(api_error(blob.error()));
  if (const Status taken = model->engine->import_session(call->owner(), *id, *blob); !taken) {
    return call->fail(untaken(taken.error()));
  }
  respond_session(*call, *id, *model, *blob);
}

void fork_session(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  const auto id = addressed_session(*call);
  if (!id) return;
  Fields fields(call->body());
  const std::string copy = session_id_field(fields, kForkFields["session_id"]);
  if (copy.empty()) fields.fail(bad_value("'session_id' of the copy is required", "session_id"));
  if (fields.failed()) return call->fail(fields.fault());
  const auto found = find_session(*call, *id);
  if (!found) return;
  Engine& engine = *found->model->engine;
  const auto exists = engine.has_session(found->owner, copy);
  if (!exists.ok()) return call->fail(store_failed(kStore));
  if (*exists) {
    return call->fail({409, "The session '" + copy + "' exists already", "session_id", "conflict", {}});
  }
  const Result<StateBlob> blob = engine.export_session(found->owner, *id);
  if (!blob) return call->fail(unread(blob.error()));
  if (const Status taken = engine.import_session(found->owner, copy, *blob); !taken) {
    return call->fail(untaken(taken.error()));
  }
  respond_session(*call, copy, *found->model, *blob);
}

void drop_session(std::shared_ptr<Call> call) {
  if (call->service().models.empty()) return call->fail(no_model_loaded());
  const auto addressed = addressed_session(*call);
  if (!addressed) return;
  const std::string& id = *addressed;
  // Erases the caller's own session without a lookup, so that a running turn cannot store it again.
  auto gone = call->service().models.erase_session(call->owner(), id, false);
  if (gone.ok() && *gone == 0) {
    const auto found = find_session(*call, id);
    if (!found) return;
    gone = call->service().models.erase_session(found->owner, id, false);
  }
  if (!gone.ok()) return call->fail(store_failed(kStore));
  if (*gone == 0) return call->fail(unknown_session(id));
  JsonWriter json;
  json.begin_object().member("id", id).member("object", "session").member("deleted", true).end_object();
  call->respond_json(json.take());
}

}  // namespace fulmar
