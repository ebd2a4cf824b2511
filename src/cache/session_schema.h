// The tables in which sessions lie, and how an older file's become these.
#pragma once

#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

// What a program has to know to go on with a database. 1: no owners. 2: a session's id says whose it is
// (session_name.h), and the column `owner` reads it out of there; an index by age.
inline constexpr int kSessionSchema = 2;

// Makes the tables where there are none, and brings those of an older schema up to this one, all or nothing:
// first the file is copied beside, as "<path>.schema-<N>". A newer schema, and a file that is damaged, is an
// Error; nothing is changed then.
Status prepare_sessions(const Database& database, const std::filesystem::path& path);

}  // namespace fulmar
