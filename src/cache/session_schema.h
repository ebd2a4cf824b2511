// The tables that hold sessions, and the upgrade of older files.
#pragma once

#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

// What a program has to know to go on with a database. 1: no owners. 2: a session's id says whose it is
// (session_name.h), and the column `owner` reads it out of there; an index by age.
inline constexpr int kSessionSchema = 2;

// Makes missing tables, and upgrades those of an older schema, all or nothing, after copying
// the file to "<path>.schema-<N>". Errors: a newer schema, a damaged file; nothing is changed
// then.
Status prepare_sessions(const Database& database, const std::filesystem::path& path);

}  // namespace fulmar
