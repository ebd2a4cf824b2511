// The choice of a worker.
#include "control/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "net/conversation.h"

namespace fulmar {
namespace {

bool serves(const WorkerView& worker, std::string_view model) {
  const std::string_view plain = model.substr(0, model.find(' '));
  return std::any_of(worker.models.begin(), worker.models.end(),
                     [&](const std::string& id) { return id == model || id == plain; });
}

constexpr size_t kLongestSessionId = 512;
// How many more rows a worker may have than the idlest one before a guessed home is passed over.
constexpr int64_t kGuessMayCost = 8;

// Returns the rows queued or under way; polled figures lag behind, our own count of requests does not.
int64_t load_of(const WorkerView& worker) {
  return worker.queue.waiting + std::max(worker.queue.running, worker.in_flight->load());
}

// Appends a message's content: a text, or parts that hold texts.
void append_text(std::string& text, const JsonValue* content) {
  if (content == nullptr) return;
  if (content->is_string()) text += content->as_string();
  if (!content->is_array()) return;
  for (const JsonValue& part : content->as_array()) append_text(text, part.find("text"));
}

std::string first_turn_of(const JsonValue::Array& messages) {
  std::string turn;
  for (const JsonValue& message : messages) {
    const JsonValue* role = message.find("role");
    if (role == nullptr || !role->is_string()) return {};
    turn += role->as_string() + ": ";
    append_text(turn, message.find("content"));
    turn += '\n';
    if (role->as_string() == "user" || role->as_string() == "User") return turn;
  }
  return {};
}

std::string first_turn(const JsonValue& body) {
  for (const char* field : {"messages", "input", "contents", "prompt"}) {
    const JsonValue* found = body.find(field);
    if (found == nullptr) continue;
    if (found->is_array() && !found->as_array().empty() && found->as_array().front().is_object()) {
      return first_turn_of(found->as_array());
    }
    if (found->is_array() && found->as_array().size() == 1) found = &found->as_array().front();
    if (found->is_string()) return found->as_string().substr(0, found->as_string().find("\n\n"));
  }
  return {};
}

}  // namespace

WorkerPtr choose_worker(const Fleet& fleet, const Wish& wish) {
  std::vector<WorkerPtr> fit;
  for (const WorkerPtr& worker : fleet) {
    const bool tried =
        std::find(wish.excluded.begin(), wish.excluded.end(), worker->id) != wish.excluded.end();
    const bool asked = worker->phase == WorkerPhase::ready || (wish.draining && worker->answers());
    if (asked && !tried) fit.push_back(worker);
  }
  const auto names_it = [&](const WorkerPtr& worker) { return serves(*worker, wish.model); };
  if (!wish.model.empty() && std::any_of(fit.begin(), fit.end(), names_it)) {
    std::erase_if(fit, [&](const WorkerPtr& worker) { return !names_it(worker); });
  }
  const auto home =
      std::find_if(fit.begin(), fit.end(), [&](const WorkerPtr& worker) { return worker->id == wish.home; });
  const auto least = std::min_element(fit.begin(), fit.end(), [](const WorkerPtr& a, const WorkerPtr& b) {
    return load_of(*a) < load_of(*b);
  });
  if (home == fit.end()) return least == fit.end() ? nullptr : *least;
  const bool too_busy = wish.home_is_guess && load_of(**home) > load_of(**least) + kGuessMayCost;
  return too_busy ? *least : *home;
}

namespace {

// Returns a hash of the key that the request shows, in whichever way, and of the owner that an administrator
// acts as.
std::string owner_part(const Headers& headers, const JsonValue& body) {
  std::string shown(headers.get("Authorization"));
  if (shown.starts_with("Bearer ")) shown.erase(0, shown.find(' ') + 1);
  if (shown.empty()) shown = headers.get("X-Api-Key");
  const JsonValue* password = body.find("password");
  if (shown.empty() && password && password->is_string()) shown = password->as_string();
  if (const std::string_view owner = headers.get("Fulmar-Owner"); !owner.empty()) {
    shown.append(1, '\n').append(owner);
  }
  return shown.empty() ? std::string() : fmt::format("{:016x}", std::hash<std::string>()(shown));
}

// Returns the tree of a session that is a node: node N of the tree T is the session "T:N". Others are
// returned as they are.
std::string_view tree_of(std::string_view session) {
  const size_t colon = session.rfind(':');
  const bool is_node = colon != std::string_view::npos && colon > 0 && colon + 1 < session.size() &&
                       session.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  return is_node ? session.substr(0, colon) : session;
}

SessionKey key_of(SessionKey::Kind kind, std::string_view word, std::string id, const Headers& headers,
                  const JsonValue& body) {
  if (id.empty() || id.size() > kLongestSessionId) return {};
  const bool is_session = kind == SessionKey::Kind::session;
  std::string text = fmt::format("{} {} {}", word, owner_part(headers, body),
                                 is_session ? tree_of(id) : std::string_view(id));
  return {.kind = kind, .text = std::move(text), .id = std::move(id)};
}

}  // namespace

SessionKey key_of_session(const std::string& id, const Headers& headers, const JsonValue& body) {
  return key_of(SessionKey::Kind::session, "session", id, headers, body);
}

SessionKey key_of_response(const std::string& id, const Headers& headers, const JsonValue& body) {
  return key_of(SessionKey::Kind::response, "response", id, headers, body);
}

SessionKey session_key(std::string_view path, const Headers& headers, const JsonValue& body) {
  const Conversation named = named_conversation(path, headers, body);
  if (named.kind == Conversation::Kind::session) return key_of_session(named.id, headers, body);
  if (named.kind == Conversation::Kind::response) return key_of_response(named.id, headers, body);
  if (const std::string* hint = headers.find("X-Fulmar-Session"); hint && !hint->empty()) {
    return key_of(SessionKey::Kind::hint, "hint", *hint, headers, body);
  }
  const std::string turn = first_turn(body);
  if (turn.empty()) return {};
  const std::string hash = fmt::format("{:016x}", std::hash<std::string>()(turn));
  return key_of(SessionKey::Kind::guess, "first turn", hash, headers, body);
}

bool may_come_back(const Fleet& fleet, std::string_view model) {
  const auto names_it = [&](const WorkerPtr& worker) { return serves(*worker, model); };
  const bool named = !model.empty() && std::any_of(fleet.begin(), fleet.end(), names_it);
  return std::any_of(fleet.begin(), fleet.end(), [&](const WorkerPtr& worker) {
    const bool away = !worker->answers() && worker->phase != WorkerPhase::exited;
    return away && worker->may_have_sessions && !shares_sessions(worker->spec) &&
           (!named || worker->models.empty() || names_it(worker));
  });
}

bool any_away(const Fleet& fleet, bool draining_too) {
  return std::any_of(fleet.begin(), fleet.end(), [&](const WorkerPtr& worker) {
    const bool asked = draining_too ? worker->answers() : worker->phase == WorkerPhase::ready;
    return !asked && worker->phase != WorkerPhase::exited;
  });
}

}  // namespace fulmar
