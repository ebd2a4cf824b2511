// The choice of a worker.
#include "control/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

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

// What was polled lags behind, what we have under way does not.
int64_t load_of(const WorkerView& worker) {
  return worker.queue.waiting + std::max(worker.queue.running, worker.in_flight->load());
}

// A message's content: a text, or parts that hold texts.
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
    if (worker->phase == WorkerPhase::ready && !tried) fit.push_back(worker);
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

// Of the credentials that a worker goes by, and of the owner that an administrator acts as.
std::string owner_part(const Headers& headers, const JsonValue& body) {
  std::string shown;
  for (const char* name : {"Authorization", "X-Api-Key", "Fulmar-Owner"}) {
    shown.append(headers.get(name)).append(1, '\n');
  }
  if (const JsonValue* password = body.find("password"); password != nullptr && password->is_string()) {
    shown += password->as_string();
  }
  if (shown.find_first_not_of('\n') == std::string::npos) return {};
  return fmt::format("{:016x} ", std::hash<std::string>()(shown));
}

SessionKey conversation_key(const Headers& headers, const JsonValue& body) {
  if (const std::string_view header = headers.get("X-Fulmar-Session"); !header.empty()) {
    return header.size() <= kLongestSessionId ? SessionKey{.text = std::string(header)} : SessionKey{};
  }
  if (const JsonValue* id = body.find("session_id"); id != nullptr && id->is_string()) {
    return id->as_string().size() <= kLongestSessionId ? SessionKey{.text = id->as_string()} : SessionKey{};
  }
  const std::string turn = first_turn(body);
  if (turn.empty()) return {};
  return {.text = fmt::format("first turn {:016x}", std::hash<std::string>()(turn)), .guessed = true};
}

}  // namespace

SessionKey session_key(const Headers& headers, const JsonValue& body) {
  SessionKey key = conversation_key(headers, body);
  if (!key.text.empty()) key.text.insert(0, owner_part(headers, body));
  return key;
}

}  // namespace fulmar
