// Sessions in one SQLite file: WAL, a schema version, one row per model and session with a checksummed blob.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "cache/database_clock.h"
#include "cache/session_store.h"

namespace fulmar {

// Returns the free bytes of the disk that has the file; the largest number where that is unknown.
uint64_t room_beside(const std::filesystem::path& file);

struct SqliteOptions {
  int64_t most_bytes = 0;  // of all sessions together; beyond, who has most gives up the oldest; 0: no bound
  double lifetime = 0;     // seconds since a session's last turn; 0: for ever
  bool durable = false;    // what is stored outlives a power failure, too
  Clocks clocks = {};
  std::function<uint64_t(const std::filesystem::path&)> room = room_beside;
};

// Opens or creates the file, readable by its owner alone, and locks it for as long as the store
// lives. A file of an older schema is upgraded (session_schema.h). Errors: unavailable, another
// process has the file open; and for an unreadable or damaged file, a newer schema or a file of another
// kind (database_kind.h), after which nothing is changed. While the file has lost its name, nothing is
// stored in it or erased.
//
// Ages are those of a believed time (base/believed_time.h): a jump of the wall clock erases
// nothing.
Result<std::unique_ptr<SessionStore>> open_sqlite_store(const std::filesystem::path& path,
                                                        const SqliteOptions& options = {});

}  // namespace fulmar
