// The state of the routes of /v1/responses.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "server/responses/background_responses.h"
#include "server/responses/paused_response.h"
#include "server/responses/response_store.h"

namespace fulmar {

struct ResponseFamily {
  // Makes the store and the list of jobs. `documents` null: in memory. `bounds`, `retry`: set by tests only.
  explicit ResponseFamily(std::unique_ptr<DocumentStore> documents = nullptr,
                          std::optional<ResponseBounds> bounds = {},
                          std::chrono::milliseconds retry = ResponseStore::kRetry)
      : held_store(std::make_shared<ResponseStore>(std::move(documents), bounds, retry)),
        store(*held_store) {}

  const std::shared_ptr<ResponseStore> held_store;  // may outlive this
  ResponseStore& store;
  BackgroundResponses background{store};
  PausedResponses paused;
  std::atomic<bool> looking{false};  // a thread is to look for responses that wait
};

}  // namespace fulmar
