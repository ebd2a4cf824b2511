// Where sessions outlive the process. One small interface; SQLite is the default behind it.
#pragma once

#include <cstdint>
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

// A session's newest state on its way to the store.
struct SessionWrite {
  std::string id;
  std::shared_ptr<const StateBlob> blob;
};

// Called from one thread at a time. Sessions of other models (another fingerprint) are invisible, not lost.
class SessionStore {
 public:
  virtual ~SessionStore() = default;
  // Nothing when there is none; a corrupt row is an Error and is never used.
  virtual Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) = 0;
  // All in one transaction. A turn replaces older ones only; returned are the ids whose turn was refused
  // because somebody else has committed that turn or a later one.
  virtual Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) = 0;
  // Returns how many went; `and_branches` also takes every id that starts with "<id>:".
  virtual Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) = 0;
  // True when other processes may commit sessions there, too: then a turn counts once it is stored, and a
  // copy in memory may be out of date.
  virtual bool shared() const { return false; }
  // The turn that is stored, 0 when there is none.
  virtual Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) = 0;
  // Newest first.
  virtual Result<std::vector<StoredSession>> list(const std::string& fingerprint) = 0;
};

}  // namespace fulmar
