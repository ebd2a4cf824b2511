// The answers of /v1/responses that may be asked for again. Each belongs to a session of the engine that
// holds the state after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/job_thread.h"
#include "cache/document_store.h"

namespace fulmar {

struct StoredResponse {
  std::string id;
  std::string model;  // id of the model
  std::string json;   // the whole answer
  int64_t created = 0;
  std::string tools = {};               // the functions that the state has been told of
  std::string input = "[]";             // what it was asked with: a JSON array of items
  std::vector<std::string> calls = {};  // ids of the calls in the answer, to be answered in the next turn
};

// A response that is made in the background, as it can be begun again by another process.
struct ResponseJob {
  std::string id;       // of the response
  std::string request;  // the body it was asked with, as JSON
  std::string answer;   // what clients are told until it has begun
  int64_t created = 0;
  int64_t attempts = 0;  // how often it was begun
};

// The engine's session of a response.
inline std::string response_session(std::string_view id) { return "resp:" + std::string(id); }

// Thread-safe; bounded in bytes and age. What is stored outlives the process where the documents do.
class ResponseStore {
 public:
  static constexpr int64_t kSeconds = 24 * 3600;
  static constexpr int64_t kMostBytes = int64_t{256} << 20;

  // Null: in memory.
  explicit ResponseStore(std::unique_ptr<DocumentStore> documents = nullptr);
  ~ResponseStore();  // stores what was put

  // Never waits for the documents: they are written on a thread of their own. A response that is larger than
  // all may be together, or that cannot be written, is logged and not there.
  void put(StoredResponse response);
  // Away with a job, behind what was put before.
  void drop_job(const std::string& id);
  // These wait for the documents.
  // Once it returns the job outlives the process; it takes the place of one of the same id.
  Status put_job(const ResponseJob& job);
  std::vector<ResponseJob> jobs();
  std::optional<StoredResponse> find(const std::string& id);
  // Removes it; without its json, tools, input and calls.
  std::optional<StoredResponse> take(const std::string& id);
  // Removes and returns what is too old, and the oldest beyond kMostBytes; as take() does.
  std::vector<StoredResponse> take_expired();

 private:
  void write(const std::string& id);
  void write_locked(const std::string& id);

  const std::unique_ptr<DocumentStore> documents_;
  std::mutex writing_;  // held while a document is written or removed; before waiting_mutex_
  std::mutex waiting_mutex_;
  std::map<std::string, StoredResponse> waiting_;  // put, not yet written
  size_t waiting_bytes_ = 0;
  JobThread writer_{"responses", 0};  // last: it uses everything above
};

}  // namespace fulmar
