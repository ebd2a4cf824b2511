// What a database was made for. Each store looks before it changes anything, so that no file holds the tables
// of two.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

enum class DatabaseKind : uint8_t { sessions, responses };

// Checks that a database holds nothing yet, or what `wanted` keeps and no other kind does. Changes nothing.
// Error unsupported, which names the file, the kind found and the kind wanted: it is another store's, or
// another program's.
Status check_kind(const Database& database, const std::filesystem::path& path, DatabaseKind wanted);

}  // namespace fulmar
