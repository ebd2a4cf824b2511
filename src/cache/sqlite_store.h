// Sessions in one SQLite file: WAL, a schema version, one row per model and session with a checksummed blob.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "cache/database_clock.h"
#include "cache/session_store.h"

namespace fulmar {

// Returns the bytes that may still be written where the file lies; as many as there can be when nobody knows.
uint64_t room_beside(const std::filesystem::path& file);

struct SqliteOptions {
  int64_t most_bytes = 0;  // of all sessions together; beyond, who has most gives up the oldest; 0: no bound
  double lifetime = 0;     // seconds since a session's last turn; 0: for ever
  bool durable = false;    // what is stored outlives a power failure, too
  Clocks clocks = {};
  std::function<uint64_t(const std::filesystem::path&)> room = room_beside;
};

// Opens or creates the file (for its owner's eyes only), and locks it for as long as the store lives: a store
// that another process has open is an Error of kind unavailable. A file of another program is left alone
// except for our own tables (their names begin with fulmar_). A file of an older schema is brought up to date
// (session_schema.h). An unreadable or damaged file, or a schema from the future, is an Error; nothing is
// changed then. Where the file loses its name, nothing is stored in it or erased any more until it has it
// again.
//
// Ages are those of a believed time (base/believed_time.h): a wall clock that jumps erases nothing.
Result<std::unique_ptr<SessionStore>> open_sqlite_store(const std::filesystem::path& path,
                                                        const SqliteOptions& options = {});

}  // namespace fulmar
