// The store in which sessions outlive the process. A small interface; SQLite is the default.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/state_blob.h"

namespace fulmar {

struct StoredSession {
  std::string id;
  double updated = 0;  // unix seconds
  int64_t tokens = 0;
  int64_t turn = 0;
};

// Selects sessions to list: in the order of their ids, byte by byte, those that begin with `prefix` and come
// after `after`, at most `limit` of them.
struct SessionQuery {
  std::string prefix;
  std::string after;
  int64_t limit = std::numeric_limits<int64_t>::max();

  bool covers(const std::string& id) const { return id.starts_with(prefix) && id > after; }
};

// A session's newest state to be written to the store.
struct SessionWrite {
  std::string id;
  std::shared_ptr<const StateBlob> blob;
  std::string owner = {};  // on whose account the session is kept
};

// Called from one thread at a time. Sessions of other models (another fingerprint) are invisible, not lost.
// Ids are whole names (session_name.h).
class SessionStore {
 public:
  virtual ~SessionStore() = default;
  // Reads a session; nothing when there is none. A corrupt row is an Error and is never used.
  virtual Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) = 0;
  // Writes sessions. Returns the result of each write, in order: true, it is stored; false, it is refused,
  // because somebody else has committed that turn or a later one; an Error, it is not stored, others may be.
  virtual std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) = 0;
  // Erases a session and returns how many went; `and_branches` also takes every id that starts with "<id>:".
  // A store of our own takes an empty `fingerprint` for every model's.
  virtual Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) = 0;
  // Returns whether other processes may commit sessions there, too: then a turn counts only once it is
  // stored, and a copy in memory may be out of date.
  virtual bool shared() const { return false; }
  // Returns the turn that is stored, 0 when there is none.
  virtual Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) = 0;
  virtual Result<std::vector<StoredSession>> list(const std::string& fingerprint,
                                                  const SessionQuery& query) = 0;
  // Removes sessions that are older than the store keeps them and, oldest first, those beyond its bound in
  // bytes: a part of them at a time, so that others need not wait long. Returns this model's sessions removed
  // since the last call, also by store().
  virtual Result<std::vector<StoredSession>> sweep(const std::string& /*fingerprint*/) {
    return std::vector<StoredSession>();
  }
  // Returns how many of this model's sessions will be lost when this store ends, since nobody can find them.
  virtual int64_t lost(const std::string& /*fingerprint*/) { return 0; }
  // Lets the next call try the store at once, even after one that has waited for it in vain.
  virtual void try_at_once() {}
};

}  // namespace fulmar
