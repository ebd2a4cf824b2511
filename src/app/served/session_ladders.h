// The session ladders of one process: one for each model's weights, however often they are loaded, all on one
// store. The next engine on the same weights continues from what one has committed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cache/session_ladder.h"

namespace fulmar {

struct SessionFlags {
  std::string session_db = "rwkv_sessions.db";
  bool session_db_asked_for = false;  // by name: an error if another server has it
  std::string state_store;            // URL of a store that workers share, in place of the file
  std::optional<double> ttl_days;     // since a session's last turn; 0: for ever; nothing: the store's own
  double max_gib = 0;                 // of all sessions of the store; 0: no bound
  int64_t queue_mib = 1024;           // of turns that wait for the store
  double flush_seconds = 2;
  bool durable = false;  // answers wait until their turns are stored
};

// Fails for options that contradict each other. `store_of_environment`: the environment, not the command
// line, names the store; it replaces the file.
Status check_sessions(const SessionFlags& flags, bool store_of_environment);

class SessionLadders {
 public:
  // How long an ending server retries a store that does not answer.
  static constexpr std::chrono::seconds kLastTries{5};

  // Opens the store. Fails where a person has to decide: a URL without meaning, a database that was named and
  // cannot be used, and any that exists and cannot be used, since it holds sessions. One that cannot be made,
  // or that another server has, is logged, and sessions stay in memory.
  static Result<std::unique_ptr<SessionLadders>> open(const SessionFlags& flags);

  // Returns the ladder of a model's weights, which lives as long as any owner holds it. `host_sessions`: the
  // host tier's size where it is made anew. One call at a time.
  std::shared_ptr<SessionLadder> of(const std::string& fingerprint, int64_t host_sessions);

  // Erases from the file a session's states that no ladder has: those of models that are not loaded. From any
  // thread. A store that workers share drops sessions by their age.
  Status erase_of_all_models(const std::string& id) const;

  // Tells whether there is a store.
  bool stored() const { return open_store_ != nullptr; }

  // Returns why sessions stay in memory though a file was wanted for them; empty: they do not.
  const std::string& in_memory() const { return in_memory_; }

  // Returns how many turns and erasures ladders could not store before they ended.
  int64_t lost() const { return *lost_; }

 private:
  using OpenStore = std::function<std::unique_ptr<SessionStore>()>;
  SessionLadders(const SessionFlags& flags, OpenStore open_store);

  LadderOptions options_;       // without host_capacity
  const OpenStore open_store_;  // another connection to the same store; null: there is none
  const std::shared_ptr<std::atomic<int64_t>> lost_ = std::make_shared<std::atomic<int64_t>>(0);
  std::string in_memory_;
  std::map<std::string, std::weak_ptr<SessionLadder>> ladders_;
};

}  // namespace fulmar
