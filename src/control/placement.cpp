// The choice of a worker.
#include "control/placement.h"

#include <algorithm>

namespace fulmar {
namespace {

bool serves(const WorkerView& worker, std::string_view model) {
  const std::string_view plain = model.substr(0, model.find(' '));
  return std::any_of(worker.models.begin(), worker.models.end(),
                     [&](const std::string& id) { return id == model || id == plain; });
}

// What was polled lags behind, what we have under way does not.
int64_t load_of(const WorkerView& worker) {
  return worker.queue.waiting + std::max(worker.queue.running, worker.in_flight->load());
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
  if (home != fit.end()) return *home;
  const auto least = std::min_element(fit.begin(), fit.end(), [](const WorkerPtr& a, const WorkerPtr& b) {
    return load_of(*a) < load_of(*b);
  });
  return least == fit.end() ? nullptr : *least;
}

std::string session_key(const Headers& headers, const JsonValue& body) {
  if (const std::string_view header = headers.get("X-Fulmar-Session"); !header.empty()) {
    return std::string(header);
  }
  const JsonValue* id = body.find("session_id");
  return id != nullptr && id->is_string() ? id->as_string() : std::string();
}

}  // namespace fulmar
