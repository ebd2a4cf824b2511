// The one thread that talks to a SessionStore. Newest state per session only; what is on its way can still be
// read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/session_store.h"

namespace fulmar {

class StoreWriter {
 public:
  StoreWriter(std::unique_ptr<SessionStore> store, std::string fingerprint);
  ~StoreWriter();  // writes what is queued, then stops

  // Queues a session's newest state; an older one still queued is dropped. Never blocks on the store.
  void put(SessionWrite write);
  // What is queued, or else stored. Blocks on the store.
  Result<std::optional<StateBlob>> load(const std::string& id);
  // The turn that another process may have stored: 0 unless the store is shared. Blocks on the store.
  Result<int64_t> newest_turn(const std::string& id);
  Result<int64_t> erase(const std::string& id, bool and_branches);
  Result<std::vector<StoredSession>> list();
  // Waits until everything queued so far was tried.
  void flush();

  int64_t failures() const { return failures_; }

 private:
  void run();

  const std::unique_ptr<SessionStore> store_;
  const std::string fingerprint_;
  std::mutex store_mutex_;  // the store is used by one thread at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<const StateBlob>> queued_;   // waiting
  std::map<std::string, std::shared_ptr<const StateBlob>> writing_;  // in the transaction under way
  bool stopping_ = false;
  std::atomic<int64_t> failures_ = 0;
  std::thread thread_;
};

}  // namespace fulmar
