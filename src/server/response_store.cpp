// Keeping and forgetting stored responses. Texts are written and read outside of every lock of this file.
#include "server/response_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/response_documents.h"

namespace fulmar {
namespace {

std::unique_ptr<DocumentStore> in_memory() {
  auto documents = open_document_store({}, {.lifetime = ResponseStore::kSeconds});
  FULMAR_CHECK(documents.ok());
  return std::move(*documents);
}

const ResponseBounds& bounds_of(const std::unique_ptr<DocumentStore>& documents) {
  return documents ? ResponseStore::kInFile : ResponseStore::kInMemory;
}

}  // namespace

ResponseStore::ResponseStore(std::unique_ptr<DocumentStore> documents, std::optional<ResponseBounds> bounds)
    : bounds_(bounds.value_or(bounds_of(documents))),
      documents_(documents ? std::move(documents) : in_memory()) {}

ResponseStore::~ResponseStore() {
  writer_.finish();
  marks_.finish();
  for (const std::string& id : std::exchange(failed_, {})) {
    if (!write_one(id)) spdlog::error("response lost, since it cannot be stored id={}", id);
  }
}

// ---- room

DocumentBytes ResponseStore::held_by(const std::string& owner) {
  DocumentBytes own = documents_->bytes_of(owner);
  own.lasting += promised_->held(owner).own;
  return own;
}

int64_t ResponseStore::held_by_others(const std::string& owner) {
  return documents_->bytes() + promised_->held(owner).all - held_by(owner).sum();
}

std::optional<ApiError> ResponseStore::promise(const std::string& owner, int64_t bytes,
                                               PromisedRoomPtr& room) {
  std::lock_guard lock(promising_);
  const RoomLedger::Held promised = promised_->held(owner);
  auto refused = refuse_more({.lasting = promised.own}, promised.all - promised.own, bytes, bounds_.under_way,
                             "Your responses under way");
  if (!refused) {
    refused = refuse_more(held_by(owner), held_by_others(owner), bytes, bounds_.stored,
                          "Your responses that have not ended");
  }
  if (!refused) room = promise_again(owner, bytes);
  return refused;
}

PromisedRoomPtr ResponseStore::promise_again(const std::string& owner, int64_t bytes) {
  return std::make_shared<const PromisedRoom>(promised_, owner, bytes);
}

// Of the owner's own, and none that is a job.
void ResponseStore::make_room(const std::string& owner, int64_t more) {
  const int64_t bytes = surplus(held_by(owner), held_by_others(owner), more, bounds_.stored);
  if (bytes == 0) return;
  auto gone = documents_->take_oldest(owner, bytes);
  if (!gone.ok()) return spdlog::error("old responses not removed: {}", gone.error().text);
  note_gone(std::move(*gone));
}

void ResponseStore::note_gone(std::vector<Document> gone) {
  std::lock_guard lock(mutex_);
  for (Document& document : gone) gone_.push_back(response_facts(std::move(document)));
}

// ---- answers

void ResponseStore::put(StoredResponse response) {
  const std::string id = response.id;
  auto shared = std::make_shared<const StoredResponse>(std::move(response));
  {
    std::lock_guard lock(mutex_);
    waiting_[id] = {std::move(shared), ++last_number_};
  }
  writer_.post([this, id] { write(id); });
}

std::optional<ResponseStore::Waiting> ResponseStore::waiting(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id);
  return found == waiting_.end() ? std::nullopt : std::optional<Waiting>(found->second);
}

// Where one can be written, so can perhaps one that could not be before.
void ResponseStore::write(std::string id) {
  while (write_one(id)) {
    std::lock_guard lock(mutex_);
    if (failed_.empty()) return;
    id = std::move(failed_.front());
    failed_.pop_front();
  }
  std::lock_guard lock(mutex_);
  if (std::find(failed_.begin(), failed_.end(), id) == failed_.end()) failed_.push_back(std::move(id));
}

// Returns false where it could not be written.
bool ResponseStore::write_one(const std::string& id) {
  const std::optional<Waiting> waits = waiting(id);
  if (!waits) return true;  // taken meanwhile
  const StoredResponse& response = *waits->response;
  Document document = document_of(response);
  document.created = documents_->now();
  const int64_t promised = response.room ? response.room->bytes() : 0;
  make_room(response.owner, static_cast<int64_t>(document.text.size()) - promised);
  if (const Status stored = documents_->put(document); !stored.ok()) {
    spdlog::error("response not stored yet id={}: {}", id, stored.error().text);
    return false;
  }
  bool taken = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(id);
    taken = found == waiting_.end();
    if (!taken && found->second.number == waits->number) waiting_.erase(found);
  }
  if (taken) (void)documents_->take(id);
  drop_job(id);
  return true;
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id) {
  if (is_job(id)) return std::nullopt;
  if (const std::optional<Waiting> waits = waiting(id)) return *waits->response;
  auto document = documents_->find(id);
  if (!document.ok()) spdlog::error("response not read id={}: {}", id, document.error().text);
  if (!document.ok() || !*document) return std::nullopt;
  return response_of(std::move(**document));
}

std::optional<StoredResponse> ResponseStore::take(const std::string& id) {
  if (is_job(id)) return std::nullopt;
  std::optional<StoredResponse> taken;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = waiting_.find(id); found != waiting_.end()) {
      const StoredResponse& response = *found->second.response;
      taken =
          StoredResponse{.id = response.id, .model = response.model, .json = {}, .created = response.created};
      taken->owner = response.owner;
      waiting_.erase(found);
    }
  }
  auto document = documents_->take(id);  // also one that is just being written
  if (!document.ok()) spdlog::error("response not removed id={}: {}", id, document.error().text);
  if (taken || !document.ok() || !*document) return taken;
  return response_facts(std::move(**document));
}

std::vector<StoredResponse> ResponseStore::take_expired() {
  auto old = documents_->take_older(documents_->now() - kSeconds);
  if (!old.ok()) spdlog::error("old responses not removed: {}", old.error().text);
  if (old.ok()) note_gone(std::move(*old));
  std::lock_guard lock(mutex_);
  if (!failed_.empty()) writer_.post([this, id = failed_.front()] { write(id); });
  return std::exchange(gone_, {});
}

void ResponseStore::settle() {
  std::promise<void> done;
  if (writer_.post([&] { done.set_value(); })) done.get_future().wait();
}

// ---- jobs

std::optional<ApiError> ResponseStore::put_job(const ResponseJob& job) {
  Document document = document_of(job);
  document.created = documents_->now();
  PromisedRoomPtr room;  // until it is stored
  {
    const auto bytes = static_cast<int64_t>(document.text.size());
    std::lock_guard lock(promising_);
    if (auto refused = refuse_more(held_by(job.owner), held_by_others(job.owner), bytes, bounds_.stored,
                                   "Your responses that have not ended")) {
      return refused;
    }
    room = promise_again(job.owner, bytes);
  }
  make_room(job.owner, 0);
  const Status stored = documents_->put(document);
  if (stored.ok()) return std::nullopt;
  spdlog::error("response in the background not stored id={}: {}", job.id, stored.error().text);
  return ApiError{503,
                  "The response cannot be stored, so that a stop would lose it; the server's log says why",
                  {},
                  "store_failed",
                  {}};
}

void ResponseStore::drop_job(const std::string& id) {
  if (const auto gone = documents_->take(job_document_id(id)); !gone.ok()) {
    spdlog::error("response in the background not removed id={}: {}", id, gone.error().text);
  }
}

void ResponseStore::note_attempts(const std::string& id, int64_t attempts) {
  marks_.post([this, id, attempts] {
    if (const Status noted = documents_->set_mark(job_document_id(id), attempts); !noted.ok()) {
      spdlog::error("attempt not noted id={}: {}", id, noted.error().text);
    }
  });
}

std::vector<ResponseJob> ResponseStore::jobs() {
  std::vector<ResponseJob> jobs;
  auto documents = documents_->lasting();
  if (!documents.ok()) spdlog::error("responses in the background not read: {}", documents.error().text);
  for (Document& document : documents.ok() ? *documents : std::vector<Document>()) {
    if (is_job(document.id)) jobs.push_back(job_facts(std::move(document)));
  }
  return jobs;
}

std::optional<ResponseJob> ResponseStore::find_job(const std::string& id) {
  const auto document = documents_->find(job_document_id(id));
  if (!document.ok())
    spdlog::error("response in the background not read id={}: {}", id, document.error().text);
  if (!document.ok() || !*document) return std::nullopt;
  return job_of(**document);
}

}  // namespace fulmar
