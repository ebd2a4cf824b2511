// Keeping and forgetting stored responses.
#include "server/response_store.h"

#include <algorithm>

namespace fulmar {

void ResponseStore::put(StoredResponse response) {
  std::lock_guard lock(mutex_);
  responses_.push_back(std::move(response));
}

std::optional<StoredResponse> ResponseStore::find(std::string_view id) const {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(responses_.begin(), responses_.end(),
                                  [&](const StoredResponse& one) { return one.id == id; });
  if (found == responses_.end()) return std::nullopt;
  return *found;
}

std::optional<StoredResponse> ResponseStore::take(std::string_view id) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(responses_.begin(), responses_.end(),
                                  [&](const StoredResponse& one) { return one.id == id; });
  if (found == responses_.end()) return std::nullopt;
  std::optional<StoredResponse> taken = std::move(*found);
  responses_.erase(found);
  return taken;
}

std::vector<StoredResponse> ResponseStore::take_expired(int64_t now) {
  std::lock_guard lock(mutex_);
  std::vector<StoredResponse> expired;
  while (!responses_.empty() && (responses_.size() > kMost || now - responses_.front().created > kSeconds)) {
    expired.push_back(std::move(responses_.front()));
    responses_.pop_front();
  }
  return expired;
}

}  // namespace fulmar
