// A turn goes to where its conversation is, a lookup to whoever has what is looked for.
#include "control/pass_on.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "control/control_answers.h"
#include "control/fleet_question.h"
#include "control/merged_list.h"
#include "control/placement.h"
#include "control/relay.h"
#include "net/json.h"
#include "net/url.h"

namespace fulmar {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;
using Kind = SessionKey::Kind;

constexpr std::chrono::seconds kSearchTime{10};
constexpr int64_t kMostListed = 1000;  // as workers have it where a request does not say

HttpResponse no_worker() { return with_cors(routing_error(503, "no_worker", "no worker is ready")); }

HttpResponse not_certain() {
  return with_cors(routing_error(503, "worker_away",
                                 "not found on the workers that answer; one is away that may have it"));
}

RelayRequest plain_request(const ControlService& service, std::string target) {
  return {.target = std::move(target), .password = service.password, .total_timeout = service.relay_timeout};
}

std::string model_of(const HttpRequest& request, const JsonValue& body) {
  const JsonValue* model = body.find("model");
  if (model && model->is_string()) return model->as_string();
  const std::string* asked = request.query.find("model");
  return asked ? *asked : std::string();
}

// ---- turns

struct Turn {
  SessionKey key;
  Wish wish;
};

// Returns the choice of the next worker for a turn. A session without a home gets the first worker chosen as
// its home, so that concurrent turns stay together.
NextWorker next_for_turn(ControlService& service, Turn turn) {
  return [&service, turn = std::move(turn)]() mutable -> WorkerPtr {
    const FleetPtr fleet = service.supervisor.fleet();
    WorkerPtr worker = choose_worker(*fleet, turn.wish);
    if (!worker) return worker;
    const std::string& name = turn.key.text;
    if (turn.key.kind == Kind::session && turn.wish.home.empty() && turn.wish.excluded.empty()) {
      turn.wish.home = service.homes.claim(name, worker->id);
      worker = choose_worker(*fleet, turn.wish);
    }
    turn.wish.excluded.push_back(worker->id);
    if (!name.empty()) service.homes.set(name, worker->id);
    return worker;
  };
}

// Returns the body's `password` alone, as an object.
JsonValue password_in(const JsonValue& body) {
  const JsonValue* password = body.find("password");
  if (!password) return {};
  return JsonValue(JsonObject(std::vector<JsonObject::Member>{{"password", *password}}));
}

// Remembers where a response is that was made.
auto remember_response(ControlService& service, const Headers& headers, const JsonValue& body) {
  return [&service, headers, shown = password_in(body)](const WorkerView& worker, int status,
                                                        const Headers& answer) {
    const std::string id(answer.get("X-Request-Id"));
    if (status < 400 && !id.empty()) service.homes.set(key_of_response(id, headers, shown).text, worker.id);
  };
}

void relay_turn(ControlService& service, ExchangePtr exchange, const JsonValue& body, Turn turn) {
  RelayRequest request = plain_request(service, exchange->request().target);
  HttpResponse otherwise = no_worker();
  const WorkerPtr home = find_worker(*service.supervisor.fleet(), turn.wish.home);
  const bool at_home = home && home->phase == WorkerPhase::ready;
  if (turn.key.kind == Kind::session && at_home) request.refusal = 0;  // no other worker has the session
  if (turn.key.kind == Kind::response) {
    request.refusal = 404;
    request.refusal_stands = !any_away(*service.supervisor.fleet(), false);
    if (!request.refusal_stands) otherwise = not_certain();
  }
  if (exchange->request().path == "/v1/responses") {
    request.answered = remember_response(service, exchange->request().headers, body);
  }
  relay(service.client, std::move(exchange), std::move(request), next_for_turn(service, std::move(turn)),
        std::move(otherwise));
}

// ---- whose a session is

// The request by which a session is searched for on a worker: for its state, or for a turn of a tree for the
// first of the tree's nodes.
struct SessionSearch {
  std::string method, target, prefix;
};

SessionSearch search_of(const std::string& session, const JsonValue& body) {
  if (!body.find("dialogue_idx")) {
    return {.method = "HEAD", .target = "/v1/sessions/" + percent_encode(session) + "/state", .prefix = {}};
  }
  const std::string nodes = session + ":";
  return {.method = "GET", .target = "/v1/sessions?limit=1&after=" + percent_encode(nodes), .prefix = nodes};
}

// Returns whether a worker has the session; nothing where its answer does not tell, such as a 429. A worker
// that refuses the client here refuses the turn, too: a search needs no more rights.
std::optional<bool> has_session(const WorkerAnswer& answer, const SessionSearch& search) {
  const bool later = answer.status == 408 || answer.status == 429 || answer.status >= 500;
  if (answer.status == 0 || later) return std::nullopt;
  if (answer.status != 200 || search.prefix.empty()) return answer.status == 200;
  const auto page = parse_json(answer.body);
  const JsonValue* list = page.ok() ? page->find("data") : nullptr;
  if (!list || !list->is_array()) return std::nullopt;
  if (list->as_array().empty()) return false;
  const JsonValue* id = list->as_array().front().find("id");
  return id && id->is_string() && id->as_string().starts_with(search.prefix);
}

// Returns the workers that a turn may be sent to, in the order in which they would be asked.
std::vector<WorkerPtr> candidates(const Fleet& fleet, Wish wish) {
  std::vector<WorkerPtr> workers;
  while (WorkerPtr worker = choose_worker(fleet, wish)) {
    wish.excluded.push_back(worker->id);
    workers.push_back(std::move(worker));
  }
  return workers;
}

// Relays the turn to the worker that has its session, and where none has it, to any. A worker that does not
// say, or is away, may have it, and one that has it may take nothing new: then nothing is begun anew.
void search_and_relay(ControlService& service, ExchangePtr exchange, const JsonValue& body, Turn turn,
                      const std::vector<WorkerPtr>& workers) {
  const SessionSearch search = search_of(turn.key.id, body);
  RelayRequest request = plain_request(service, search.target);
  request.searches = true;
  const JsonValue* password = body.find("password");
  if (request.password.empty() && password && password->is_string()) request.password = password->as_string();
  request.total_timeout = kSearchTime;
  ask_workers(
      service.client, exchange, search.method, request, workers,
      [&service, exchange, turn = std::move(turn), search](const std::vector<WorkerAnswer>& answers) mutable {
        bool certain = !may_come_back(*service.supervisor.fleet(), turn.wish.model);
        for (const WorkerAnswer& answer : answers) {
          const std::optional<bool> has = has_session(answer, search);
          certain = certain && has;
          if (!has.value_or(false)) continue;
          if (answer.worker->phase != WorkerPhase::ready) {
            certain = false;
          } else if (turn.wish.home.empty()) {
            turn.wish.home = answer.worker->id;
          }
        }
        if (!certain && turn.wish.home.empty()) return exchange->respond(not_certain());
        if (!turn.wish.home.empty()) service.homes.set(turn.key.text, turn.wish.home);
        relay_turn(service, std::move(exchange), {}, std::move(turn));
      });
}

void pass_turn(ControlService& service, ExchangePtr exchange, const JsonValue& body) {
  const HttpRequest& asked = exchange->request();
  Turn turn{.key = session_key(asked.path, asked.headers, body), .wish = {.model = model_of(asked, body)}};
  if (!turn.key.text.empty()) turn.wish.home = service.homes.find(turn.key.text);
  turn.wish.home_is_guess = turn.key.kind == Kind::guess;
  if (turn.key.kind == Kind::session) {
    const FleetPtr fleet = service.supervisor.fleet();
    const WorkerPtr home = find_worker(*fleet, turn.wish.home);
    if (!home || home->phase != WorkerPhase::ready) {
      turn.wish.home.clear();
      const auto workers = candidates(*fleet, {.model = turn.wish.model, .draining = true});
      if (workers.size() > 1 || (!workers.empty() && may_come_back(*fleet, turn.wish.model)))
        return search_and_relay(service, std::move(exchange), body, std::move(turn), workers);
    }
  }
  relay_turn(service, std::move(exchange), body, std::move(turn));
}

// ---- lookups

void pass_lookup(ControlService& service, ExchangePtr exchange, const JsonValue& body) {
  const HttpRequest& asked = exchange->request();
  const SessionKey key = session_key(asked.path, asked.headers, body);
  Wish wish{.draining = true};
  if (key.is_kept()) wish.home = service.homes.find(key.text);
  RelayRequest request = plain_request(service, asked.target);
  request.refusal = 404;
  const FleetPtr fleet = service.supervisor.fleet();
  request.refusal_stands = !any_away(*fleet, true);
  const bool nobody =
      std::none_of(fleet->begin(), fleet->end(), [](const WorkerPtr& worker) { return worker->answers(); });
  SessionKey copy;  // of a fork
  const JsonValue* name = asked.path.ends_with("/fork") ? body.find("session_id") : nullptr;
  if (name && name->is_string()) copy = key_of_session(name->as_string(), asked.headers, body);
  request.answered = [&service, key, copy](const WorkerView& worker, int status, const Headers&) {
    if (status >= 400) return;
    if (key.is_kept()) service.homes.set(key.text, worker.id);
    if (!copy.text.empty()) service.homes.set(copy.text, worker.id);
  };
  relay(
      service.client, std::move(exchange), std::move(request),
      [&service, wish = std::move(wish)]() mutable {
        WorkerPtr worker = choose_worker(*service.supervisor.fleet(), wish);
        if (worker) wish.excluded.push_back(worker->id);
        return worker;
      },
      nobody ? no_worker() : not_certain());
}

// ---- lists

int64_t limit_of(const Query& query) {
  int64_t limit = kMostListed;
  if (const std::string* text = query.find("limit")) {
    std::from_chars(text->data(), text->data() + text->size(), limit);
  }
  return std::clamp<int64_t>(limit, 1, kMostListed);
}

HttpResponse passed_answer(WorkerAnswer answer) {
  HttpResponse response{.status = answer.status,
                        .content_type = {},
                        .headers = std::move(answer.headers),
                        .body = std::move(answer.body)};
  response.headers.remove("Date");
  return response;
}

HttpResponse merged_answer(const HttpRequest& asked, std::vector<WorkerAnswer> answers) {
  std::vector<std::string_view> pages;
  for (WorkerAnswer& answer : answers) {
    if (answer.status == 0) {
      return with_cors(
          routing_error(503, "worker_away", fmt::format("the worker {} did not answer", answer.worker->id)));
    }
    if (answer.status != 200) return passed_answer(std::move(answer));
    pages.push_back(answer.body);
  }
  auto merged = merge_lists(list_form(asked.path), pages, limit_of(asked.query));
  if (!merged) return with_cors(routing_error(502, "worker_lost", "a worker's answer is no list"));
  return with_cors(json_answer(std::move(*merged)));
}

// Answers with the merged lists of all workers that answer, and names those that are away, since their
// entries are missing.
void pass_merged(ControlService& service, ExchangePtr exchange) {
  const FleetPtr fleet = service.supervisor.fleet();
  std::vector<WorkerPtr> workers;
  std::string away;
  for (const WorkerPtr& worker : *fleet) {
    if (worker->answers()) {
      workers.push_back(worker);
    } else if (worker->phase != WorkerPhase::exited) {
      away += (away.empty() ? "" : ", ") + worker->id;
    }
  }
  if (workers.empty()) return exchange->respond(no_worker());
  RelayRequest request = plain_request(service, exchange->request().target);
  ask_workers(service.client, exchange, "GET", request, workers,
              [exchange, away](std::vector<WorkerAnswer> answers) {
                HttpResponse response = merged_answer(exchange->request(), std::move(answers));
                if (!away.empty())
                  response.headers.add("Fulmar-Warning", "not in this list, since they are away: " + away);
                exchange->respond(std::move(response));
              });
}

}  // namespace

void pass_on(ControlService& service, ExchangePtr exchange, const JsonValue& body, Placement placement) {
  switch (placement) {
    case Placement::turn:
      return pass_turn(service, std::move(exchange), body);
    case Placement::lookup:
      return pass_lookup(service, std::move(exchange), body);
    case Placement::merged:
      return pass_merged(service, std::move(exchange));
    case Placement::apart:
      break;
  }
  exchange->respond(
      with_cors(routing_error(404, "not_passed_on",
                              fmt::format("{} is one worker's business; ask it under /api/workers/ID/proxy{}",
                                          exchange->request().path, exchange->request().path))));
}

void pass_to(ControlService& service, ExchangePtr exchange, WorkerPtr worker, std::string target) {
  relay(
      service.client, std::move(exchange), plain_request(service, std::move(target)),
      [worker = std::move(worker), used = false]() mutable {
        return std::exchange(used, true) ? nullptr : worker;
      },
      with_cors(detail_answer(502, "worker unreachable")));
}

}  // namespace fulmar
