// Responses that are made while nobody waits: what clients that ask again are told, and how they are
// cancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/key_ring.h"
#include "server/served_model.h"
#include "server/writer.h"
#include "text/reasoning_split.h"

namespace fulmar {

// Thread-safe. Those that run are bounded; of those that are over the latest are kept, since a stored one is
// found in the ResponseStore and a cancelled one is stored nowhere.
class BackgroundResponses {
 public:
  static constexpr size_t kMostRunning = 256;
  static constexpr size_t kMostOver = 256;

  // Without a model it waits for one. False when too many run.
  bool start(const std::string& id, ServedModelPtr model, std::string json);
  void finish(const std::string& id, std::string json);
  void forget(const std::string& id);

  // Those that run.
  std::vector<std::pair<std::string, ServedModelPtr>> all_running() const;

  // The present answer; nothing for an id that is none of them.
  std::optional<std::string> find(const std::string& id) const;
  // The model of one that runs; null: it does not.
  ServedModelPtr running(const std::string& id) const;
  bool waits(const std::string& id) const;  // for a model

 private:
  struct Entry {
    std::string id, json;
    ServedModelPtr model;
    bool over = false;
  };
  std::list<Entry>::const_iterator entry_of(const std::string& id) const;

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the oldest first
};

// What a response in the background goes on to use of its client's key.
struct KeyShare {
  std::shared_ptr<KeyAccount> account;  // null: no account
  RowLease rows;
};

// Gathers the only row of a request and hands the whole answer of `writer` to `done`, or what it writes of a
// failure.
std::shared_ptr<Listener> gathering_listener(std::unique_ptr<Writer> writer,
                                             std::optional<ReasoningMode> split,
                                             std::function<void(std::string json, bool cancelled)> done,
                                             KeyShare share = {});

}  // namespace fulmar
