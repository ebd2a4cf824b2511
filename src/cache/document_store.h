// Texts by id, each with an owner: in a SQLite file of their own, or in memory. Thread-safe: a call waits for
// another call no longer than one piece of a text takes, however large the text is.
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
  std::string label = {};  // what its writer wants to know without its text
  bool lasting = false;    // stays until it is taken, whatever its age
  int64_t mark = 0;        // a number that can be changed without the text
};

// Bytes of texts.
struct DocumentBytes {
  int64_t lasting = 0;
  int64_t passing = 0;  // of those that age or other texts of their owner may push out

  int64_t sum() const { return lasting + passing; }
};

class DocumentStore {
 public:
  virtual ~DocumentStore() = default;

  // Stores a document. Replaces one with the same id, once the new text is stored completely.
  virtual Status put(const Document& document) = 0;
  virtual Result<std::optional<Document>> find(const std::string& id) = 0;
  // Removes a document and returns it without its text; nothing when there is none.
  virtual Result<std::optional<Document>> take(const std::string& id) = 0;
  // Changes the mark of a document; does nothing where there is none.
  virtual Status set_mark(const std::string& id, int64_t mark) = 0;

  // Returns the lasting documents without their texts, oldest first.
  virtual Result<std::vector<Document>> lasting() = 0;
  // Removes documents created before `since` that are not lasting. Returns them without texts, oldest first.
  virtual Result<std::vector<Document>> take_older(int64_t since) = 0;
  // Removes an owner's oldest documents that are not lasting, until they amount to `bytes`, or all of them.
  // Returns them as take_older does.
  virtual Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) = 0;

  virtual DocumentBytes bytes_of(const std::string& owner) = 0;
  virtual int64_t bytes() = 0;  // of all
  // Returns an Error if what is stored will be lost when this store ends; nothing is stored or removed
  // then.
  virtual Status standing() { return {}; }
  // Returns how many documents will be lost so.
  virtual int64_t lost() { return 0; }
  // Returns the time, in unix seconds, by which documents are to be created and judged: no jump of the wall
  // clock moves it far (base/believed_time.h).
  virtual int64_t now() = 0;
};

struct DocumentOptions {
  double lifetime = 0;   // seconds that documents live
  bool durable = false;  // what is stored outlives a power failure, too
  Clocks clocks = {};    // of a test
};

// Opens or creates the file, readable by its owner alone; an empty path means memory. Errors: the file is
// damaged, is open in another process, is of a newer version or of another kind; it is not changed then.
Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path,
                                                           const DocumentOptions& options = {});

}  // namespace fulmar
