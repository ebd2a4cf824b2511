// What lies where a database is wanted. Knows no SQLite.
#pragma once

#include <filesystem>

namespace fulmar {

// Tells whether something lies under that name, or nobody can say. An empty file is nothing: it is what is
// left where one was made and there was no room for more.
bool may_hold_something(const std::filesystem::path& path);

}  // namespace fulmar
