// Sessions in a Redis server that several workers share, so that any of them can go on with any conversation.
//
// Each session is a hash "fulmar:{<fingerprint>}:session:<id>" with turn, tokens, updated, state and who
// wrote it; a sorted set "fulmar:{<fingerprint>}:sessions" lists them by time. A script compares turns on the
// server (compare-and-set): a worker that comes late never replaces what another has committed since. The
// hash "fulmar:sessions" says by which schema all that is laid out; one that is newer than ours is not
// touched.
#pragma once

#include <chrono>
#include <memory>

#include "cache/redis_link.h"
#include "cache/session_store.h"

namespace fulmar {

struct RedisStoreOptions {
  RedisAddress address;
  std::chrono::milliseconds time_to_live{0};  // since a session's last turn; 0: for ever
  int64_t most_bytes = 0;                     // of a model's states, see SqliteOptions; 0: no bound
};

// Returns a store that connects at its first use. A lost connection is an unavailable Error of that call;
// later calls connect again.
std::unique_ptr<SessionStore> redis_store(const RedisStoreOptions& options);
// Checks that the server answers and accepts the password (else unavailable), and holds nothing of a newer
// schema (else unsupported).
Status check_redis(const RedisAddress& address);

}  // namespace fulmar
