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

// Thread-safe. Those that wait or run are bounded; of those that are over the latest are kept, since a stored
// one is found in the ResponseStore.
class BackgroundResponses {
 public:
  static constexpr size_t kMostRunning = 256;
  static constexpr size_t kMostOver = 256;
  enum class Stage : uint8_t { unknown, waits, runs, over };
  // Told how a response ended; null: it was deleted, or refused.
  using Then = std::function<void(const std::string* json)>;

  // One that a server before has left: it waits, here for its model, and clients find it meanwhile.
  void wait(const std::string& id, std::string json);
  // A new one runs. False when too many wait or run.
  bool start(const std::string& id, ServedModelPtr model, std::string json);
  // One that waits runs. False where none of that id waits: it was deleted or cancelled.
  bool begin(const std::string& id, ServedModelPtr model, std::string json);
  // One that runs waits again.
  void put_back(const std::string& id, std::string json);
  void finish(const std::string& id, std::string json);
  void forget(const std::string& id);

  // A client no longer wants it: the engine's row is cancelled, also where it is handed over only now
  // (`wanted`).
  Stage cancel(const std::string& id);
  // The server ends: cancels all that run, to be made by the next one.
  void interrupt_all();
  // False for one that a client has cancelled or deleted.
  bool wanted(const std::string& id) const;
  bool interrupted(const std::string& id) const;

  // The present answer; nothing for an id that is none of them.
  std::optional<std::string> find(const std::string& id) const;
  Stage stage(const std::string& id) const;
  // Calls `then` once it is over: at once where it is already, or where there is none of that id.
  void when_over(const std::string& id, Then then);

 private:
  struct Entry {
    std::string id, json;
    ServedModelPtr model;  // of one that runs
    Stage stage = Stage::waits;
    bool cancelled = false;    // by a client
    bool interrupted = false;  // by the server's end
    std::vector<Then> waiting{};
  };
  using Entries = std::list<Entry>;
  Entries::iterator entry_of(const std::string& id);
  Entries::const_iterator entry_of(const std::string& id) const;

  mutable std::mutex mutex_;
  Entries entries_;  // the oldest first
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
