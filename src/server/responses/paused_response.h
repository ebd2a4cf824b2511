// A stored response whose request is paused: what it takes to store the whole answer once the request has
// been resumed and has ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/event.h"
#include "text/reasoning_split.h"

namespace fulmar {

class ResponsesWriter;
struct Service;

// An answer as far as it has come.
struct ResponseProgress {
  std::unique_ptr<ResponsesWriter> writer;
  std::optional<ReasoningSplitter> splitter;
  int64_t reasoning_tokens = 0;
};

// Held by the request, however often it is paused. Thread-safe.
class PausedResponse {
 public:
  void keep(std::unique_ptr<ResponseProgress> progress);
  // Returns what was kept, and keeps it no longer; null: nothing.
  std::unique_ptr<ResponseProgress> take();
  // Notes that the response was deleted: nothing more is to be stored of it.
  void remove();
  bool removed() const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<ResponseProgress> progress_;
  bool removed_ = false;
};

// Those of all requests that run or are paused, by id. Thread-safe.
class PausedResponses {
 public:
  std::shared_ptr<PausedResponse> add(const std::string& id);
  std::shared_ptr<PausedResponse> find(const std::string& id) const;  // null: none

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<PausedResponse>> by_id_;
};

// Returns the listener of a request that is resumed. It passes everything on to `reply`; where the request's
// answer is being stored, it first stores the whole of it.
std::shared_ptr<Listener> resumed_listener(const std::shared_ptr<Service>& service, const std::string& id,
                                           std::shared_ptr<Listener> reply);

}  // namespace fulmar
