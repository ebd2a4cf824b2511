// Texts by id, each of some owner: a table in a SQLite file of its own, or in memory. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/database_clock.h"

namespace fulmar {

struct Document {
  std::string id;
  std::string owner;
  int64_t created = 0;  // unix seconds
  std::string text;
};

class DocumentStore {
 public:
  virtual ~DocumentStore() = default;

  // An equal id is replaced.
  virtual Status put(const Document& document) = 0;
  virtual Result<std::optional<Document>> find(const std::string& id) = 0;
  // All of an owner, the oldest first.
  virtual Result<std::vector<Document>> of_owner(const std::string& owner) = 0;
  // Removes it and returns it without its text; nothing when there is none.
  virtual Result<std::optional<Document>> take(const std::string& id) = 0;
  // Removes what was created before `since`, and then the oldest until the texts hold at most `most_bytes`
  // together, of a large bound up to an eighth less. Returns what went, without texts, the oldest first.
  // Quick where nothing has to go.
  virtual Result<std::vector<Document>> take_surplus(int64_t since, int64_t most_bytes) = 0;
  // The time that documents are to be created and judged by, unix seconds: no jump of the wall clock moves it
  // far (base/believed_time.h).
  virtual int64_t now() = 0;
};

// What documents that live so many seconds are judged by; `clocks` of a test.
struct DocumentOptions {
  double lifetime = 0;
  Clocks clocks = {};
};

// Opens or creates the file, readable by its owner alone; an empty path means memory. A file that is damaged,
// that another process has open, or that a newer version has made is an Error and stays as it is.
Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path,
                                                           const DocumentOptions& options = {});

}  // namespace fulmar
