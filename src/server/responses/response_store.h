// The stored answers of /v1/responses, which clients may ask for again, and the responses to be made in the
// background. Each answer belongs to a session of the engine that holds the state after it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/job_thread.h"
#include "base/thread.h"
#include "cache/document_store.h"
#include "server/core/errors.h"
#include "server/responses/response_room.h"

namespace fulmar {

struct StoredResponse {
  std::string id;
  std::string model;  // id of the model
  std::string json;   // the whole answer
  int64_t created = 0;
  std::string tools = {};               // the functions that the state has been told of
  std::string input = "[]";             // what it was asked with: a JSON array of items
  std::vector<std::string> calls = {};  // ids of the calls in the answer, to be answered in the next turn
  std::string owner = {};               // whose room it takes
  std::string adapter = {};             // AdapterUse::identity of its state; empty: the base model
  std::string cut = {};                 // how it ended that left no state to go on from; empty: it left one
  PromisedRoomPtr room = {};            // given back once it is written
};

// A response that is made in the background, as it can be begun again by another process.
struct ResponseJob {
  std::string id;       // of the response
  std::string request;  // the body it was asked with, as JSON
  std::string answer;   // what clients get until it has begun
  int64_t created = 0;
  int64_t attempts = 0;  // how often it ran when a server ended without a word
  std::string owner = {};
  bool readable = true;  // without what is stored of it: no request, no answer
};

struct ResponseBounds {
  RoomBounds stored;     // bytes of answers and jobs
  RoomBounds under_way;  // bytes in memory of responses that are made or wait to be written
};

// Thread-safe. What is stored outlives the process where the documents do. An answer goes when it is old,
// when its owner's newer ones take its room, or when it is taken; a job goes once its answer is stored, or
// when it is dropped.
class ResponseStore {
 public:
  static constexpr int64_t kSeconds = 24 * 3600;
  static constexpr int64_t kMiB = int64_t{1} << 20;
  static constexpr ResponseBounds kInFile = {{256 * kMiB, 1024 * kMiB}, {128 * kMiB, 512 * kMiB}};
  static constexpr ResponseBounds kInMemory = {{128 * kMiB, 256 * kMiB}, {128 * kMiB, 256 * kMiB}};

  // Pause between two attempts to write answers that failed before.
  static constexpr std::chrono::milliseconds kRetry{1000};

  // Starts the writing thread. `documents` null: in memory. `bounds`, `retry`: set by tests only.
  explicit ResponseStore(std::unique_ptr<DocumentStore> documents = nullptr,
                         std::optional<ResponseBounds> bounds = {}, std::chrono::milliseconds retry = kRetry);
  // Stores what was put. What fails then is tried once more, and each `retry` until try_until()'s time.
  ~ResponseStore();
  using Clock = std::chrono::steady_clock;
  // Sets how long the end tries what cannot be written.
  void try_until(Clock::time_point give_up);

  // Reserves about `bytes` for an owner's answer, or says why there is no room.
  std::optional<ApiError> promise(const std::string& owner, int64_t bytes, PromisedRoomPtr& room);
  // Reserves them for a response that was accepted before: they count, but no bound applies.
  PromisedRoomPtr promise_again(const std::string& owner, int64_t bytes);

  // Stores an answer without waiting and never refuses it: a thread writes it and retries failed ones, one
  // each `retry`. Ends the job of the same id once the answer is stored.
  void put(StoredResponse response);
  // Calls `then` once what was put under that id has been tried to write: whether it is written. At once
  // where nothing of that id waits for its first try, else on the thread that writes.
  using Tried = std::function<void(bool written)>;
  void when_tried(const std::string& id, Tried then);
  // Notes how often a job was begun, without waiting.
  void note_attempts(const std::string& id, int64_t attempts);

  // Records how often a job was begun, after all earlier notes; once it has returned true, the record
  // outlives the process. Waits for the store, as the next ones do, but not for answers that are yet to be
  // written.
  bool count_attempt(const std::string& id, int64_t attempts);
  // Stores a job. Once it has returned nothing, the job outlives the process; otherwise returns why it is
  // refused.
  std::optional<ApiError> put_job(const ResponseJob& job);
  // Stores the answer of a job that was not made, and ends the job; where that fails both are as before.
  Status end_job(const StoredResponse& answer);
  Status drop_job(const std::string& id);
  // Lists the jobs with their ids, owners and attempts, the oldest first. An Error when the store fails.
  Result<std::vector<ResponseJob>> jobs();
  // Finds a job; one with a damaged text comes without request and answer. An Error when the store fails.
  Result<std::optional<ResponseJob>> find_job(const std::string& id);
  // Finds an answer. An Error when the store fails, so that it may or may not be there.
  Result<std::optional<StoredResponse>> find(const std::string& id);
  // Removes it; without its json, tools, input and calls. Waits for a write of it that has begun, which would
  // bring it back.
  Result<std::optional<StoredResponse>> take(const std::string& id);
  // Has take_expired() return an id whose state is yet to be erased.
  void forget_later(const std::string& id);
  // Returns what is too old, and what its owner's newer ones have pushed out since; as take() does.
  std::vector<StoredResponse> take_expired();
  // Returns why the documents fail; nothing where they work.
  std::string trouble();
  // Sets a function that is called at the end with the number of answers that could not be stored, if any.
  void on_lost(std::function<void(int64_t)> lost);
  // Waits until all that was put has been tried to write.
  void settle();

 private:
  struct Waiting {
    std::shared_ptr<const StoredResponse> response;
    uint64_t number = 0;  // tells it from another of the same id; the smallest is written first
    bool failed = false;  // could not be written
    std::shared_ptr<std::vector<Tried>> told = std::make_shared<std::vector<Tried>>();
  };
  using WaitingById = std::map<std::string, Waiting>;

  void keep_writing();
  WaitingById::const_iterator next_to_write(bool failed) const;
  void write_all();
  bool write(const std::string& id);
  bool try_to_write(const std::string& id, const Waiting& before);
  void note(const Status& standing);
  void tell(std::vector<Tried>& told, bool written);
  bool write_one(const std::string& id, const Waiting& waits);
  std::optional<Waiting> waiting(const std::string& id);
  void make_room(const std::string& owner, int64_t more, int64_t newest);
  DocumentBytes held_by(const std::string& owner);
  int64_t held_by_others(const std::string& owner);
  bool mark(const std::string& id, int64_t attempts);
  void note_gone(std::vector<Document> gone);

  const ResponseBounds bounds_;
  const std::unique_ptr<DocumentStore> documents_;
  const std::shared_ptr<RoomLedger> promised_ = std::make_shared<RoomLedger>();
  std::mutex promising_;  // held from a decision about room until it is noted
  const std::chrono::milliseconds retry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  WaitingById waiting_;  // put, not yet written
  uint64_t last_number_ = 0;
  std::string writing_;  // id of what is written now; empty: nothing is
  bool closing_ = false;
  Clock::time_point give_up_at_{};
  std::string trouble_;
  std::function<void(int64_t)> lost_;
  std::vector<StoredResponse> gone_;  // pushed out, not yet told
  JobThread marks_{"attempts", 0};
  Thread writer_;  // last: it uses everything above
};

}  // namespace fulmar
