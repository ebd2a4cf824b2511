// The answers of /v1/responses that may be asked for again. Each belongs to a session of the engine that
// holds the state after it.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The engine's session of a response.
inline std::string response_session(std::string_view id) { return "resp:" + std::string(id); }

// Thread-safe; bounded in number and age.
class ResponseStore {
 public:
  static constexpr size_t kMost = 10'000;
  static constexpr int64_t kSeconds = 24 * 3600;

  void put(StoredResponse response);
  std::optional<StoredResponse> find(std::string_view id) const;
  std::optional<StoredResponse> take(std::string_view id);
  // Removes and returns what is too old at `now`, and the oldest beyond kMost.
  std::vector<StoredResponse> take_expired(int64_t now);

 private:
  mutable std::mutex mutex_;
  std::list<StoredResponse> responses_;  // the oldest first
};

}  // namespace fulmar
