// Responses that are made in the background: what clients see when they ask for one, and how one is
// cancelled.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/core/key_ring.h"
#include "server/models/served_model.h"
#include "server/responses/job_state.h"
#include "server/responses/response_store.h"

namespace fulmar {

// Thread-safe. The responses that wait or run, with a limit for each owner and for all together; ended ones
// are in the ResponseStore. next_step() decides what an event changes, and this class carries it out.
class BackgroundResponses {
 public:
  static constexpr size_t kMostOfOwner = 256;
  static constexpr size_t kMost = 1024;
  // Attempts after which a response is given up because servers crash while they make it. Only one response
  // runs its last attempt at a time, so that a crash counts against no other suspect.
  static constexpr int64_t kMostAttempts = 3;
  enum class Start : uint8_t { begun, owner_has_many, all_have_many };
  // Told how a response ended; null: it was deleted, or nothing could be written.
  using Then = std::function<void(const std::string* json)>;
  // Writes the present answer of one that runs.
  using Pending = std::function<std::string()>;

  // Keeps a reference: `answers` must outlive this.
  explicit BackgroundResponses(ResponseStore& answers) : answers_(answers) {}

  // Adds a response that an earlier server left unfinished after `attempts` attempts. It waits for its model;
  // clients can already look it up.
  void wait(const std::string& id, const std::string& owner, int64_t attempts);
  // Adds a new response and takes it up at once, as its first attempt.
  Start start(const std::string& id, const std::string& owner, ServedModelPtr model, Pending pending);
  // Takes up a response that waits. Returns its number of attempts, this one included; nothing when the id is
  // unknown or may not run now.
  std::optional<int64_t> take_up(const std::string& id);
  // Sets the model that makes a response that was taken up, and the function that writes its present answer.
  void show(const std::string& id, ServedModelPtr model, Pending pending);
  // Returns a response to the waiting ones, because there is no room for it now. `cancelled`: the answer to
  // store if its client has cancelled it meanwhile.
  void put_back(const std::string& id, std::optional<StoredResponse> cancelled);
  void hand_over(const std::string& id) { happen(id, JobEvent::hand_over); }
  // Ends a response with an answer. `cut`: its row was cancelled. Throws, with nothing changed, when the
  // answer cannot be stored.
  void end(const std::string& id, std::optional<StoredResponse> answer, bool cut);
  void lose(const std::string& id) { happen(id, JobEvent::lose); }
  void cancel(const std::string& id) { happen(id, JobEvent::cancel); }
  void remove(const std::string& id) { happen(id, JobEvent::remove); }
  // Cancels all that run, because the server ends; the next server makes them again.
  void interrupt_all();

  // Returns the ids of those that wait, the oldest first.
  std::vector<std::string> waiting() const;
  bool any_waits() const;
  int64_t begun() const;  // how many are made
  struct Look {
    JobState state;
    Pending pending;  // null: none yet
  };
  // Returns the state of a response; nothing when the id is unknown.
  std::optional<Look> look(const std::string& id) const;
  // Calls `then` once it is over. False where there is none of that id, or it was deleted.
  bool when_over(const std::string& id, Then then);

 private:
  struct RunningResponse {
    std::string id{}, owner{};
    JobState state{};
    int64_t attempts = 0;
    ServedModelPtr model{};  // this and `pending` of one that is made
    Pending pending{};
    std::vector<Then> then{};
  };
  using Entries = std::list<RunningResponse>;
  Entries::iterator entry_of(const std::string& id);
  Entries::const_iterator entry_of(const std::string& id) const;
  void happen(const std::string& id, JobEvent event, std::optional<StoredResponse> answer = {});

  ResponseStore& answers_;
  mutable std::mutex mutex_;
  Entries entries_;  // the oldest first
};

}  // namespace fulmar
