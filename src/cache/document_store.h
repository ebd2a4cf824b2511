// Texts by id, each of some owner: tables in a SQLite file of their own, or in memory. Thread-safe: no call
// waits longer for another than a piece of a text takes, however large that is.
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
  std::string label = {};  // what whoever stores it wants to know of it without its text
  bool lasting = false;    // stays until it is taken, whatever its age
  int64_t mark = 0;        // a number that can be changed without the text
};

// Of texts.
struct DocumentBytes {
  int64_t lasting = 0;
  int64_t passing = 0;  // of those that age or other texts of their owner may push out

  int64_t sum() const { return lasting + passing; }
};

class DocumentStore {
 public:
  virtual ~DocumentStore() = default;

  // An equal id is replaced, once the new text is there as a whole.
  virtual Status put(const Document& document) = 0;
  virtual Result<std::optional<Document>> find(const std::string& id) = 0;
  // Removes it and returns it without its text; nothing when there is none.
  virtual Result<std::optional<Document>> take(const std::string& id) = 0;
  // Changes the mark of a document; nothing happens where there is none.
  virtual Status set_mark(const std::string& id, int64_t mark) = 0;

  // Those that last, without their texts, the oldest first.
  virtual Result<std::vector<Document>> lasting() = 0;
  // Removes what was created before `since` and does not last. Returns it without texts, the oldest first.
  virtual Result<std::vector<Document>> take_older(int64_t since) = 0;
  // Removes of an owner's documents that do not last the oldest, as many as hold `bytes` together, or all.
  // Returns them as take_older does.
  virtual Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) = 0;

  virtual DocumentBytes bytes_of(const std::string& owner) = 0;
  virtual int64_t bytes() = 0;  // of all
  // Returns an Error where nobody will find what is stored, once this ends; nothing is stored or removed
  // then.
  virtual Status standing() { return {}; }
  // Returns how many documents lie so.
  virtual int64_t lost() { return 0; }
  // The time that documents are to be created and judged by, unix seconds: no jump of the wall clock moves it
  // far (base/believed_time.h).
  virtual int64_t now() = 0;
};

struct DocumentOptions {
  double lifetime = 0;   // seconds that documents live
  bool durable = false;  // what is stored outlives a power failure, too
  Clocks clocks = {};    // of a test
};

// Opens or creates the file, readable by its owner alone; an empty path means memory. A file that is damaged,
// that another process has open, or that a newer version has made is an Error and stays as it is.
Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path,
                                                           const DocumentOptions& options = {});

}  // namespace fulmar
