// The steps of upgrading a database to a newer schema, whatever its tables hold.
#pragma once

#include <filesystem>
#include <string>

#include "cache/sqlite_statement.h"

namespace fulmar {

Result<bool> has_table(const Database& database, const std::string& name);
// Returns the number of the file's schema, 0 if fulmar_meta has none.
Result<int64_t> schema_of(const Database& database);

// Runs the statements as one transaction; a failure leaves everything as it was.
Status all_or_nothing(const Database& database, const std::string& sql);

// Upgrades the file from schema `from` by the statements, all or nothing, after copying it to
// "<path>.schema-<from>" (only whole copies get that name). Returns the copy's path. Errors: unsupported or
// corrupt; the file stays as it was and the caller must stop, not go on without the data.
Result<std::filesystem::path> bring_up(const Database& database, const std::filesystem::path& path,
                                       int64_t from, const std::string& sql);

}  // namespace fulmar
