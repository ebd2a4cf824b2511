// The tables in which documents lie, and how an older file's become these.
#pragma once

#include <filesystem>

#include "cache/sqlite_statement.h"

namespace fulmar {

// 1: one table, texts within it, and the label called owner. 2: texts in pieces of their own, facts with
// owner, label, mark and bytes.
inline constexpr int kDocumentSchema = 2;

// Makes the tables where there are none, and brings those of an older schema up to this one, all or nothing:
// first the file is copied beside, as "<path>.schema-<N>". A newer schema is an Error; nothing is changed
// then.
Status prepare_documents(const Database& database, const std::filesystem::path& path);

}  // namespace fulmar
