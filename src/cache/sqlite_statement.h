// SQLite's handles as owned objects, the opening of a private database, and one prepared statement. For the
// files of this folder that use SQLite. Errors name the database's file.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

// Makes a missing file, readable by its owner alone, since conversations are private. Failures are left for
// SQLite to report; the files that it puts beside a database get the same permissions.
void make_private(const std::string& path);

// Opens the file, or makes it as above. An empty path is a database in memory.
Result<Database> open_database(const std::filesystem::path& path);

// Runs one or several statements without values or rows.
Status execute(const Database& database, const char* sql);

// Turns on write-ahead logging (WAL). `durable`: what was committed survives a power failure, too.
Status write_ahead(const Database& database, bool durable);

// Checks that the open file still has the name by which it was opened. Error unavailable: it was removed or
// moved, or another took its place, so that nobody will find what is written to it.
Status check_named(const Database& database);

// Returns SQLite's last failure: corrupt where its status says that the file is not what it should be,
// resource where the disk is full, io otherwise.
Error database_error(sqlite3* database, int status);

// The first failure is kept and returned by next() and run().
class Statement {
 public:
  Statement(const Database& database, const char* sql) : database_(database.get()) {
    sqlite3_stmt* prepared = nullptr;
    status_ = sqlite3_prepare_v2(database_, sql, -1, &prepared, nullptr);
    statement_.reset(prepared);
  }
  Statement& text(int index, std::string_view value) {
    return note(sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT,
                                    SQLITE_UTF8));
  }
  Statement& integer(int index, int64_t value) {
    return note(sqlite3_bind_int64(statement_.get(), index, value));
  }
  Statement& real(int index, double value) {
    return note(sqlite3_bind_double(statement_.get(), index, value));
  }
  // Binds bytes; `value` must live until the statement has run.
  Statement& blob(int index, std::span<const std::byte> value) {
    return note(sqlite3_bind_blob64(statement_.get(), index, value.data(), value.size(), SQLITE_STATIC));
  }

  // Moves to the next row. Returns whether there is one.
  Result<bool> next() {
    if (status_ == SQLITE_OK) {
      const int stepped = sqlite3_step(statement_.get());
      if (stepped == SQLITE_ROW) return true;
      if (stepped == SQLITE_DONE) return false;
      status_ = stepped;
    }
    return database_error(database_, status_);
  }
  Status run() {
    FULMAR_ASSIGN(bool more, next());
    while (more) {
      FULMAR_ASSIGN(more, next());
    }
    return {};
  }

  std::string column_text(int index) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), index));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), index)));
  }
  int64_t column_integer(int index) const { return sqlite3_column_int64(statement_.get(), index); }
  double column_real(int index) const { return sqlite3_column_double(statement_.get(), index); }
  std::span<const std::byte> column_blob(int index) const {
    const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), index));
    return {data, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), index))};
  }

 private:
  Statement& note(int status) {
    if (status_ == SQLITE_OK) status_ = status;
    return *this;
  }

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
  int status_ = SQLITE_OK;
};

}  // namespace fulmar
