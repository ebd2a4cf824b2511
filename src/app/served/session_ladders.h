// The session ladders of one process: one for each model's weights, however often they are loaded, all on one
// store. Whatever one engine has committed, the next one on the same weights goes on with.
#pragma once

#include <atomic>
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
  bool session_db_asked_for = false;  // by name: it is not to be done without because another server has it
  std::string state_store;            // URL of a store that workers share, in place of the file
  std::optional<double> ttl_days;     // since a session's last turn; 0: for ever, as in a file if not said
  double max_gib = 0;                 // of all sessions of the store; 0: no bound
  int64_t queue_mib = 1024;           // of turns that wait for the store
  double flush_seconds = 2;
  bool durable = false;  // answers wait until their turns are stored
};

// Says which options contradict each other. `store_of_environment`: nobody named the store on the command
// line, and it takes the place of the file.
Status check_sessions(const SessionFlags& flags, bool store_of_environment);

class SessionLadders {
 public:
  // Opens the store. An Error is what a person has to decide: a URL that means nothing, a database that was
  // asked for and cannot be used, and any that exists and cannot be used, since there are sessions in it. One
  // that cannot be made, or that another server has, is logged, and sessions live in memory then.
  static Result<std::unique_ptr<SessionLadders>> open(const SessionFlags& flags);

  // Returns the ladder of a model's weights, which lives as long as somebody holds it. `host_sessions`: kept
  // in host memory, where it is made anew. One call at a time.
  std::shared_ptr<SessionLadder> of(const std::string& fingerprint, int64_t host_sessions);

  // Erases from the file, whatever model's, what no ladder has: the states of models that are not loaded.
  // From any thread. A store that workers share lets go of them by their age.
  Status erase_of_all_models(const std::string& id) const;

  // Why sessions live in memory only though a file was wanted for them; empty: they do not.
  const std::string& in_memory() const { return in_memory_; }

  // Turns and erasures that ladders could not bring to the store before they ended.
  int64_t lost() const { return *lost_; }

 private:
  using OpenStore = std::function<std::unique_ptr<SessionStore>()>;
  SessionLadders(const SessionFlags& flags, OpenStore open_store);

  LadderOptions options_;       // but for host_capacity
  const OpenStore open_store_;  // another door to the same store; null: there is none
  const std::shared_ptr<std::atomic<int64_t>> lost_ = std::make_shared<std::atomic<int64_t>>(0);
  std::string in_memory_;
  std::map<std::string, std::weak_ptr<SessionLadder>> ladders_;
};

}  // namespace fulmar
