// The tables that hold documents, and the upgrade of older files.
#pragma once

#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

// 1: one table with the texts in it; the label is called owner. 2: texts in separate pieces, documents with
// owner, label, mark and bytes.
inline constexpr int kDocumentSchema = 2;

// Makes missing tables, and upgrades those of an older schema, all or nothing, after
// copying the file to "<path>.schema-<N>". Error: a newer schema; nothing is changed
// then.
Status prepare_documents(const Database& database, const std::filesystem::path& path);

}  // namespace fulmar
