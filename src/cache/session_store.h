// Where sessions outlive the process. One small interface; SQLite is the default behind it.
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

// Which sessions a list tells of: in the order of their ids, byte by byte, those that begin with `prefix` and
// come after `after`, at most `limit` of them.
struct SessionQuery {
  std::string prefix;
  std::string after;
  int64_t limit = std::numeric_limits<int64_t>::max();

  bool covers(const std::string& id) const { return id.starts_with(prefix) && id > after; }
};

// A session's newest state on its way to the store.
struct SessionWrite {
  std::string id;
  std::shared_ptr<const StateBlob> blob;
};

// Called from one thread at a time. Sessions of other models (another fingerprint) are invisible, not lost.
// Ids are whole names (session_name.h).
class SessionStore {
 public:
  virtual ~SessionStore() = default;
  // Nothing when there is none; a corrupt row is an Error and is never used.
  virtual Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) = 0;
  // Returns of each write how it fared, in their order: true, it is stored; false, it is refused, because
  // somebody else has committed that turn or a later one; an Error, it is not stored, others may be.
  virtual std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) = 0;
  // Returns how many went; `and_branches` also takes every id that starts with "<id>:". A store of our own
  // takes an empty `fingerprint` for every model's.
  virtual Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) = 0;
  // True when other processes may commit sessions there, too: then a turn counts once it is stored, and a
  // copy in memory may be out of date.
  virtual bool shared() const { return false; }
  // The turn that is stored, 0 when there is none.
  virtual Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) = 0;
  virtual Result<std::vector<StoredSession>> list(const std::string& fingerprint,
                                                  const SessionQuery& query) = 0;
  // Removes what is older than the store keeps sessions and, the oldest first, what is beyond its bound in
  // bytes: some of it, so that others need not wait long. Returns what went of this model's since the last
  // call, also in store().
  virtual Result<std::vector<StoredSession>> sweep(const std::string& /*fingerprint*/) {
    return std::vector<StoredSession>();
  }
  // Returns how many of this model's sessions lie where nobody will find them once this store ends.
  virtual int64_t lost(const std::string& /*fingerprint*/) { return 0; }
  // Lets the next call reach the store at once, even where one before has waited for it in vain.
  virtual void try_at_once() {}
};

}  // namespace fulmar
