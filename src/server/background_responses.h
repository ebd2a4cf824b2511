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

// Thread-safe. Those that wait or run, of which each owner may have so many, and all together; how one ended
// is found in the ResponseStore.
class BackgroundResponses {
 public:
  static constexpr size_t kMostOfOwner = 256;
  static constexpr size_t kMost = 1024;
  enum class Stage : uint8_t { unknown, waits, runs };
  enum class Start : uint8_t { begun, owner_has_many, all_have_many };
  // Told how a response ended; null: it was deleted, or refused.
  using Then = std::function<void(const std::string* json)>;
  // Writes the present answer of one that runs.
  using Pending = std::function<std::string()>;

  // One that a server before has left: it waits, here for its model, and clients find it meanwhile.
  void wait(const std::string& id, const std::string& owner);
  // A new one runs.
  Start start(const std::string& id, const std::string& owner, ServedModelPtr model, Pending pending);
  // One that waits runs. False where none of that id waits: it was deleted or cancelled.
  bool begin(const std::string& id, ServedModelPtr model, Pending pending);
  // One that runs waits again. False where a client has cancelled or deleted it.
  bool put_back(const std::string& id);
  // One is over, and stored where it is to be found. False where it was deleted.
  bool finish(const std::string& id, const std::string& json);
  void forget(const std::string& id);

  // A client no longer wants it: the engine's row is cancelled, also where it is handed over only now
  // (`wanted`). Returns `waits` to the first caller alone, who is to end one that waits.
  Stage cancel(const std::string& id);
  // The server ends: cancels all that run, to be made by the next one.
  void interrupt_all();
  // False for one that a client has cancelled or deleted.
  bool wanted(const std::string& id) const;
  // Whether its row was cancelled by the server's end, before any client did.
  bool interrupted(const std::string& id) const;

  Stage stage(const std::string& id) const;
  // The present answer of one that runs; nothing for others.
  std::optional<std::string> find(const std::string& id) const;
  // Calls `then` once it is over. False where there is none of that id.
  bool when_over(const std::string& id, Then then);

 private:
  struct Entry {
    std::string id, owner;
    Stage stage = Stage::waits;
    ServedModelPtr model{};  // this and `pending` of one that runs
    Pending pending{};
    bool cancelled = false;    // by a client
    bool interrupted = false;  // by the server's end
    std::vector<Then> waiting{};
  };
  using Entries = std::list<Entry>;
  Entries::iterator entry_of(const std::string& id);
  Entries::const_iterator entry_of(const std::string& id) const;
  std::optional<Entry> remove(const std::string& id);

  mutable std::mutex mutex_;
  Entries entries_;  // the oldest first
};

// What a response in the background goes on to use of its client's key.
struct KeyShare {
  std::shared_ptr<KeyAccount> account;  // null: no account
  RowLease rows;
};

// What is told of a row that is gathered.
struct GatheringEnds {
  std::function<void()> admitted;  // it runs from now on
  std::function<void(std::string json, bool cancelled)> done;
};

// Gathers the only row of a request and hands the whole answer of `writer` to `ends`, or what it writes of a
// failure.
std::shared_ptr<Listener> gathering_listener(std::unique_ptr<Writer> writer,
                                             std::optional<ReasoningMode> split, GatheringEnds ends,
                                             KeyShare share = {});

}  // namespace fulmar
