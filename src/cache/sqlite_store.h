// Sessions in one SQLite file: WAL, a schema version, one row per model and session with a checksummed blob.
#pragma once

#include <filesystem>
#include <memory>

#include "cache/session_store.h"

namespace fulmar {

// Opens or creates the file (for its owner's eyes only), and locks it for as long as the store lives: a store
// that another process has open is an Error of kind unavailable. A file of another program is left alone
// except for our own tables (their names begin with fulmar_). An unreadable or damaged file, or a schema from
// the future, is an Error; nothing is changed then.
Result<std::unique_ptr<SessionStore>> open_sqlite_store(const std::filesystem::path& path);

}  // namespace fulmar
