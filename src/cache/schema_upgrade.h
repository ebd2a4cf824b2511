// What bringing a database up to a newer schema consists of, whatever its tables hold.
#pragma once

#include <filesystem>
#include <string>

#include "cache/sqlite_statement.h"

namespace fulmar {

Result<bool> has_table(const Database& database, const std::string& name);
// Returns the number of the file's schema, 0 where fulmar_meta has none.
Result<int64_t> schema_of(const Database& database);

// Runs the statements as one transaction; what fails leaves everything as it was.
Status all_or_nothing(const Database& database, const std::string& sql);

// Brings the file of the schema `from` up by the statements, all or nothing, behind a copy of it at
// "<path>.schema-<from>"; the name is given to a copy that is whole. Returns the copy's path. What fails is
// `unsupported` or `corrupt`: what lies there is not to be done without, and stays as it was.
Result<std::filesystem::path> bring_up(const Database& database, const std::filesystem::path& path,
                                       int64_t from, const std::string& sql);

}  // namespace fulmar
