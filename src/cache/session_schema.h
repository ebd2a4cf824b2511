// The tables that hold sessions, and the upgrade of older files.
#pragma once

#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

// What a program has to know to go on with a database. 1: no owners. 2: a session's id says whose it is
// (session_name.h), and the column `owner` reads it out of there; an index by age. 3: states lie in a table
// of their own, so that only who wants one reads it, and go with their sessions' rows; `owner` says on whose
// account a session is kept, which not every id tells.
inline constexpr int kSessionSchema = 3;

// Makes missing tables, and upgrades those of an older schema, all or nothing, after copying
// the file to "<path>.schema-<N>". Errors: a newer schema, a damaged file; nothing is changed
// then.
Status prepare_sessions(const Database& database, const std::filesystem::path& path);

}  // namespace fulmar
